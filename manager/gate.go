package manager

import (
	"context"
	"fmt"
	"runtime"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/provider"
)

// hostName is the provider without isolation. Settings cannot name it: only
// the gate selects it.
const hostName = provider.HostName

// A Place is where the commands of a session run.
type Place string

// The places. Refused means that they are refused.
const (
	Sandboxed   Place = "wall"
	Unsandboxed Place = "host"
	Refused     Place = "nowhere"
)

// A Gate says where the commands of a session run, and why.
type Gate struct {
	Place  Place  `json:"place"`
	Reason string `json:"reason"`
	Field  string `json:"field,omitempty"` // the setting that decided against a sandbox
}

// A platform is what enabledPlatforms is about.
type platform struct {
	os  string // as runtime.GOOS has it
	wsl bool   // Linux inside Windows
}

// name is the platform's name in settings.
func (p platform) name() string {
	if p.wsl {
		return "wsl"
	}
	return p.os
}

// An outing is what one call has to do with leaving the sandbox.
type outing struct {
	asked    bool // it asks to run without one
	excluded bool // commands.excluded matches all of it
}

// placement is the one decision about running without a sandbox. sandbox says why the
// sandbox cannot be built, nil when that is not known to be so; host, whether
// this program can run commands without one.
//
// Outside of a sandbox is only what settings leave outside, by enabled, mode or
// enabledPlatforms, by commands.excluded, or by failIfUnavailable where the
// sandbox is missing, and a call that asks for it; and all of them only when
// commands.allowUnsandboxed says so as well. Otherwise an excluded command
// runs inside like any other, and everything else is refused.
func placement(res config.Resolved, at platform, wall error, host bool, o outing) Gate {
	g := Gate{Place: Refused}
	stays := "" // why an excluded command runs inside all the same
	if o.excluded && !o.asked {
		switch {
		case !res.Commands.AllowUnsandboxed:
			stays = "; commands.excluded matches, but commands.allowUnsandboxed is false"
		case !host:
			stays = "; commands.excluded matches, but this program cannot run commands without a sandbox"
		}
	}
	switch {
	case !res.PlatformEnabled(at.os, at.wsl):
		g.Field, g.Reason = "enabledPlatforms", "enabledPlatforms does not name "+at.name()
	case !res.Enabled:
		g.Field, g.Reason = "enabled", res.Reason
	case !res.Sandboxed:
		g.Field, g.Reason = "mode", res.Reason
	case o.asked:
		g.Field, g.Reason = "dangerouslyDisableSandbox", "the call asks to run without a sandbox"
	case o.excluded && stays == "":
		g.Field, g.Reason = "commands.excluded", "commands.excluded matches every command of the line"
	case wall == nil:
		return Gate{Place: Sandboxed, Reason: res.Reason + stays}
	case res.FailIfUnavailable:
		g.Field, g.Reason = "failIfUnavailable", "the sandbox cannot be built and failIfUnavailable is true"
		return g
	default:
		g.Field, g.Reason = "failIfUnavailable", fmt.Sprintf("the sandbox cannot be built and failIfUnavailable is false (%v)", wall)
	}
	switch {
	case !res.Commands.AllowUnsandboxed:
		g.Reason += ", and commands.allowUnsandboxed is false"
	case !host:
		g.Reason += ", and this program cannot run commands without a sandbox"
	default:
		g.Place, g.Reason = Unsandboxed, g.Reason+", and commands.allowUnsandboxed is true"
	}
	return g
}

// placement is where the commands of res run as far as settings decide.
func (gs *gates) placement(res config.Resolved) Gate {
	_, noHost := gs.m.providers.Get(hostName)
	return placement(res, platform{runtime.GOOS, gs.m.host.WSL}, nil, noHost == nil, outing{})
}

// refusal is the error for commands that run nowhere. Where a sandbox was wanted
// the reason why there is none is the error.
func (g Gate) refusal(wall error) error {
	if wall != nil {
		return wall
	}
	if g.Field == "dangerouslyDisableSandbox" {
		return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "resolve", Field: g.Field,
			Message: "the command is not run: " + g.Reason, Hint: "run it inside the sandbox, or have the settings allow it: commands.allowUnsandboxed"}
	}
	return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "resolve", Field: g.Field,
		Message: "this session is not sandboxed (" + g.Reason + "), so its commands are not run",
		Hint:    "change the setting, or use another session; see: sandbox explain"}
}

// A place is where a call goes.
type place struct {
	provider sandbox.Provider
	why      string // this provider
	gate     Gate
}

// enter decides where a call of the session of res runs. For a call with
// effects it returns an error if there is no such place, and logs each call
// that runs outside of a sandbox.
func (gs *gates) enter(ctx context.Context, res config.Resolved, o outing, i intent) (place, error) {
	host, noHost := gs.m.providers.Get(hostName)
	g := placement(res, platform{runtime.GOOS, gs.m.host.WSL}, nil, noHost == nil, o)
	var p sandbox.Provider
	var why string
	var wall error
	if g.Place == Sandboxed || g.Place == Refused && i == observe {
		p, why, wall = gs.m.describer.choose(ctx, res)
		if wall == nil && g.Place == Sandboxed && !res.FailIfUnavailable {
			wall = probe(ctx, p, res.ProviderOptions)
		}
		if g.Place == Sandboxed && sandbox.CodeOf(wall) == sandbox.CodeUnavailable {
			g = placement(res, platform{runtime.GOOS, gs.m.host.WSL}, wall, noHost == nil, o)
		}
	}
	switch {
	case g.Place == Unsandboxed:
		if i == effects {
			gs.m.log.Warnf("commands of session %q run on the host without a sandbox: %s", res.Session, g.Reason)
		}
		return place{host, g.Reason, g}, nil
	case wall != nil:
		return place{gate: g}, wall
	case g.Place == Refused && i == effects:
		return place{gate: g}, g.refusal(nil)
	}
	return place{p, why, g}, nil
}

// probe asks whether the sandbox of p can be built now with these options, where
// p can tell. The end of ctx is no answer, and neither are options that are
// not valid.
func probe(ctx context.Context, p sandbox.Provider, options map[string]any) error {
	err := provider.Probe(ctx, p, options)
	switch {
	case err == nil:
		return nil
	case sandbox.CodeOf(err) == sandbox.CodeValidation:
		return err
	case ctx.Err() != nil:
		return &sandbox.Error{Code: sandbox.CodeTimeout, Op: "probe", Message: "the call ended before the sandbox was looked at", Err: ctx.Err()}
	}
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "probe", Resource: p.Name(), Message: "the sandbox cannot be built", Hint: "see what it needs with: sandbox doctor", Retryable: true, Err: err}
}

// openHost makes the workspace of a session outside of sandboxes ready, and opens
// what runs its commands.
func (b *builder) openHost(ctx context.Context, w *want) (*acquired, error) {
	held, err := b.m.leases.Shared(ctx, w.spec.Name)
	if err != nil {
		return nil, err
	}
	if err := b.prepare(ctx, w, w.spec); err != nil {
		held.Release()
		return nil, err
	}
	sb, err := w.provider.Open(ctx, w.spec)
	if err != nil {
		held.Release()
		return nil, err
	}
	return &acquired{Sandbox: sb, provider: w.provider, spec: w.spec, want: w, scratch: w.scratch(), held: held, letGo: func() { sb.Close() }}, nil
}
