package cli

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
)

// shellOn runs "sandbox shell" with the flags on the terminal and returns
// status and what it says.
func shellOn(t *testing.T, caller *os.File, f *fake, flags ...string) (int, string) {
	t.Helper()
	before := mode(t, caller)
	out, done := collect(t)
	p := Program{Args: append([]string{"sandbox", "shell"}, flags...), Stdin: caller, Stdout: out, Stderr: out, Backend: f, Exit: func(int) {}}
	status := p.Run(context.Background())
	if mode(t, caller) != before {
		t.Error("the terminal was not restored")
	}
	return status, done()
}

func TestShellOnATerminal(t *testing.T) {
	_, caller := openPTY(t)
	t.Setenv("TERM", "screen-256color")
	f := &fake{run: func(_ context.Context, r manager.Request) (manager.Outcome, error) {
		r.Started(fakeProcess{sizes: make(chan sandbox.TTY, 9)})
		if !raw(t, caller) {
			t.Error("not raw while the shell runs")
		}
		return manager.Outcome{Exit: sandbox.Exit{Code: 7}}, nil
	}}
	status, says := shellOn(t, caller, f, "-e", "A=b", "-w", "/tmp", "--timeout", "1h", "--image", "x")
	if status != 7 || says != "" || !f.shell {
		t.Errorf("status %d, it says %q", status, says)
	}
	q := f.request
	if len(q.Command.Args) != 0 || q.Command.TTY == nil || q.Command.TTY.Cols != 101 || q.Command.Stdin == nil || q.Command.Dir != "/tmp" || q.Timeout != time.Hour || *q.Flags.Docker.Image != "x" {
		t.Errorf("request %+v", q)
	}
	if q.Command.Env["TERM"] != "xterm-256color" || q.Command.Env["A"] != "b" {
		t.Errorf("environment %v", q.Command.Env)
	}
}

// TestShellThatIsCutOffLeavesAFreshLine is about a shell that ends while its
// prompt stands there.
func TestShellThatIsCutOffLeavesAFreshLine(t *testing.T) {
	tests := []struct {
		name   string
		end    func(context.Context) (manager.Outcome, error)
		status int
		says   string
	}{
		{"terminated", func(ctx context.Context) (manager.Outcome, error) {
			syscall.Kill(os.Getpid(), syscall.SIGTERM)
			<-ctx.Done()
			return manager.Outcome{}, ctx.Err()
		}, 143, "\n"},
		{"hung up", func(ctx context.Context) (manager.Outcome, error) {
			syscall.Kill(os.Getpid(), syscall.SIGHUP)
			<-ctx.Done()
			return manager.Outcome{}, ctx.Err()
		}, 129, "\n"},
		{"at its time limit", func(context.Context) (manager.Outcome, error) {
			return manager.Outcome{TimedOut: true, Duration: time.Second}, nil
		}, 124, "\nsandbox: the command was ended at its time limit after 1s\n"},
		{"the sandbox fell", func(context.Context) (manager.Outcome, error) {
			return manager.Outcome{}, &sandbox.Error{Code: sandbox.CodeUnavailable, Message: "gone"}
		}, 125, "\nsandbox: PROVIDER.UNAVAILABLE: gone\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, caller := openPTY(t)
			f := &fake{run: func(ctx context.Context, r manager.Request) (manager.Outcome, error) {
				r.Started(fakeProcess{sizes: make(chan sandbox.TTY, 9)})
				return tt.end(ctx)
			}}
			if status, says := shellOn(t, caller, f); status != tt.status || says != tt.says {
				t.Errorf("status %d and %q, want %d and %q", status, says, tt.status, tt.says)
			}
		})
	}
}

func TestShellLine(t *testing.T) {
	f := &fake{run: func(_ context.Context, r manager.Request) (manager.Outcome, error) {
		r.Command.Stdout.Write([]byte("out"))
		return manager.Outcome{Exit: sandbox.Exit{Code: 3}}, nil
	}}
	r := call(t, f, "shell", "-c", "echo hi; exit 3", "--timeout", "5s")
	if r.status != 3 || r.stdout != "out" || !f.shell {
		t.Errorf("status %d, stdout %q, stderr %q", r.status, r.stdout, r.stderr)
	}
	c := f.request.Command
	if strings.Join(c.Args, "|") != "-c|echo hi; exit 3" || c.TTY != nil || c.Stdin != nil || f.request.Timeout != 5*time.Second {
		t.Errorf("request %+v", f.request)
	}
	_, caller := openPTY(t)
	if status, _ := shellOn(t, caller, f, "-t", "-i", "-c", "true"); status != 3 || f.request.Command.TTY == nil || f.request.Command.Stdin == nil {
		t.Errorf("with a terminal: status %d, request %+v", status, f.request)
	}
}

func TestTerminalType(t *testing.T) {
	for caller, want := range map[string]string{"": "xterm", "linux": "xterm", "xterm": "xterm", "xterm-256color": "xterm-256color", "tmux-256color": "xterm-256color", "xterm-kitty": "xterm-256color", "dumb": "dumb"} {
		if got := terminalType(caller); got != want {
			t.Errorf("for %q it is %q, want %q", caller, got, want)
		}
	}
}

func TestReadOnATerminalIsSafe(t *testing.T) {
	host, caller := openPTY(t)
	f, dir := withFiles(t)
	put(t, filepath.Join(dir, "x"), "a\x1b[2Jb\tc\n")
	errs, said := collect(t)
	p := Program{Args: []string{"sandbox", "fs", "read", "x"}, Stdin: caller, Stdout: caller, Stderr: errs, Backend: f}
	if status := p.Run(context.Background()); status != 0 {
		t.Errorf("status %d: %s", status, said())
	}
	line, err := bufio.NewReader(host).ReadString('\n')
	if got := strings.ReplaceAll(line, "\r", ""); got != `a\x1b[2Jb`+"\tc\n" && got != `a\x1b[2Jb   c`+"\n" {
		t.Errorf("it shows %q, %v", got, err)
	}
}

// TestProgressOnATerminal looks at the bar and at what stays of it.
func TestProgressOnATerminal(t *testing.T) {
	host, caller := openPTY(t)
	f, _ := withFiles(t)
	t.Chdir(t.TempDir())
	put(t, "one", strings.Repeat("x", 5000))
	shown := make(chan string)
	go func() {
		var all strings.Builder
		buf := make([]byte, 4096)
		for !strings.Contains(all.String(), "copied 1 file") {
			n, err := host.Read(buf)
			all.Write(buf[:n])
			if err != nil {
				break
			}
		}
		shown <- all.String()
	}()
	out, done := collect(t)
	defer done()
	p := Program{Args: []string{"sandbox", "cp", "one", "sandbox:"}, Stdin: caller, Stdout: out, Stderr: caller, Backend: f}
	if status := p.Run(context.Background()); status != 0 {
		t.Errorf("status %d", status)
	}
	select {
	case s := <-shown:
		if !strings.Contains(s, "copied 1 file, 4.883KiB in ") {
			t.Errorf("it shows %q", s)
		}
	case <-time.After(time.Minute):
		t.Fatal("it shows nothing")
	}
	if r := call(t, f, "cp", "-q", "one", "sandbox:"); r.stderr != "" {
		t.Errorf("quiet, it says %q", r.stderr)
	}
}
