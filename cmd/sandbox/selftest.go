//go:build !sandbox_front

package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/attack"
	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/orchestrator"
	"github.com/bulkhead-dev/sandbox/provider/local"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
)

// selfTestWithin bounds the self-test as a whole.
const selfTestWithin = 30 * time.Minute

// selfTest attacks a temporary sandbox, beside a second one that must not
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
	err = withSandbox(ctx, h, who, flags, func(neighbour sandbox.Sandbox, _ sandbox.Spec) error {
		return withSandbox(ctx, h, who, flags, func(victim sandbox.Sandbox, s sandbox.Spec) error {
			report = attack.Run(ctx, victim, s, attack.Options{
				Neighbour:      neighbour,
				Reopen:         func(ctx context.Context) (sandbox.Sandbox, error) { return reopen(ctx, h, s) },
				WorkspaceQuota: int64(r.WorkspaceQuota),
				Disks:          disks,
				NoMemoryLimit:  noMemoryLimit(s),
				Firewall:       firewall(s.Provider),
				Known:          knownWays(s.Provider),
				Progress:       func(r attack.Result) { o.Log.Infof("%s: %s: %s", r.Name, r.Outcome, r.Seen) },
			})
			return nil
		})
	})
	return report, err
}

// noMemoryLimit says why the sandbox of s has no limit of memory, or nothing.
func noMemoryLimit(s sandbox.Spec) string {
	switch s.Provider {
	case local.LandlockName:
		return "there is no control group, so nothing bounds the memory of a sandbox; limits.memory bounds each command"
	case local.LocalName:
		for _, note := range local.Notes(s, launch.FindGroups()) {
			if strings.HasPrefix(note, "docker.memory ") {
				return note
			}
		}
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
	if provider == local.LandlockName {
		gaps, _ := local.CheckLandlock(nil)
		var list []attack.Known
		for _, g := range gaps {
			for _, name := range g.Attempts {
				list = append(list, attack.Known{Name: name, Any: true, Why: g.Code + ": " + g.Text})
			}
		}
		return list
	}
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

// withSandbox makes a sandbox for a session of its own, calls fn with it and
// removes it.
func withSandbox(ctx context.Context, h *orchestrator.Orchestrator, who config.Who, flags *config.SandboxSettings, fn func(sandbox.Sandbox, sandbox.Spec) error) error {
	var id [8]byte
	rand.Read(id[:]) // never fails
	who.Session = "doctor-" + hex.EncodeToString(id[:])
	m, err := h.Manager()
	if err != nil {
		return err
	}
	return m.WithSandbox(ctx, manager.Request{Who: who, Flags: flags, Remove: true}, fn)
}
