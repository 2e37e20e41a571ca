package manager

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

// A seat is where a shell that stays is: in one handle, which it keeps open.
type seat struct {
	inner   sandbox.Shell
	name    string // of the sandbox
	handle  *handle
	hash    string // of the Spec, where there is no handle
	limits  sandbox.Limits
	exit    *caller // its part of the egress session; or nil
	release func()  // lets go of the handle
	frozen  func(*handle) bool
}

// leave ends the shell and what it holds. In a frozen sandbox the guest
// receives the request and carries it out when it is thawed; leave does not
// wait for that.
func (at *seat) leave() error {
	_, err := drainAndClose(func() bool { return at.handle != nil && at.frozen(at.handle) }, at.inner.Close)
	at.exit.end()
	at.release()
	return err
}

// fits reports whether the shell can go on in l.
func (at *seat) fits(l *acquired) bool {
	if l.handle == nil {
		return at.handle == nil && at.hash == l.want.hash && at.limits == l.spec.Limits
	}
	return at.handle == l.handle
}

// lastPatience is how long the sandbox that a shell is in may take to answer
// there when it has just answered elsewhere. It is long because who gives a shell
// up loses what it holds, and on a busy machine a guest stands still for seconds.
const lastPatience = 15 * time.Second

// stays reports whether the shell can go on where it is although l has another
// handle. A handle that did not answer in time was forgotten, which on a busy
// machine says nothing about the sandbox; the handle of a sandbox that is gone
// never answers.
func (at *seat) stays(ctx context.Context, l *acquired) bool {
	return at.handle != nil && l.handle != nil && at.handle.alike(l.handle) && at.handle.answers(ctx, lastPatience)
}

// settle makes sure that the shell is in l, and that what the shell connects to
// is attributed to req. The caller has the turn, or has the shell alone.
func (s *Shell) settle(ctx context.Context, l *acquired, req *Request) error {
	old := s.at()
	if old != nil && old.exit.stands() && (old.fits(l) || old.stays(ctx, l)) {
		if old.exit != nil {
			old.exit.request.Store(req)
			old.exit.span.Store(sandbox.SpanOf(ctx))
		}
		return nil
	}
	at, err := s.sit(ctx, l, req, old)
	if err != nil {
		return err
	}
	s.mu.Lock()
	over := s.isClosed()
	if !over {
		s.seat = at
	}
	s.mu.Unlock()
	if over {
		at.leave()
		return s.closed()
	}
	if old != nil {
		old.leave()
	}
	return nil
}

// stands reports whether the egress session is still open. A nil caller has none, which
// does not change.
func (c *caller) stands() bool {
	if c == nil {
		return true
	}
	select {
	case <-c.session.Done():
		return false
	default:
		return true
	}
}

// sit opens the shell in l, in the state of the old one where sandboxes can do that.
func (s *Shell) sit(ctx context.Context, l *acquired, req *Request, old *seat) (at *seat, err error) {
	at = &seat{name: l.name(), handle: l.handle, hash: l.want.hash, limits: l.spec.Limits, frozen: s.m.freezer.frozen}
	box := l.Sandbox
	if l.handle != nil {
		s.m.handles.share(l.handle)
		at.release = func() { s.m.handles.release(l.handle) }
	} else if box, err = l.provider.Open(ctx, l.spec); err != nil { // the acquired one ends with the line
		return nil, err
	} else {
		at.release = func() { box.Close() }
	}
	r := *req
	r.Command.Env = s.options.Env
	if at.exit, err = s.m.executor.reach(ctx, l, &r); err == nil {
		o := s.options
		o.Env = r.Command.Env
		var proxy map[string]string
		if at.exit != nil {
			proxy = at.exit.Env()
			proxy[config.JavaVariable] = r.Command.Env[config.JavaVariable]
		}
		at.inner, err = s.open(ctx, box, o, proxy, old)
	}
	if err != nil {
		at.exit.end()
		at.release()
		return nil, err
	}
	if at.exit != nil {
		at.exit.request.Store(req)
		at.exit.span.Store(sandbox.SpanOf(ctx))
	}
	return at, nil
}

// A shellMover is a handle in which a shell of another handle of the same
// provider can go on: Exit.Restarted of its next line is set, its state is that
// after the last line that came to its end.
type shellMover interface {
	MoveShell(ctx context.Context, from sandbox.Shell, o sandbox.ShellOptions) (sandbox.Shell, error)
}

// open opens the shell in box. proxy are the variables of o that lead out.
func (s *Shell) open(ctx context.Context, box sandbox.Sandbox, o sandbox.ShellOptions, proxy map[string]string, old *seat) (sandbox.Shell, error) {
	if old == nil {
		o.From = s.m.checkpoints.stateOf(box.Info().Name, o.ID)
		sh, err := box.OpenShell(ctx, o)
		if err == nil {
			s.mu.Lock()
			s.anew, s.rewound = s.rewound, false
			s.mu.Unlock()
		}
		return sh, err
	}
	s.anew = true
	if mover, ok := box.(shellMover); ok && old.handle != nil {
		inner, err := mover.MoveShell(ctx, old.inner, o)
		if err == nil {
			if err = export(ctx, inner, proxy); err == nil {
				return inner, nil
			}
			inner.Close()
		}
		if ctx.Err() != nil {
			return nil, err
		}
	}
	return box.OpenShell(ctx, o)
}

// export sets variables in a shell that has its own from before.
func export(ctx context.Context, in sandbox.Shell, env map[string]string) error {
	if len(env) == 0 {
		return nil
	}
	var line strings.Builder
	line.WriteString("export")
	for _, name := range slices.Sorted(maps.Keys(env)) {
		line.WriteString(" " + name + "='" + strings.ReplaceAll(env[name], "'", `'\''`) + "'")
	}
	p, err := in.Run(ctx, line.String(), sandbox.Command{})
	if err == nil {
		_, err = p.Wait()
	}
	return err
}

// depart makes the shell ready to run a line in l.
func (s *Shell) depart(ctx context.Context, l *acquired, req *Request) (started, error) {
	if err := s.settle(ctx, l, req); err != nil {
		return nil, err
	}
	at := s.at()
	if at == nil {
		return nil, s.closed()
	}
	t := &turn{seat: at, began: s.m.now(), before: at.exit.waited()}
	if before := at.exit.asked(); len(before) > 0 {
		t.answered = before[len(before)-1].Request.ID
	}
	return t, nil
}

// A turn is one line in a shell that stays.
type turn struct {
	seat     *seat
	began    time.Time
	answered string // the last question before
	before   *sandbox.Waited
}

func (t *turn) start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	line := c.Args[len(c.Args)-1]
	return t.seat.inner.Run(ctx, line, sandbox.Command{Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr, Grace: c.Grace})
}

// end implements departure: the egress session stays with what the line has left running.
func (t *turn) end() []sandbox.Violation {
	if t.seat.exit == nil {
		return nil
	}
	var since []sandbox.Violation
	for _, v := range t.seat.exit.Refused() {
		if !v.Time.Before(t.began) {
			since = append(since, v)
		}
	}
	return since
}

// waited implements departure: what the shell's connections have waited since the
// line began.
func (t *turn) waited() *sandbox.Waited {
	now := t.seat.exit.waited()
	if now == nil || t.before == nil {
		return now
	}
	w := sandbox.Waited{Connections: now.Connections - t.before.Connections, Millis: now.Millis - t.before.Millis}
	if w.Connections == 0 {
		return nil
	}
	return &w
}

// asked implements departure. Of many answers a caller keeps the last ones.
func (t *turn) asked() []Answer {
	all := t.seat.exit.asked()
	before := slices.IndexFunc(all, func(a Answer) bool { return a.Request.ID == t.answered })
	return all[before+1:]
}
