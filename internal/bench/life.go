//go:build linux

package main

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
)

// operations lists everything that is measured, in the order of the table.
func (s *Session) operations() []prepared {
	all := slices.Concat(s.oneBox(), s.withDaemon(), s.withE2B(), s.others())
	if s.Program != "" {
		all = append(all,
			prepared{OpOneShot, s.oneShot},
			prepared{OpUserOnce, s.once(ordinary, false)}, prepared{OpUserRepo, s.once(ordinary, true)},
			prepared{OpRootOnce, s.once(0, false)}, prepared{OpRootRepo, s.once(0, true)},
			prepared{OpProgram, s.program})
		all = append(all, s.languageOps()...)
	}
	return all
}

// withDaemon lists what a daemon does, where there is a program to start one.
func (s *Session) withDaemon() []prepared {
	if s.Program == "" {
		return nil
	}
	return []prepared{{OpServed, s.served}, {OpTool, s.tool}, {OpWarm, s.warm}, {OpServed1M, s.servedRead}, {OpPort, s.forwarded}, {OpPortLarge, s.forwardedLarge},
		{OpKeep, s.keeping}, {OpCopy, s.copying}, {OpRollback, s.rollingBack}, {OpDiff, s.comparing}, {OpFork, s.forking}, {OpChain, s.chained}}
}

// oneBox lists what is done in the rig's container, and with ones like it.
func (s *Session) oneBox() []prepared {
	return []prepared{
		{OpPing, s.ping},
		{OpExec, s.exec},
		{OpRested, s.rested},
		{OpBuiltin, s.builtin},
		{OpAssign, s.assignment},
		{OpStat, s.stat},
		{OpRead4K, s.read(4 << 10)},
		{OpWrite4K, s.write(4 << 10)},
		{OpRead1M, s.read(1 << 20)},
		{OpWrite1M, s.write(1 << 20)},
		{OpRead64M, s.read(s.Effort.Large)},
		{OpWrite64M, s.write(s.Effort.Large)},
		{OpList, s.list},
		{OpCallers16, s.callers(16)},
		{OpCallers64, s.callers(64)},
		{OpStart, s.start},
		{OpClaim, s.claim},
		{OpBurst, s.burst},
	}
}

// others lists everything else.
func (s *Session) others() []prepared {
	return []prepared{
		{OpSandboxStart, s.sandboxStartHere},
		{opDecide, s.decide},
		{opDecide64K, s.decideLong},
		{OpProfile, s.profile},
		{OpGuard, s.guard},
		{OpOperate, s.underGrant},
		{OpRequest, s.egressProxy("request", 20, 60)},
		{OpConnect, s.egressProxy("connect", 20, 30)},
		{OpTunnel, s.egressProxy("tunnel", 1, 8)},
		{OpFetch, s.egressProxy("fetch", 1, 8)},
		{OpHold, s.hold},
		{OpBrowser, s.withBrowsers(s.browserStart, WayEngine, WaySocket)},
		{OpShot, s.withBrowsers(s.browserShot(false), WaySocket)},
		{OpPage, s.withBrowsers(s.browserShot(true), WaySocket)},
		{OpDevTools, s.withBrowsers(s.browserTrip, WayEngine, WaySocket)},
	}
}

// memory measures what the guest takes before it has done anything, after
// many commands, and with a relay beside it, each time after some seconds of
// rest. The relay stays open.
func (s *Session) memory(ctx context.Context) ([]reportMemory, error) {
	s.Log("memory")
	var all []reportMemory
	for _, step := range []struct {
		state string
		do    func(ctx context.Context) error
	}{
		{memoryFresh, func(context.Context) error { return nil }},
		{memoryUsed, s.manyCommands},
		{memoryRelay, s.Rig.OpenRelay},
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
		{name: WayEngine, turn: 1, take: timed(engine, remove)},
		{name: WaySocket, turn: 1, take: timed(guest, remove)},
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
	return operation{rounds: 50, cold: true, ways: []way{{name: WayHost, turn: 1, take: timed(do, nil)}}}, nil
}
