package cli

import (
	"bufio"
	"context"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// A fakeProcess remembers the sizes that it was given.
type fakeProcess struct {
	sandbox.Process
	sizes chan sandbox.TTY
}

func (p fakeProcess) Resize(_ context.Context, t sandbox.TTY) error {
	p.sizes <- t
	return nil
}

func openPTY(t *testing.T) (host, caller *os.File) {
	t.Helper()
	host, caller, err := pty.Open()
	if err != nil {
		testenv.Lack(t, "pty", err)
	}
	t.Cleanup(func() { host.Close(); caller.Close() })
	if err := pty.Setsize(host, &pty.Winsize{Rows: 33, Cols: 101}); err != nil {
		t.Fatal(err)
	}
	return host, caller
}

// mode returns the terminal's local flags, of which ECHO is off when raw.
func mode(t *testing.T, f *os.File) uint32 {
	t.Helper()
	m, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return m.Lflag
}

func raw(t *testing.T, f *os.File) bool { return mode(t, f)&unix.ECHO == 0 }

// runOn runs fn as the command of "run" on the terminal and checks that the
// terminal is as before afterwards.
func runOn(t *testing.T, caller *os.File, flags string, fn func(context.Context, manager.Request, *fake) (manager.Outcome, error)) int {
	t.Helper()
	before := mode(t, caller)
	f := &fake{}
	f.run = func(ctx context.Context, r manager.Request) (manager.Outcome, error) { return fn(ctx, r, f) }
	out, done := collect(t)
	p := Program{Args: []string{"sandbox", "run", flags, "--", "x"}, Stdin: caller, Stdout: out, Stderr: out, Backend: f, Exit: func(int) {}}
	status := p.Run(context.Background())
	if s := done(); s != "" {
		t.Errorf("it says %q", s)
	}
	if mode(t, caller) != before {
		t.Error("the terminal was not restored")
	}
	return status
}

func TestTerminalIsRawWhileTheCommandRuns(t *testing.T) {
	_, caller := openPTY(t)
	status := runOn(t, caller, "-it", func(_ context.Context, r manager.Request, f *fake) (manager.Outcome, error) {
		if raw(t, caller) {
			t.Error("raw before the command was started")
		}
		if r.Command.TTY == nil || *r.Command.TTY != (sandbox.TTY{Rows: 33, Cols: 101}) || r.Command.Stdin == nil {
			t.Errorf("command %+v", r.Command)
		}
		r.Started(fakeProcess{sizes: make(chan sandbox.TTY, 9)})
		if !raw(t, caller) {
			t.Error("not raw while the command runs")
		}
		return manager.Outcome{Exit: sandbox.Exit{Code: 3}}, nil
	})
	if status != 3 {
		t.Errorf("status %d, want 3", status)
	}
}

func TestTerminalWithoutInputStaysCooked(t *testing.T) {
	_, caller := openPTY(t)
	runOn(t, caller, "-t", func(_ context.Context, r manager.Request, f *fake) (manager.Outcome, error) {
		r.Started(fakeProcess{sizes: make(chan sandbox.TTY, 9)})
		if raw(t, caller) || r.Command.Stdin != nil || r.Command.TTY == nil {
			t.Error("the keyboard was taken without -i")
		}
		return manager.Outcome{}, nil
	})
}

func TestTerminalIsRestoredAfterAPanic(t *testing.T) {
	_, caller := openPTY(t)
	before := mode(t, caller)
	f := &fake{}
	f.run = func(_ context.Context, r manager.Request) (manager.Outcome, error) {
		r.Started(fakeProcess{sizes: make(chan sandbox.TTY, 9)})
		panic("test")
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		Program{Args: []string{"sandbox", "run", "-it", "--", "x"}, Stdin: caller, Stdout: caller, Stderr: caller, Backend: f}.Run(context.Background())
	}()
	if mode(t, caller) != before {
		t.Error("the terminal was not restored")
	}
}

func TestTerminalIsRestoredBeforeASecondSignalEndsUs(t *testing.T) {
	_, caller := openPTY(t)
	before := mode(t, caller)
	ended := make(chan struct{})
	f := &fake{}
	f.run = func(ctx context.Context, r manager.Request) (manager.Outcome, error) {
		r.Started(fakeProcess{sizes: make(chan sandbox.TTY, 9)})
		syscall.Kill(os.Getpid(), syscall.SIGTERM)
		<-ctx.Done()
		syscall.Kill(os.Getpid(), syscall.SIGTERM)
		<-ended
		return manager.Outcome{}, ctx.Err()
	}
	Program{Args: []string{"sandbox", "run", "-it", "--", "x"}, Stdin: caller, Stdout: caller, Stderr: caller, Backend: f, Exit: func(int) {
		if mode(t, caller) != before {
			t.Error("the terminal was not restored")
		}
		close(ended)
	}}.Run(context.Background())
}

func TestTerminalSizeIsPassedOn(t *testing.T) {
	host, caller := openPTY(t)
	runOn(t, caller, "-it", func(_ context.Context, r manager.Request, f *fake) (manager.Outcome, error) {
		p := fakeProcess{sizes: make(chan sandbox.TTY, 9)}
		pty.Setsize(host, &pty.Winsize{Rows: 40, Cols: 120}) // while the sandbox was made
		r.Started(p)
		if got := <-p.sizes; got != (sandbox.TTY{Rows: 40, Cols: 120}) {
			t.Errorf("first size %+v", got)
		}
		pty.Setsize(host, &pty.Winsize{Rows: 10, Cols: 20})
		syscall.Kill(os.Getpid(), syscall.SIGWINCH) // it is not our controlling terminal
		select {
		case got := <-p.sizes:
			if got != (sandbox.TTY{Rows: 10, Cols: 20}) {
				t.Errorf("second size %+v", got)
			}
		case <-time.After(time.Minute):
			t.Error("the new size was not passed on")
		}
		return manager.Outcome{}, nil
	})
}

func TestRecreateAsks(t *testing.T) {
	tests := []struct {
		answer string
		status int
		asked  bool // whether anything was removed
	}{
		{"y\n", 0, true}, {"YES\n", 0, true}, {"n\n", 1, false}, {"\n", 1, false}, {"yep\n", 1, false}, {"\x04", 1, false},
	}
	for _, tt := range tests {
		t.Run(strings.TrimSpace(tt.answer), func(t *testing.T) {
			host, caller := openPTY(t)
			f := &fake{rows: []manager.Row{{Name: "sbx-a", ScopeKey: "evil\x1b[2J"}}, recreated: manager.Recreated{Removed: []manager.Removed{{Name: "sbx-a"}}}}
			host.WriteString(tt.answer)
			r := callWith(t, f, caller, "recreate", "--all")
			if r.status != tt.status || strings.Contains(r.stdout, "removed sbx-a") != tt.asked {
				t.Errorf("status %d, stdout %q, stderr %q", r.status, r.stdout, r.stderr)
			}
			if !strings.Contains(r.stderr, "Remove 1 sandbox? [y/N]") || strings.Contains(r.stderr, "\x1b") {
				t.Errorf("it asks %q", r.stderr)
			}
		})
	}
}

func TestRollbackAsks(t *testing.T) {
	for answer, want := range map[string]int{"y\n": 0, "n\n": 1, "\n": 1} {
		host, caller := openPTY(t)
		f := withCheckpoints()
		f.checkpoints.one.Name = hostile
		host.WriteString(answer)
		r := callWith(t, f, caller, "rollback", "built", "--session", "chat-42")
		if r.status != want || (f.checkpoints.to == "cp-0002") != (want == 0) {
			t.Errorf("%q: status %d, rolled back to %q, stderr %q", answer, r.status, f.checkpoints.to, r.stderr)
		}
		if !strings.Contains(r.stderr, "session chat-42 back to checkpoint cp-0002") || strings.Contains(r.stderr, "\x1b") {
			t.Errorf("it asks %q", r.stderr)
		}
	}
}

// TestCheckpointRefusesTerminals holds that no archive is written to a terminal, and
// none read from one.
func TestCheckpointRefusesTerminals(t *testing.T) {
	_, caller := openPTY(t)
	f := withCheckpoints()
	p := Program{Args: []string{"sandbox", "checkpoint", "export", "built"}, Stdin: caller, Stdout: caller, Stderr: caller, Backend: f}
	if got := p.Run(context.Background()); got != statusUsage || f.checkpoints.released {
		t.Errorf("status %d of an export to a terminal", got)
	}
	if r := callWith(t, f, caller, "checkpoint", "import"); r.status != statusUsage || !strings.Contains(r.stderr, "is a terminal") {
		t.Errorf("status %d of an import from a terminal: %s", r.status, r.stderr)
	}
}

func TestViolationsClearAsks(t *testing.T) {
	for answer, want := range map[string]int{"y\n": 1, "n\n": 0, "\n": 0} {
		host, caller := openPTY(t)
		f := withRecords(2)
		host.WriteString(answer)
		r := callWith(t, f, caller, "violations", "clear", "--tenant", "acme", "--session", hostile[:5])
		if f.violations.cleared != want || r.status != 1-want {
			t.Errorf("%q: status %d, stdout %q, stderr %q", answer, r.status, r.stdout, r.stderr)
		}
		if !strings.Contains(r.stderr, "tenant \"acme\"") || !strings.Contains(r.stderr, "Forget 2 violations? [y/N]") || strings.Contains(r.stderr, "\x1b") {
			t.Errorf("it asks %q", r.stderr)
		}
	}
}

func TestRecreateQuestionCanBeInterrupted(t *testing.T) {
	_, caller := openPTY(t)
	f := &fake{rows: []manager.Row{{Name: "sbx-a"}}}
	said, errs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		defer said.Close()
		b := bufio.NewReader(said)
		b.ReadString(']') // the end of the question
		syscall.Kill(os.Getpid(), syscall.SIGINT)
		io.Copy(io.Discard, b)
	}()
	p := Program{Args: []string{"sandbox", "recreate", "--all"}, Stdin: caller, Stdout: errs, Stderr: errs, Backend: f}
	if got := p.Run(context.Background()); got != 130 {
		t.Errorf("status %d, want 130", got)
	}
	errs.Close()
	<-asked
}
