//go:build !sandbox_front

package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/attack"
	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/orchestrator"
)

// selfTestWithin bounds the self-test as a whole.
const selfTestWithin = 30 * time.Minute

// selfTest attacks a throw-away sandbox, beside a second one that must not
// notice, and removes both.
func selfTest(ctx context.Context, o cli.Options, who config.Who, flags *config.SandboxSettings) (attack.Report, error) {
	h, err := open(o)
	if err != nil {
		return attack.Report{}, err
	}
	defer h.Close()
	settings, err := h.Settings()
	if err != nil {
		return attack.Report{}, err
	}
	r, err := config.Resolve(settings, who, flags)
	if err != nil {
		return attack.Report{}, err
	}
	flags = alone(flags, r)
	disks := []string{h.State().Path()}
	if engine, err := h.Engine(); err == nil {
		if p, err := engine.Posture(ctx); err == nil && p.RootDir != "" {
			disks = append(disks, p.RootDir)
		}
	}
	var report attack.Report
	ctx, done := context.WithTimeout(ctx, selfTestWithin)
	defer done()
	err = lend(ctx, h, who, flags, func(neighbour sandbox.Sandbox, _ sandbox.Spec) error {
		return lend(ctx, h, who, flags, func(victim sandbox.Sandbox, s sandbox.Spec) error {
			report = attack.Run(ctx, victim, s, attack.Options{
				Neighbour:      neighbour,
				Reopen:         func(ctx context.Context) (sandbox.Sandbox, error) { return reopen(ctx, h, s) },
				WorkspaceQuota: int64(r.WorkspaceQuota),
				Disks:          disks,
				NoMemoryLimit:  noMemoryLimit(s.Provider),
				Firewall:       firewall(s.Provider),
				Known:          knownWays(s.Provider),
				Progress:       func(r attack.Result) { o.Log.Infof("%s: %s: %s", r.Name, r.Outcome, r.Seen) },
			})
			return nil
		})
	})
	return report, err
}

// noMemoryLimit says why a provider enforces no limit of memory, or nothing.
func noMemoryLimit(provider string) string {
	if provider == "local" {
		return "a local sandbox has no control group, so nothing bounds the memory of a sandbox; limits.memory bounds each command"
	}
	return ""
}

// firewall says what closes the network of a provider's sandboxes that have an
// interface all the same, or nothing.
func firewall(provider string) string {
	if provider == config.KubernetesProvider {
		return "every pod has an interface, which the network policy closes; each pod is tried when it is made"
	}
	return ""
}

// knownWays are those that a provider cannot close, see docs/kubernetes.md.
func knownWays(provider string) []attack.Known {
	if provider != config.KubernetesProvider {
		return nil
	}
	return []attack.Known{{
		Name: "own-namespaces", Seen: "shared with the host: cgroup:…",
		Why: "runtimes give pods a namespace of control groups only on nodes with their version 2",
	}}
}

// reopen returns another handle to the sandbox of s.
func reopen(ctx context.Context, h *orchestrator.Orchestrator, s sandbox.Spec) (sandbox.Sandbox, error) {
	p, err := h.Providers().Get(s.Provider)
	if err != nil {
		return nil, err
	}
	return p.Open(ctx, s)
}

// alone returns flags with which the sandbox is not shared, whatever the
// settings say: the attack must hit no sandbox and no folder in use.
func alone(flags *config.SandboxSettings, r config.Resolved) *config.SandboxSettings {
	var own config.SandboxSettings
	if flags != nil {
		own = *flags
	}
	own.Enabled, own.FailIfUnavailable = new(true), new(true)
	commands := config.CommandSettings{}
	if own.Commands != nil {
		commands = *own.Commands
	}
	commands.AllowUnsandboxed = new(false) // never on the host
	own.Commands = &commands
	own.Mode, own.Scope = new(sandbox.ModeAll), new(sandbox.ScopeSession)
	if r.WorkspaceAccess == sandbox.AccessRW || r.Private() {
		own.WorkspaceAccess = new(sandbox.AccessNone)
	}
	return &own
}

// lend makes a sandbox for a session of its own, calls fn with it and
// removes it.
func lend(ctx context.Context, h *orchestrator.Orchestrator, who config.Who, flags *config.SandboxSettings, fn func(sandbox.Sandbox, sandbox.Spec) error) error {
	var id [8]byte
	rand.Read(id[:]) // never fails
	who.Session = "doctor-" + hex.EncodeToString(id[:])
	m, err := h.Manager()
	if err != nil {
		return err
	}
	return m.Lend(ctx, manager.Request{Who: who, Flags: flags, Remove: true}, fn)
}
