//go:build linux

package main

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// perSandbox is how many connections each of many sandboxes has.
const perSandbox = 10

// egressProxy measures one kind of work through the proxy, beside the same program
// on the host without it: n requests a sample, or one download. Both talk to
// the same server in this program, and so does the proxy.
func (s *Session) egressProxy(work string, n, rounds int) func(context.Context) (operation, error) {
	return func(ctx context.Context) (operation, error) {
		op := operation{rounds: rounds, cold: n == 1}
		out, err := s.prepareLoad(ctx)
		if err != nil {
			return op, err
		}
		args := []string{"-at", out.Web, "-n", strconv.Itoa(n)}
		if work == "tunnel" || work == "fetch" {
			op.bytes = s.Effort.Bytes
			args = append(args, "-bytes", strconv.FormatInt(op.bytes, 10))
		}
		var open []func() error
		op.done = func() error { return closeAll(open) }
		host, err := s.Rig.StartLoad(ctx, nil, append(args, work)...)
		if err != nil {
			return op, err
		}
		open = append(open, host.Close)
		op.ways = []way{{name: WayHost, turn: 1, take: once(host)}}
		for _, g := range s.everyGuest() {
			w := way{name: g.name, turn: 1, lacks: s.noLocal}
			if g.sb != nil {
				addr, egressProxy, err := out.Open(ctx, g.sb, g.name)
				if err != nil {
					return op, errors.Join(err, op.done())
				}
				open = append(open, egressProxy.Close)
				load, err := s.Rig.StartLoad(ctx, g.sb, append([]string{"-proxy", addr}, append(args, work)...)...)
				if err != nil {
					return op, errors.Join(err, op.done())
				}
				open = append(open, load.Close)
				w.take, w.lacks = once(load), ""
			}
			op.ways = append(op.ways, w)
		}
		return op, nil
	}
}

// prepareLoad starts the outside and puts the program into the workspaces.
func (s *Session) prepareLoad(ctx context.Context) (*rigOutside, error) {
	if err := s.Rig.BuildLoad(ctx); err != nil {
		return nil, err
	}
	names := []string{s.Rig.Spec.Name}
	if s.local != nil {
		names = append(names, s.local.Spec.Name)
	}
	for _, name := range names {
		if err := s.Rig.PlaceLoad(name); err != nil {
			return nil, err
		}
	}
	return s.Rig.OpenOutside()
}

// everyGuest returns the local sandbox, which may be missing, and the
// container.
func (s *Session) everyGuest() []guestWay {
	l := guestWay{name: WayLocal}
	if s.local != nil {
		l.sb = s.local.Sandbox
	}
	return append([]guestWay{l}, s.guests()...)
}

// once is a sample of what the program does.
func once(l *rigLoad) sample {
	return func(ctx context.Context) ([]time.Duration, error) {
		type answer struct {
			times []time.Duration
			err   error
		}
		done := make(chan answer, 1)
		go func() {
			times, err := l.Once()
			done <- answer{times, err}
		}()
		select {
		case a := <-done:
			return a.times, a.err
		case <-ctx.Done(): // the program ends with the run, and the answer with it
			return nil, context.Cause(ctx)
		}
	}
}

func closeAll(open []func() error) error {
	var errs []error
	for i := len(open) - 1; i >= 0; i-- {
		errs = append(errs, open[i]())
	}
	return errors.Join(errs...)
}

// hold lets many sandboxes open some connections each at once. All of them
// are open before the first is answered, and the time is that until the last
// is. Beside it are as many programs on the host, without the proxy.
func (s *Session) hold(ctx context.Context) (operation, error) {
	op := operation{rounds: 10, settle: settleMany, cold: true}
	if s.local == nil {
		op.ways = []way{{name: WayHost, lacks: s.noLocal}, {name: WayLocal, lacks: s.noLocal}}
		return op, nil
	}
	out, err := s.prepareLoad(ctx)
	if err != nil {
		return op, err
	}
	var open []func() error
	op.done = func() error { return closeAll(open) }
	args := []string{"-at", out.Meet, "-n", strconv.Itoa(perSandbox), "hold"}
	var direct, through []*rigLoad
	p := s.Rig.LocalProvider()
	for i := range s.Effort.Sandboxes {
		l, err := s.Rig.StartLoad(ctx, nil, args...)
		if err == nil {
			open, direct = append(open, l.Close), append(direct, l)
			l, err = s.holdInside(ctx, p, out, i, args, &open)
		}
		if err != nil {
			return op, errors.Join(err, op.done())
		}
		through = append(through, l)
	}
	if err := s.holding(ctx, out, direct, through); err != nil {
		return op, errors.Join(err, op.done())
	}
	op.ways = []way{
		{name: WayHost, turn: 1, take: s.meet(out, direct)},
		{name: WayLocal, turn: 1, take: s.meet(out, through)},
	}
	return op, nil
}

// holdInside makes the sandbox i with an egress session, and the program in it.
func (s *Session) holdInside(ctx context.Context, p sandbox.Provider, out *rigOutside, i int, args []string, open *[]func() error) (*rigLoad, error) {
	spec, err := s.Rig.LocalSpec("hold-" + strconv.Itoa(i))
	if err != nil {
		return nil, err
	}
	if err := s.Rig.PlaceLoad(spec.Name); err != nil {
		return nil, err
	}
	if _, err := p.Create(ctx, spec); err != nil {
		return nil, err
	}
	*open = append(*open, func() error { return p.Remove(context.WithoutCancel(ctx), spec.Name) })
	sb, err := p.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	*open = append(*open, sb.Close)
	addr, w, err := out.Open(ctx, sb, spec.Name)
	if err != nil {
		return nil, err
	}
	*open = append(*open, w.Close)
	l, err := s.Rig.StartLoad(ctx, sb, append([]string{"-proxy", addr}, args...)...)
	if err == nil {
		*open = append(*open, l.Close)
	}
	return l, err
}

// meet is a sample in which all programs hold their connections together.
func (s *Session) meet(out *rigOutside, all []*rigLoad) sample {
	return func(ctx context.Context) ([]time.Duration, error) { return s.allMeet(ctx, out, all, nil) }
}

func (s *Session) allMeet(ctx context.Context, out *rigOutside, all []*rigLoad, then func()) ([]time.Duration, error) {
	out.Expect(len(all)*perSandbox, then)
	errs := make([]error, len(all))
	begun := time.Now()
	var wg sync.WaitGroup
	for i, l := range all {
		wg.Go(func() { _, errs[i] = once(l)(ctx) })
	}
	wg.Wait()
	return []time.Duration{time.Since(begun)}, errors.Join(errs...)
}

// holding measures by how much this program, which has the proxy and the
// server in it, is larger while all connections are open. What the server
// alone takes is known from the direct ones and left out.
func (s *Session) holding(ctx context.Context, out *rigOutside, direct, through []*rigLoad) error {
	var grown [2]reportMemory
	for i, all := range [][]*rigLoad{direct, through} {
		if _, err := s.allMeet(ctx, out, all, nil); err != nil { // what is made once is there then
			return err
		}
		before, err := ownMemory("")
		if err != nil {
			return err
		}
		var during reportMemory
		var duringErr error
		if _, err := s.allMeet(ctx, out, all, func() { during, duringErr = ownMemory("") }); err != nil || duringErr != nil {
			return errors.Join(err, duringErr)
		}
		grown[i] = reportMemory{RSS: during.RSS - before.RSS, PSS: during.PSS - before.PSS}
	}
	s.held = append(s.held, reportMemory{State: memoryHold, Processes: 1, RSS: grown[1].RSS - grown[0].RSS, PSS: grown[1].PSS - grown[0].PSS})
	return nil
}
