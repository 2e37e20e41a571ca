//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// truePath is the program whose run costs nothing but fork and exec.
const truePath = "/bin/true"

// A pinger is an open sandbox that can be asked for a sign of life.
type pinger interface {
	Ping(ctx context.Context) error
}

// ping is one round trip without any work at its end.
func (s *Session) ping(context.Context) (operation, error) {
	socket, ok := s.Rig.Socket.(pinger)
	relay, ok2 := s.Rig.Relay.(pinger)
	if !ok || !ok2 {
		return operation{}, wrong("the sandbox cannot be pinged")
	}
	return operation{rounds: 100, ways: []way{
		{name: WayEngine, turn: 10, take: timed(s.Rig.Plain.Ping, nil)},
		{name: WaySocket, turn: 20, take: timed(socket.Ping, nil)},
		{name: WayRelay, turn: 20, take: timed(relay.Ping, nil)},
	}}, nil
}

// exec runs /bin/true with its output captured, as every caller does.
func (s *Session) exec(context.Context) (operation, error) {
	op := operation{rounds: 100, ways: []way{
		{name: WayEngine, turn: 3, take: timed(s.plainExec(truePath), nil)},
		{name: WaySocket, turn: 15, take: timed(start(s.Rig.Socket, truePath), nil)},
		{name: WayRelay, turn: 15, take: timed(start(s.Rig.Relay, truePath), nil)},
		{name: WayHost, turn: 15, take: timed(hostExec(truePath), nil)},
	}}
	return s.locally(op, 15, func(l *rigLocal) sample { return timed(start(l.Sandbox, truePath), nil) }), nil
}

// rested is exec by a caller that does something else between its commands,
// as an agent does: processor and kernel have gone to sleep meanwhile.
func (s *Session) rested(ctx context.Context) (operation, error) {
	op, err := s.exec(ctx)
	op.settle, op.cold, op.rounds = rest, true, 80
	for i := range op.ways {
		op.ways[i].turn = 1
	}
	return op, err
}

// plainExec runs args by the engine's exec. They must succeed and say nothing.
func (s *Session) plainExec(args ...string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		var out, errOut bytes.Buffer
		code, err := s.Rig.Plain.Exec(ctx, s.Rig.Info.ID, plainCommand{Args: args, Stdout: &out, Stderr: &errOut})
		return silent(code, &out, &errOut, err)
	}
}

// start runs args through the guest. They must succeed and say nothing.
func start(sb sandbox.Sandbox, args ...string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		var out, errOut bytes.Buffer
		p, err := sb.Start(ctx, sandbox.Command{Args: args, Stdout: &out, Stderr: &errOut})
		if err != nil {
			return err
		}
		exit, err := p.Wait()
		return silent(exit.Code, &out, &errOut, err)
	}
}

func hostExec(args ...string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		var out, errOut bytes.Buffer
		c := exec.CommandContext(ctx, args[0], args[1:]...)
		c.Stdout, c.Stderr = &out, &errOut
		return silent(0, &out, &errOut, c.Run())
	}
}

func silent(code int, out, errOut *bytes.Buffer, err error) error {
	if err == nil && (code != 0 || out.Len() > 0 || errOut.Len() > 0) {
		err = wrong("exit status %d, output %q, errors %q", code, out, errOut)
	}
	return err
}

// builtin runs a line without a process of its own in a shell that stays.
// The plain engine has no such shell: it starts one for each line.
func (s *Session) builtin(ctx context.Context) (operation, error) { return s.line(ctx, ":") }

// assignment is such a line that changes its shell.
func (s *Session) assignment(ctx context.Context) (operation, error) { return s.line(ctx, "x=1") }

func (s *Session) line(ctx context.Context, text string) (operation, error) {
	op := operation{rounds: 60, ways: []way{
		{name: WayEngine, turn: 3, take: timed(s.plainExec("sh", "-c", text), nil)},
	}}
	var open []sandbox.Shell
	op.done = func() error {
		var errs []error
		for _, sh := range open {
			errs = append(errs, sh.Close())
		}
		return errors.Join(errs...)
	}
	guests := s.guests()
	if s.local != nil {
		guests = append(guests, guestWay{WayLocal, s.local.Sandbox})
	}
	for _, g := range guests {
		sh, err := g.sb.OpenShell(ctx, sandbox.ShellOptions{ID: "bench-" + g.name})
		why, err := unsupported(err)
		if err != nil {
			return op, errors.Join(err, op.done())
		}
		w := way{name: g.name, turn: 20, lacks: why}
		if why == "" {
			open = append(open, sh)
			w.take = timed(runLine(sh, text), nil)
		}
		op.ways = append(op.ways, w)
	}
	if s.local == nil {
		op.ways = append(op.ways, way{name: WayLocal, lacks: s.noLocal})
	}
	return op, nil
}

// runLine runs a line, which must succeed and say nothing.
func runLine(sh sandbox.Shell, line string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		var out, errOut bytes.Buffer
		p, err := sh.Run(ctx, line, sandbox.Command{Stdout: &out, Stderr: &errOut})
		if err != nil {
			return err
		}
		exit, err := p.Wait()
		if err == nil && exit.Restarted {
			err = wrong("the shell was started again")
		}
		return silent(exit.Code, &out, &errOut, err)
	}
}

// A guestWay is the sandbox by one way to its guest.
type guestWay struct {
	name string
	sb   sandbox.Sandbox
}

func (s *Session) guests() []guestWay {
	return []guestWay{{WaySocket, s.Rig.Socket}, {WayRelay, s.Rig.Relay}}
}

// callers lets n callers run /bin/true at once, each several times in a row.
// A command of the plain engine takes so long that each of its callers runs
// one only.
func (s *Session) callers(n int) func(context.Context) (operation, error) {
	return func(context.Context) (operation, error) {
		each := s.Effort.Callers
		return operation{rounds: 10, settle: settleMany, cold: true, ways: []way{
			{name: WayEngine, turn: 1, take: together(n, 1, s.plainExec(truePath))},
			{name: WaySocket, turn: 1, take: together(n, each, start(s.Rig.Socket, truePath))},
			{name: WayRelay, turn: 1, take: together(n, each, start(s.Rig.Relay, truePath))},
			{name: WayHost, turn: 1, take: together(n, each, hostExec(truePath))},
		}}, nil
	}
}

// together is a sample in which n callers do the same at once, each of them
// `each` times in a row.
func together(n, each int, do func(ctx context.Context) error) sample {
	return func(ctx context.Context) ([]time.Duration, error) {
		times := make([]time.Duration, n*each)
		errs := make([]error, n)
		gate := make(chan struct{})
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				<-gate
				for j := range each {
					begun := time.Now()
					if errs[i] = do(ctx); errs[i] != nil {
						return
					}
					times[i*each+j] = time.Since(begun)
				}
			})
		}
		close(gate)
		wg.Wait()
		return times, errors.Join(errs...)
	}
}
