package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/bulkhead-dev/sandbox"
)

// A Standby is a program that was started in a sandbox before the command that it
// will be, so that its start takes no time then. It says on its standard output that
// it is ready, waits for one line of input, {"env": {...}} with the environment of
// the command, and then does what the command does. Until then it is no command of
// anyone's, and what it writes is thrown away.
type Standby struct {
	as   sandbox.Command // that it becomes
	proc sandbox.Process
	end  context.CancelFunc // ends it
	in   *lateInput
	out  *lateOutput
	err  *lateOutput
	gone chan struct{} // closed when it has ended

	mu    sync.Mutex
	taken bool
}

// StandBy starts args with start, and returns when the program is ready. as is the
// command that the program becomes, with everything that provider.Command lays over
// it. The end of ctx gives up the start. A program that ends instead of being ready
// is an error.
func StandBy(ctx context.Context, as sandbox.Command, args []string, start func(context.Context, sandbox.Command) (sandbox.Process, error)) (*Standby, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	s := &Standby{as: as, end: end, in: newLateInput(), out: newLateOutput(), err: newLateOutput(), gone: make(chan struct{})}
	c := as
	c.Args, c.Stdin, c.Stdout, c.Stderr = args, s.in, s.out, s.err
	proc, err := start(life, c)
	if err != nil {
		end()
		return nil, err
	}
	s.proc = proc
	go func() {
		_, _ = proc.Wait() // whoever takes it gets the result
		close(s.gone)
		end()
		s.in.give(nil)
	}()
	select {
	case <-s.out.first:
		return s, nil
	case <-s.gone:
		return nil, errors.New("the program that was to stand by has ended")
	case <-ctx.Done():
		end()
		<-s.gone
		return nil, context.Cause(ctx)
	}
}

// Take makes the program the command c, if c is what it stands by for: the same
// program with the same bounds, in the same folder, whose environment has all that
// the program was started with. Environment and streams are those of c, and the end
// of ctx ends it. It is taken once. A command of the same arguments that is another
// one otherwise ends the program, which would be of no use any more. c has everything
// that provider.Command lays over it.
func (s *Standby) Take(ctx context.Context, c sandbox.Command) (sandbox.Process, bool) {
	if s == nil || !slices.Equal(s.as.Args, c.Args) || ctx.Err() != nil {
		return nil, false
	}
	line, err := json.Marshal(map[string]map[string]string{"env": c.Env})
	if err != nil {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.gone:
		return nil, false
	default:
	}
	if s.taken {
		return nil, false
	}
	s.taken = true
	if !s.fits(c) {
		s.end()
		return nil, false
	}
	s.out.pass(c.Stdout)
	s.err.pass(c.Stderr)
	stop := context.AfterFunc(ctx, s.end)
	go func() {
		<-s.gone
		stop()
	}()
	in := io.Reader(bytes.NewReader(append(line, '\n')))
	if c.Stdin != nil {
		in = io.MultiReader(in, c.Stdin)
	}
	s.in.give(in)
	return s.proc, true
}

func (s *Standby) fits(c sandbox.Command) bool {
	a := s.as
	for name, value := range a.Env {
		if had, ok := c.Env[name]; !ok || had != value { // what it was started with stays readable in its process
			return false
		}
	}
	return a.Bare == c.Bare && a.Dir == c.Dir && a.TTY == nil && c.TTY == nil &&
		bounds(a.Limits) == bounds(c.Limits) && a.Grace == c.Grace && a.Detach == c.Detach
}

// bounds are the limits that the kernel or the guest holds; the others are the
// caller's business.
func bounds(l sandbox.Limits) sandbox.Limits {
	l.Timeout, l.MaxOutputBytes = 0, 0
	return l
}

// A lateInput is an input whose content is known later.
type lateInput struct {
	given chan struct{}
	once  sync.Once
	from  io.Reader
}

func newLateInput() *lateInput { return &lateInput{given: make(chan struct{})} }

// give says what the content is; nil is none. Only the first counts.
func (l *lateInput) give(r io.Reader) {
	l.once.Do(func() {
		l.from = r
		close(l.given)
	})
}

func (l *lateInput) Read(p []byte) (int, error) {
	<-l.given
	if l.from == nil {
		return 0, io.EOF
	}
	return l.from.Read(p)
}

// A lateOutput is an output whose receiver is known later. What is written before is
// thrown away.
type lateOutput struct {
	first chan struct{} // closed by the first write
	once  sync.Once
	mu    sync.Mutex
	to    io.Writer
}

func newLateOutput() *lateOutput { return &lateOutput{first: make(chan struct{})} }

func (l *lateOutput) pass(w io.Writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = w
}

func (l *lateOutput) Write(p []byte) (int, error) {
	l.once.Do(func() { close(l.first) })
	l.mu.Lock()
	to := l.to
	l.mu.Unlock()
	if to == nil {
		return len(p), nil
	}
	return to.Write(p)
}
