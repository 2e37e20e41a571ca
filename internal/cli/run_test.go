package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func TestRunRequest(t *testing.T) {
	t.Setenv("SANDBOX_TEST_VALUE", "from outside")
	f := &fake{}
	r := call(t, f, "run", "--image", "alpine", "--workspace", "sub", "-e", "A=1,2", "-e", "B=", "--env", "SANDBOX_TEST_VALUE", "-e", "SANDBOX_TEST_UNSET",
		"-w", "/tmp", "--user", "sandbox", "--timeout", "1d", "--rm", "--session", "mine", "--provider", "docker", "--", "true")
	if r.status != 0 {
		t.Fatalf("status %d: %s", r.status, r.stderr)
	}
	q := f.request
	dir, _ := os.Getwd()
	if q.Flags == nil || q.Flags.Docker == nil || *q.Flags.Docker.Image != "alpine" || *q.Flags.Workspace != dir+"/sub" || *q.Flags.Provider != "docker" {
		t.Errorf("flags are %+v", q.Flags)
	}
	if q.Flags.Docker.Env != nil || q.Flags.Limits != nil {
		t.Error("what belongs to the command became a setting of the sandbox")
	}
	if got, want := fmt.Sprint(q.Command.Env), "map[A:1,2 B: SANDBOX_TEST_VALUE:from outside]"; got != want {
		t.Errorf("environment %s, want %s", got, want)
	}
	if q.User != "sandbox" {
		t.Errorf("user %q", q.User)
	}
	if q.Command.Dir != "/tmp" || q.Timeout != 24*time.Hour || !q.Remove || q.MustExist || q.Who.Session != "mine" || q.Command.Grace != grace {
		t.Errorf("request %+v", q)
	}
	if q.Command.Stdin != nil || q.Command.TTY != nil {
		t.Error("standard input was passed on without -i")
	}
}

func TestExecMustExist(t *testing.T) {
	f := &fake{}
	if r := call(t, f, "exec", "-i", "--", "true"); r.status != 0 {
		t.Fatalf("status %d: %s", r.status, r.stderr)
	}
	if !f.request.MustExist || f.request.Flags != nil || f.request.Command.Stdin == nil {
		t.Errorf("request %+v", f.request)
	}
}

func TestRemoveUsesASessionOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for range 3 {
		f := &fake{}
		call(t, f, "run", "--rm", "--", "true")
		s := f.request.Who.Session
		if !regexp.MustCompile(`^run-[0-9a-f]{16}$`).MatchString(s) || seen[s] {
			t.Errorf("session %q", s)
		}
		seen[s] = true
	}
}

func TestRunPassesBytesOnUnchanged(t *testing.T) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	f := &fake{run: func(_ context.Context, r manager.Request) (manager.Outcome, error) {
		r.Command.Stdout.Write(every)
		r.Command.Stderr.Write([]byte("\x1b[31m\x00\xff"))
		return manager.Outcome{Exit: sandbox.Exit{Code: 7}}, nil
	}}
	r := call(t, f, "run", "--", "x")
	if r.status != 7 || r.stdout != string(every) || r.stderr != "\x1b[31m\x00\xff" {
		t.Errorf("status %d, stdout %q, stderr %q", r.status, r.stdout, r.stderr)
	}
}

func TestRunStatus(t *testing.T) {
	started := func(field string, cause error) error {
		return &sandbox.Error{Code: sandbox.CodeExecution, Op: "start", Field: field, Message: "no", Err: cause}
	}
	tests := []struct {
		name string
		out  manager.Outcome
		err  error
		want int
		says string // start of standard error
	}{
		{"success", manager.Outcome{}, nil, 0, ""},
		{"the command's own", manager.Outcome{Exit: sandbox.Exit{Code: 255}}, nil, 255, ""},
		{"ended by a signal", manager.Outcome{Exit: sandbox.Exit{Code: 137, Signal: "KILL"}}, nil, 137, ""},
		{"its own 125 is silent", manager.Outcome{Exit: sandbox.Exit{Code: 125}}, nil, 125, ""},
		{"timed out", manager.Outcome{TimedOut: true, Exit: sandbox.Exit{Code: 143}, Duration: time.Second}, nil, 124, "sandbox: the command was ended at its time limit after 1s\n"},
		{"engine down", manager.Outcome{}, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "ping engine", Message: "no answer", Hint: "start it"}, 125,
			"sandbox: PROVIDER.UNAVAILABLE: ping engine: no answer\nsandbox: hint: start it\n"},
		{"an error without code", manager.Outcome{}, errTest, 125, "sandbox: UNKNOWN.INTERNAL: it broke\n"},
		{"wrapped", manager.Outcome{}, fmt.Errorf("remove after the command: %w", &sandbox.Error{Code: sandbox.CodeBusy, Message: "in use", Hint: "wait"}), 125,
			"sandbox: SANDBOX.BUSY: remove after the command: in use\nsandbox: hint: wait\n"},
		{"several", manager.Outcome{}, errors.Join(&sandbox.Error{Code: sandbox.CodeValidation, Field: "agents.list[0].id", Message: "no"}, &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Message: "never"}), 125,
			"sandbox: SCHEMA.VALIDATION_FAILED: agents.list[0].id: no\nsandbox: SANDBOX.CAPABILITY_BLOCKED: never\n"},
		{"no such program", manager.Outcome{}, started("args", fs.ErrNotExist), 127, "sandbox: TOOL.EXECUTION_FAILED: "},
		{"not executable", manager.Outcome{}, started("args", fs.ErrPermission), 126, "sandbox: TOOL.EXECUTION_FAILED: "},
		{"too many arguments", manager.Outcome{}, started("args", syscall.E2BIG), 126, "sandbox: TOOL.EXECUTION_FAILED: "},
		{"no such folder", manager.Outcome{}, started("dir", fs.ErrNotExist), 126, "sandbox: TOOL.EXECUTION_FAILED: "},
		{"a start command failed", manager.Outcome{}, started("docker.onStart[0]", started("args", fs.ErrNotExist)), 125, "sandbox: TOOL.EXECUTION_FAILED: "},
		{"no room", manager.Outcome{}, started("", nil), 125, "sandbox: TOOL.EXECUTION_FAILED: "},
		{"a missing file elsewhere", manager.Outcome{}, &sandbox.Error{Code: sandbox.CodeUnavailable, Message: "no state", Err: fs.ErrNotExist}, 125, "sandbox: PROVIDER.UNAVAILABLE: "},
		{"bad session", manager.Outcome{}, &sandbox.Error{Code: sandbox.CodeValidation, Field: "session", Message: "bad"}, 2, "sandbox: SCHEMA.VALIDATION_FAILED: "},
		{"bad flag", manager.Outcome{}, &sandbox.Error{Code: sandbox.CodeValidation, Field: "flag.docker.image", Message: "bad"}, 2, "sandbox: SCHEMA.VALIDATION_FAILED: "},
		{"hostile text", manager.Outcome{}, &sandbox.Error{Code: sandbox.CodeInternal, Message: "a\x1b]0;x\x07\nsandbox: b", Hint: "\u202ec"}, 125,
			"sandbox: UNKNOWN.INTERNAL: a\\x1b]0;x\\x07\nsandbox:   sandbox: b\nsandbox: hint: \\u202ec\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{run: func(context.Context, manager.Request) (manager.Outcome, error) { return tt.out, tt.err }}
			r := call(t, f, "run", "--", "x")
			if r.status != tt.want || r.stdout != "" || !strings.HasPrefix(r.stderr, tt.says) || tt.says == "" && r.stderr != "" {
				t.Errorf("status %d, stdout %q, stderr %q; want %d and %q", r.status, r.stdout, r.stderr, tt.want, tt.says)
			}
		})
	}
}

func TestSignalsEndTheCommand(t *testing.T) {
	for _, tt := range []struct {
		sig  syscall.Signal
		want int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}, {syscall.SIGHUP, 129}} {
		t.Run(tt.sig.String(), func(t *testing.T) {
			f := &fake{run: func(ctx context.Context, _ manager.Request) (manager.Outcome, error) {
				syscall.Kill(os.Getpid(), tt.sig)
				<-ctx.Done()
				return manager.Outcome{}, &sandbox.Error{Code: sandbox.CodeExecution, Message: "given up", Err: ctx.Err()}
			}}
			if r := call(t, f, "run", "--", "x"); r.status != tt.want || r.stderr != "" {
				t.Errorf("status %d and %q, want %d and nothing said", r.status, r.stderr, tt.want)
			}
		})
	}
}

func TestSecondSignalEndsTheProgram(t *testing.T) {
	ended := make(chan int, 1)
	f := &fake{run: func(ctx context.Context, _ manager.Request) (manager.Outcome, error) {
		syscall.Kill(os.Getpid(), syscall.SIGTERM)
		<-ctx.Done()
		syscall.Kill(os.Getpid(), syscall.SIGINT)
		if got := <-ended; got != 130 {
			t.Errorf("ended with %d, want 130", got)
		}
		return manager.Outcome{}, ctx.Err()
	}}
	out, done := collect(t)
	defer done()
	p := Program{Args: []string{"sandbox", "run", "--", "x"}, Stdin: out, Stdout: out, Stderr: out, Backend: f, Exit: func(n int) { ended <- n }}
	p.Run(context.Background())
}

func TestClosedOutputEndsTheCommand(t *testing.T) {
	f := &fake{run: func(ctx context.Context, r manager.Request) (manager.Outcome, error) {
		if _, err := r.Command.Stdout.Write([]byte("x")); err == nil {
			t.Error("writing to a closed pipe worked")
		}
		<-ctx.Done()
		return manager.Outcome{}, ctx.Err()
	}}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	errs, said := collect(t)
	p := Program{Args: []string{"sandbox", "run", "--", "yes"}, Stdin: w, Stdout: w, Stderr: errs, Backend: f}
	if got := p.Run(context.Background()); got != 141 {
		t.Errorf("status %d, want 141", got)
	}
	if s := said(); s != "" {
		t.Errorf("it says %q", s)
	}
}

func TestLostOutputIsAFailure(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		testenv.Lack(t, "devfull", err)
	}
	defer full.Close()
	f := &fake{run: func(_ context.Context, r manager.Request) (manager.Outcome, error) {
		r.Command.Stdout.Write([]byte("x"))
		return manager.Outcome{}, nil // the command itself succeeded
	}}
	errs, said := collect(t)
	p := Program{Args: []string{"sandbox", "run", "--", "echo"}, Stdin: full, Stdout: full, Stderr: errs, Backend: f}
	if got := p.Run(context.Background()); got != 125 {
		t.Errorf("status %d, want 125", got)
	}
	if s := said(); !strings.Contains(s, "cannot be written") {
		t.Errorf("it says %q", s)
	}
}

// TestInputDoesNotOutliveTheCommand runs a command that ends without any
// input: nothing may wait for a key, and later input belongs to the next
// program.
func TestInputDoesNotOutliveTheCommand(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	reading := make(chan struct{})
	f := &fake{run: func(_ context.Context, q manager.Request) (manager.Outcome, error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			buf := make([]byte, 10)
			n, err := q.Command.Stdin.Read(buf)
			if string(buf[:n]) != "first" || err != nil {
				t.Errorf("read %q, %v", buf[:n], err)
			}
			close(reading)
			if n, err := q.Command.Stdin.Read(buf); n != 0 || err != io.EOF {
				t.Errorf("read %q, %v after the end", buf[:n], err)
			}
		}()
		w.WriteString("first")
		<-reading
		return manager.Outcome{}, nil
	}}
	if got := callWith(t, f, r, "run", "-i", "--", "x"); got.status != 0 {
		t.Fatalf("status %d: %s", got.status, got.stderr)
	}
	w.WriteString("next")
	buf := make([]byte, 10)
	if n, _ := r.Read(buf); string(buf[:n]) != "next" {
		t.Errorf("the next program gets %q", buf[:n])
	}
}

func TestInputEnds(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w.WriteString("abc")
	w.Close()
	in, err := newInput(r)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if b, err := io.ReadAll(in); string(b) != "abc" || err != nil {
		t.Errorf("read %q, %v", b, err)
	}
	in.Close()
	if _, err := in.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a closed input gives %v", err)
	}
}
