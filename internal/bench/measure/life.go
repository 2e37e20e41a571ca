//go:build linux

package measure

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox/internal/bench/report"
)

// operations lists everything that is measured, in the order of the table.
func (s *Session) operations() []prepared {
	all := slices.Concat(s.oneBox(), s.withDaemon(), s.others())
	if s.Program != "" {
		all = append(all,
			prepared{report.OpOneShot, s.oneShot},
			prepared{report.OpUserOnce, s.once(ordinary, false)}, prepared{report.OpUserRepo, s.once(ordinary, true)},
			prepared{report.OpRootOnce, s.once(0, false)}, prepared{report.OpRootRepo, s.once(0, true)},
			prepared{report.OpProgram, s.program})
	}
	return all
}

// withDaemon lists what a daemon does, where there is a program to start one.
func (s *Session) withDaemon() []prepared {
	if s.Program == "" {
		return nil
	}
	return []prepared{{report.OpServed, s.served}, {report.OpTool, s.tool}, {report.OpServed1M, s.servedRead}}
}

// oneBox lists what is done in the rig's container, and with ones like it.
func (s *Session) oneBox() []prepared {
	return []prepared{
		{report.OpPing, s.ping},
		{report.OpExec, s.exec},
		{report.OpRested, s.rested},
		{report.OpBuiltin, s.builtin},
		{report.OpAssign, s.assignment},
		{report.OpStat, s.stat},
		{report.OpRead4K, s.read(4 << 10)},
		{report.OpWrite4K, s.write(4 << 10)},
		{report.OpRead1M, s.read(1 << 20)},
		{report.OpWrite1M, s.write(1 << 20)},
		{report.OpRead64M, s.read(s.Effort.Large)},
		{report.OpWrite64M, s.write(s.Effort.Large)},
		{report.OpList, s.list},
		{report.OpCallers16, s.callers(16)},
		{report.OpCallers64, s.callers(64)},
		{report.OpStart, s.start},
		{report.OpClaim, s.claim},
		{report.OpBurst, s.burst},
	}
}

// others lists everything else.
func (s *Session) others() []prepared {
	return []prepared{
		{report.OpWallStart, s.wallStart},
		{report.OpDecide, s.decide},
		{report.OpDecide64K, s.decideLong},
		{report.OpProfile, s.profile},
		{report.OpGuard, s.guard},
		{report.OpOperate, s.underGrant},
		{report.OpRequest, s.egressProxy("request", 20, 60)},
		{report.OpConnect, s.egressProxy("connect", 20, 30)},
		{report.OpTunnel, s.egressProxy("tunnel", 1, 8)},
		{report.OpFetch, s.egressProxy("fetch", 1, 8)},
		{report.OpHold, s.hold},
		{report.OpBrowser, s.withBrowsers(s.browserStart, report.WayEngine, report.WaySocket)},
		{report.OpShot, s.withBrowsers(s.browserShot(false), report.WaySocket)},
		{report.OpPage, s.withBrowsers(s.browserShot(true), report.WaySocket)},
		{report.OpDevTools, s.withBrowsers(s.browserTrip, report.WayEngine, report.WaySocket)},
	}
}

// memory measures what the guest takes before it has done anything, after
// many commands, and with a relay beside it, each time after some seconds of
// rest. The relay stays open.
func (s *Session) memory(ctx context.Context) ([]report.Memory, error) {
	s.Log("memory")
	var all []report.Memory
	for _, step := range []struct {
		state string
		do    func(ctx context.Context) error
	}{
		{report.MemoryFresh, func(context.Context) error { return nil }},
		{report.MemoryUsed, s.manyCommands},
		{report.MemoryRelay, s.Rig.OpenRelay},
	} {
		if err := step.do(ctx); err != nil {
			return nil, named("memory", step.state, err)
		}
		if err := pause(ctx, s.Effort.Idle); err != nil {
			return nil, err
		}
		m, err := s.Rig.Memory(step.state)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// manyCommands is how a guest looks that has had work.
func (s *Session) manyCommands(ctx context.Context) error {
	do := start(s.Rig.Socket, truePath)
	for range 1000 {
		if err := do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// start makes a sandbox and waits for the first answer of its guest, beside
// an engine that creates and starts the same container with sleep in it. The
// containers are removed after the clock has stopped.
func (s *Session) start(context.Context) (operation, error) {
	r := s.Rig
	spec, err := r.NewSpec(r.Spec.Image, strings.TrimPrefix(r.Spec.Owner.Session, "bench-")+"-start")
	if err != nil {
		return operation{}, err
	}
	remove := func(ctx context.Context) error { return r.Remove(ctx, spec.Name) }
	guest := func(ctx context.Context) error {
		if _, err := r.Provider.Create(ctx, spec); err != nil {
			return err
		}
		sb, err := r.Provider.Open(ctx, spec)
		if err != nil {
			return err
		}
		defer sb.Close()
		p, ok := sb.(pinger)
		if !ok {
			return errors.New("the sandbox cannot be pinged")
		}
		return p.Ping(ctx)
	}
	engine := func(ctx context.Context) error {
		plan, err := r.Plan(spec)
		if err != nil {
			return err
		}
		_, err = r.Plain.Start(ctx, plan, []string{"sleep", "infinity"})
		return err
	}
	return operation{rounds: 20, cold: true, ways: []way{
		{name: report.WayEngine, turn: 1, take: timed(engine, remove)},
		{name: report.WaySocket, turn: 1, take: timed(guest, remove)},
	}}, nil
}

// program starts sandbox(1) for nothing but to tell its version.
func (s *Session) program(context.Context) (operation, error) {
	do := func(ctx context.Context) error {
		out, err := exec.CommandContext(ctx, s.Program, "version").Output()
		if err == nil && len(out) == 0 {
			err = wrong("%s version says nothing", s.Program)
		}
		return err
	}
	return operation{rounds: 50, cold: true, ways: []way{{name: report.WayHost, turn: 1, take: timed(do, nil)}}}, nil
}
