package fake

import (
	"context"
	"sync"

	"github.com/bulkhead-dev/sandbox"
)

// A line is one line that a shell runs. It has the shell's turn until it ends.
type line struct {
	s    *shell
	text string
	spec sandbox.Command
	live *shellRun // that runs it

	stdout, stderr *stream
	stdin          *pipe         // or nil
	ended          chan struct{} // closed when the shell has come to the line's end
	status         int           // valid after ended
	state          shellState    // valid after ended
	over           chan struct{} // closed when nothing can happen to the line any more

	done      chan struct{} // closed when Wait may return
	exit      sandbox.Exit  // valid after done
	err       error         // valid after done
	restarted bool
}

var _ sandbox.Process = (*line)(nil)

func newLine(s *shell, text string, c sandbox.Command) (*line, error) {
	l := &line{
		s: s, text: text, spec: c, stdout: newStream(false), stderr: newStream(false),
		ended: make(chan struct{}), over: make(chan struct{}), done: make(chan struct{}),
	}
	if c.Stdin != nil {
		var err error
		if l.stdin, err = newPipe(); err != nil {
			return nil, noPipe("run line", s.h.spec.Name, err)
		}
	}
	return l, nil
}

// run runs the line in the shell's own process and reports whether that exits,
// with which status.
func (l *line) run(s *shellProc) (status int, exited bool) {
	p := s.p
	p.tree.renew()
	p.Stdout, p.Stderr = &output{p, l.stdout}, &output{p, l.stderr}
	p.Stdin = &emptyInput{}
	if l.stdin != nil {
		p.Stdin = &reader{p, l.stdin.out}
	}
	s.attach(p.stdio())
	if status, exited = s.text(l.text); exited {
		return status, true
	}
	l.status, l.state = status, shellState{s.runner, s.scripts, s.umask}.clone()
	close(l.ended)
	return status, false
}

// attend starts the goroutines around the line.
func (l *line) attend(ctx context.Context) {
	var pumps sync.WaitGroup
	pumps.Go(func() { l.stdout.drain(l.spec.Stdout) })
	pumps.Go(func() { l.stderr.drain(l.spec.Stderr) })
	if l.stdin != nil {
		go l.stdin.feed(l.spec.Stdin)
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		l.live.watch(ctx, l.spec.Grace, l.over)
	}()
	go func() {
		select {
		case <-l.ended:
		case <-l.live.gone:
		}
		close(l.over)
		<-watched
		l.closeInput()
		close(l.stdout.ended)
		close(l.stderr.ended)
		l.settle()
		pumps.Wait()
		close(l.done)
	}()
}

// closeInput ends the line's input and discards the unread rest.
func (l *line) closeInput() {
	if l.stdin != nil {
		l.stdin.close()
	}
}

// settle finds the result and gives the turn back.
func (l *line) settle() {
	s := l.s
	defer func() { s.turn <- struct{}{} }()
	select {
	case <-l.ended: // perhaps killed right after; then the next line finds it gone
		s.kept = l.state
		l.exit = sandbox.Exit{Code: l.status, Usage: madeUpUsage(), Restarted: l.restarted}
		l.exit.Limit = l.live.limitHit(l.exit)
		return
	default:
	}
	s.reported = true
	main := l.live.main
	l.exit = sandbox.Exit{Code: main.code, Signal: main.signal, Usage: madeUpUsage(), Restarted: true}
	l.exit.Limit = l.live.limitHit(l.exit)
	if l.live.fellDown() {
		l.exit, l.err = sandbox.Exit{}, fell("wait", s.h.spec.Name)
	}
}

// Wait implements [sandbox.Process].
func (l *line) Wait() (sandbox.Exit, error) {
	<-l.done
	return l.exit, l.err
}

// Signal implements [sandbox.Process]: every process of the shell gets it.
func (l *line) Signal(ctx context.Context, name string) error {
	if err := checkSignal(ctx, name, l.s.h.spec.Name); err != nil {
		return err
	}
	if !l.isOver() {
		l.live.signal(name)
	}
	return nil
}

func (l *line) isOver() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

// Resize implements [sandbox.Process]: a line has no terminal.
func (l *line) Resize(context.Context, sandbox.TTY) error { return noTerminal(l.s.h.spec.Name) }

// Kill implements [sandbox.Process]: the whole shell ends.
func (l *line) Kill(context.Context) error {
	if !l.isOver() {
		l.live.kill()
	}
	return nil
}
