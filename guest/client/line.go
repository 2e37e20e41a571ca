package client

import (
	"context"
	"strconv"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// Run implements sandbox.Shell. Its errors are those of Start, and
// CodeNotFound when the shell was closed. A line may have at most
// wire.MaxLine bytes.
func (s *shell) Run(ctx context.Context, line string, cmd sandbox.Command) (sandbox.Process, error) {
	p, err := s.run(ctx, line, cmd)
	if err == nil {
		return p, nil
	}
	switch sandbox.CodeOf(err) {
	case sandbox.CodeExecution, sandbox.CodeValidation:
		if s.isClosing() { // whatever a guest says of a line for a shell that goes
			err = s.closed()
		}
	}
	return nil, s.c.named(err)
}

func (s *shell) run(ctx context.Context, line string, cmd sandbox.Command) (*process, error) {
	if err := checkLine(line, cmd); err != nil {
		return nil, err
	}
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	m := wire.Line{Shell: s.stream, Flags: flags(cmd), Text: line}
	cmd.Args = []string{s.program} // for errors
	p := newProcess(ctx, s.c, cmd, m.Flags)
	p.asked, p.use.none = s.asked, true
	err := p.begin(ctx, wire.TypeLine, m.Encode())
	if err != nil && p.id == 0 { // it was not sent
		s.turn <- struct{}{}
		return nil, err
	}
	over := p.waited // the next line must not meet output of this one
	if err != nil {
		over = p.ended
	} else {
		s.note(p)
	}
	go func() {
		<-over
		s.turn <- struct{}{}
	}()
	return p, err
}

// checkLine refuses what a line cannot have.
func checkLine(line string, c sandbox.Command) error {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"args", c.Args != nil}, {"env", c.Env != nil}, {"dir", c.Dir != ""}, {"tty", c.TTY != nil},
		{"limits", c.Limits != sandbox.Limits{}}, {"detach", c.Detach}, {"bare", c.Bare},
	} {
		if f.set {
			return lineError(f.name, "a line of a shell cannot have that set; say it in the line or when the shell is opened")
		}
	}
	switch {
	case strings.ContainsRune(line, 0):
		return lineError("line", "the line holds a NUL byte")
	case len(line) > wire.MaxLine:
		return lineError("line", "the line is longer than "+strconv.Itoa(wire.MaxLine)+" bytes")
	}
	return nil
}

func lineError(field, message string) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "run line", Field: field, Message: message}
}

// await waits for the turn of a line.
func (s *shell) await(ctx context.Context) error {
	if ctx.Err() != nil {
		return contextError(ctx, "run line")
	}
	if s.isClosing() {
		return s.closed()
	}
	select {
	case <-s.turn:
		return nil
	case <-s.ended:
		return s.closed()
	case <-ctx.Done():
		return contextError(ctx, "wait for the line before")
	}
}

func (s *shell) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// note notes the line that runs, for a Close that comes meanwhile.
func (s *shell) note(p *process) {
	s.mu.Lock()
	if l := s.line; l != nil {
		s.before = l.id
		if l.hasEnded() && l.wentWell() {
			s.whole = l.id
		}
	}
	s.line = p
	closing := s.closing
	s.mu.Unlock()
	if closing {
		p.settleAfter(settleWithin)
	}
}

// closed is the error of a line for a shell that has gone.
func (s *shell) closed() error {
	if err := s.c.Err(); err != nil {
		return err
	}
	return &sandbox.Error{Code: sandbox.CodeNotFound, Op: "run line", Message: "the shell " + strconv.Quote(s.id) + " is closed"}
}
