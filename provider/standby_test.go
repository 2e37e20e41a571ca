package provider

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// A standing is a program that stands by: it says that it is ready, and repeats its
// input then.
type standing struct {
	sandbox.Process
	done chan struct{}
}

func (p *standing) Wait() (sandbox.Exit, error) {
	<-p.done
	return sandbox.Exit{Code: 7}, nil
}

// stands starts one. It ends with its input, or at the end of ctx.
func stands(started *sandbox.Command) func(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	return func(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
		*started = c
		p := &standing{done: make(chan struct{})}
		var once sync.Once
		end := func() { once.Do(func() { close(p.done) }) }
		context.AfterFunc(ctx, end)
		go func() {
			fmt.Fprintln(c.Stdout, "ready")
			in := bufio.NewReader(c.Stdin)
			line, err := in.ReadString('\n')
			if err != nil {
				end()
				return
			}
			rest, _ := io.ReadAll(in)
			fmt.Fprintf(c.Stdout, "%s%s", line, rest)
			fmt.Fprint(c.Stderr, "err")
			end()
		}()
		return p, nil
	}
}

// TestStandby holds that the program becomes the command which it stands by for, with
// that command's environment and streams, once.
func TestStandby(t *testing.T) {
	as := sandbox.Command{Args: []string{"p", "serve"}, Env: map[string]string{"A": "1"}, Dir: "/workspace", Limits: sandbox.Limits{OpenFiles: 9}}
	var started sandbox.Command
	s, err := StandBy(t.Context(), as, []string{"p", "serve", "--standby"}, stands(&started))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(started.Args, " ") != "p serve --standby" || started.Env["A"] != "1" || started.Dir != as.Dir || started.Limits != as.Limits {
		t.Errorf("started is %+v", started)
	}
	var out, errs strings.Builder
	c := as
	c.Env, c.Stdin, c.Stdout, c.Stderr = map[string]string{"A": "1", "B": "ä\n"}, strings.NewReader("in"), &out, &errs
	c.Limits.Timeout, c.Limits.MaxOutputBytes = time.Hour, 5 // of the caller
	for name, change := range map[string]func(*sandbox.Command){
		"value":    func(c *sandbox.Command) { c.Env = map[string]string{"A": "2", "B": "x"} },
		"set":      func(c *sandbox.Command) { c.Env = map[string]string{"B": "x"} },
		"folder":   func(c *sandbox.Command) { c.Dir = "/tmp" },
		"limits":   func(c *sandbox.Command) { c.Limits.Processes = 3 },
		"terminal": func(c *sandbox.Command) { c.TTY = &sandbox.TTY{} },
		"bare":     func(c *sandbox.Command) { c.Bare = true },
		"grace":    func(c *sandbox.Command) { c.Grace = time.Second },
		"detached": func(c *sandbox.Command) { c.Detach = true },
	} {
		s, err := StandBy(t.Context(), as, []string{"p", "serve", "--standby"}, stands(&started))
		if err != nil {
			t.Fatal(err)
		}
		other := c
		change(&other)
		if _, ok := s.Take(t.Context(), other); ok {
			t.Errorf("it becomes a command with another %s", name)
		}
		<-s.gone // of no use any more
	}
	another := c
	another.Args = []string{"p"}
	if _, ok := s.Take(t.Context(), another); ok {
		t.Error("it becomes another program")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, ok := s.Take(ended, c); ok {
		t.Error("it becomes a command that is to end")
	}
	p, ok := s.Take(t.Context(), c)
	if !ok {
		t.Fatal("it does not become the command")
	}
	if exit, err := p.Wait(); exit.Code != 7 || err != nil {
		t.Errorf("%+v %v", exit, err)
	}
	if out.String() != `{"env":{"A":"1","B":"ä\n"}}`+"\nin" || errs.String() != "err" {
		t.Errorf("%q %q", out.String(), errs.String())
	}
	if _, ok := s.Take(t.Context(), c); ok {
		t.Error("it becomes two commands")
	}
	if _, ok := (*Standby)(nil).Take(t.Context(), c); ok {
		t.Error("none becomes a command")
	}
}

// TestStandbyEnds holds that a program ends with the command that it became, and that
// one which has ended becomes none.
func TestStandbyEnds(t *testing.T) {
	as := sandbox.Command{Args: []string{"p"}}
	var started sandbox.Command
	s, err := StandBy(t.Context(), as, as.Args, stands(&started))
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	held, release := io.Pipe()
	defer release.Close()
	c := as
	c.Stdin, c.Stdout, c.Stderr = held, io.Discard, io.Discard
	p, ok := s.Take(ctx, c)
	if !ok {
		t.Fatal("it does not become the command")
	}
	end()
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}

	s, err = StandBy(t.Context(), as, as.Args, stands(&started))
	if err != nil {
		t.Fatal(err)
	}
	s.end()
	<-s.gone
	if _, ok := s.Take(t.Context(), as); ok {
		t.Error("a program that has ended becomes a command")
	}
}

// TestStandbyFails holds that a program which cannot stand by is an error.
func TestStandbyFails(t *testing.T) {
	as := sandbox.Command{Args: []string{"p"}}
	no := errors.New("no")
	if _, err := StandBy(t.Context(), as, as.Args, func(context.Context, sandbox.Command) (sandbox.Process, error) { return nil, no }); !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
	silent := func(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
		p := &standing{done: make(chan struct{})}
		context.AfterFunc(ctx, func() { close(p.done) })
		return p, nil
	}
	ctx, done := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer done()
	if _, err := StandBy(ctx, as, as.Args, silent); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if _, err := StandBy(t.Context(), as, as.Args, func(context.Context, sandbox.Command) (sandbox.Process, error) {
		p := &standing{done: make(chan struct{})}
		close(p.done)
		return p, nil
	}); err == nil {
		t.Error("a program that ends at once stands by")
	}
}
