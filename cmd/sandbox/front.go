//go:build sandbox_front

// With the tag sandbox_front this file builds the small front program: it has
// no engine client and carries out what happens in local sandboxes. For
// everything else it executes the complete program that lies beside it. A
// program that loads an engine's client before it runs one command spends a
// tenth of its time on that, which a command in a local sandbox need not.

package main

import (
	"context"
	"os"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/confighash"
	"github.com/bulkhead-dev/sandbox/images/about"
	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/orchestrator"
	"github.com/bulkhead-dev/sandbox/policy/command"
	"github.com/bulkhead-dev/sandbox/prune"
)

// whole executes the whole program in place of this one. It returns only when
// that fails.
func whole() error { return handOver(engineName, "speaks to engines") }

// begin hands on every call that may come to an engine: by its provider, or
// because it is time to sweep the sandboxes of all providers. Folders that
// the engine's address would close are the whole program's to know. So it does
// with one that may reach hosts, whose proxy the front does not link, with one
// that trusts a company's certificates, and with one that has to be on record.
func begin(h func() *orchestrator.Orchestrator) func(context.Context, config.Resolved, manager.Request) error {
	return func(ctx context.Context, res config.Resolved, req manager.Request) error {
		every := time.Duration(res.Prune.Every)
		soon := time.Now().Add(min(every/10, 10*time.Second)) // it must not become due in here
		due := prune.Overdue(h().State().PrunedAt(), every, soon)
		n := res.Network
		reaches := req.Ask || n.Ask || n.AllowPublic || len(n.AllowedDomains) > 0 || len(n.Secrets) > 0
		if res.Provider == "local" && !about.NamesEngine(os.Getenv) && !due && !reaches && res.Docker.CAFile == "" && !res.RecordsCommands() || ctx.Err() != nil {
			return nil // who gave up gets to know from the call
		}
		return whole()
	}
}

// A managerOf uses sandboxes of the local providers. The complete program lists
// and deletes sandboxes.
type managerOf struct{ *manager.Manager }

// Manager implements cli.Backend.
func (backend) Manager(o cli.Options) (cli.Manager, func(), error) {
	if o.Host.Remote() {
		return remoteManager(o)
	}
	go func() {
		command.Prepare()
		_, _ = confighash.Sum(sandbox.Spec{}) // has encoding/json look at the types of a Spec
	}()
	options := optionsOf(o)
	var h *orchestrator.Orchestrator
	options.Begin = begin(func() *orchestrator.Orchestrator { return h })
	h, err := orchestrator.Open(options)
	if err != nil {
		return nil, nil, err
	}
	m, err := h.Manager()
	if err != nil {
		h.Close()
		return nil, nil, err
	}
	return managerOf{m}, h.Close, nil
}

func (managerOf) List(context.Context, manager.ListOptions) (manager.Listing, error) {
	return manager.Listing{}, whole()
}

func (managerOf) Select(context.Context, string, manager.Selector, bool) ([]manager.Row, error) {
	return nil, whole()
}

func (managerOf) Recreate(context.Context, []manager.Row) manager.Recreated {
	panic("nothing can have been selected") // Select does not return any
}

func (managerOf) Prune(context.Context, manager.PruneOptions) (manager.Pruned, error) {
	return manager.Pruned{}, whole()
}

func (managerOf) Explain(context.Context, config.Who, *config.SandboxSettings, manager.Questions) (manager.Explanation, error) {
	return manager.Explanation{}, whole()
}

func (managerOf) Stats(context.Context, string) ([]manager.Stat, error) { return nil, whole() }

func (managerOf) PoolStatus(context.Context) (manager.PoolStatus, error) {
	return manager.PoolStatus{}, whole()
}

// Images implements cli.Backend.
func (backend) Images(cli.Options) (cli.ImageStore, func(), error) { return nil, nil, whole() }

// Browsers implements cli.Backend. Browsers run in containers, and much is
// linked to speak to one.
func (backend) Browsers(o cli.Options) (cli.BrowserDisplay, func(), error) {
	if o.Host.Remote() {
		return remoteBrowsers(o.Host)
	}
	return nil, nil, whole()
}

// Tokens implements cli.Backend.
func (backend) Tokens(o cli.Options) (cli.TokenStore, func(), error) {
	if o.Host.Remote() {
		return remoteTokens(o.Host)
	}
	return nil, nil, whole()
}

// Ports implements cli.Backend. A forward stays while its sandbox may come to be
// another's to carry out, and a listener does not outlast the change.
func (backend) Ports(o cli.Options) (cli.PortStore, func(), error) {
	if o.Host.Remote() {
		return remotePorts(o.Host)
	}
	return nil, nil, whole()
}

// Changes implements cli.Backend.
func (backend) Changes(o cli.Options) (cli.ChangeStore, func(), error) {
	if o.Host.Remote() {
		return remoteChanges(o.Host)
	}
	return nil, nil, whole()
}

// Checkpoints implements cli.Backend. Which sandboxes a fork or a rollback comes to
// is for the whole program to know.
func (backend) Checkpoints(o cli.Options) (cli.CheckpointStore, func(), error) {
	if o.Host.Remote() {
		return remoteCheckpoints(o.Host)
	}
	return nil, nil, whole()
}

// Doctor implements cli.Backend.
func (backend) Doctor(context.Context, cli.Options, config.Who, *config.SandboxSettings, bool) (cli.Diagnosis, error) {
	return cli.Diagnosis{}, whole()
}
