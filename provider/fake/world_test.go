package fake_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/faked"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// TestSwitchedOff checks that Features reports what Options.Without switches
// off, and that its use answers CodeUnsupported.
func TestSwitchedOff(t *testing.T) {
	off := sandbox.Features{TTY: true, Shells: true, Files: true, Dial: true, Listen: true, Usage: true}
	p, sb := box(t, fake.Options{Without: off})
	if got, want := p.Features(), (sandbox.Features{Persistent: true, Pause: true}); got != want {
		t.Errorf("Features = %+v, want %+v", got, want)
	}
	ctx := t.Context()
	for what, err := range map[string]error{
		"TTY":    second(sb.Start(ctx, sandbox.Command{Args: []string{"true"}, TTY: &sandbox.TTY{}})),
		"Shells": second(sb.OpenShell(ctx, sandbox.ShellOptions{})),
		"Files":  second(sb.(sandbox.FileServer).Files(ctx)),
		"Dial":   second(sb.(sandbox.Dialer).Dial(ctx, "tcp", "127.0.0.1:1")),
		"Listen": second(sb.(sandbox.Listener).Listen(ctx, "tcp", "127.0.0.1:0")),
		"Usage":  second(sb.Usage(ctx)),
	} {
		if sandbox.CodeOf(err) != sandbox.CodeUnsupported {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func read(t *testing.T, f sandbox.Files, name string) (string, error) {
	t.Helper()
	r, err := f.Read(t.Context(), name, 0, -1)
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return string(b), err
}

func filesOf(t *testing.T, sb sandbox.Sandbox) sandbox.Files {
	t.Helper()
	f, err := sb.(sandbox.FileServer).Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFaultsInside holds what faults do to files, lines and connections.
func TestFaultsInside(t *testing.T) {
	p, sb := box(t, fake.Options{})
	f := filesOf(t, sb)
	write := func(name, content string) error {
		return f.Write(t.Context(), "/workspace/"+name, strings.NewReader(content), sandbox.WriteOptions{})
	}
	if err := write("f", "old"); err != nil {
		t.Fatal(err)
	}
	sh, err := sb.OpenShell(t.Context(), sandbox.ShellOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer sh.Close()
	boom := errors.New("boom")
	line := func() error { return second(sh.Run(t.Context(), "true", sandbox.Command{})) }
	dial := func() error { return second(sb.(sandbox.Dialer).Dial(t.Context(), "tcp", "127.0.0.1:1")) }
	for _, tt := range []struct {
		step fake.Step
		do   func() error
	}{
		{fake.StepFile, func() error { return write("f", "new") }},
		{fake.StepFileData, func() error { return write("f", "new") }},
		{fake.StepFileDone, func() error { return write("f", "new") }},
		{fake.StepFile, func() error { return second(read(t, f, "/workspace/f")) }},
		{fake.StepFileData, func() error { return second(read(t, f, "/workspace/f")) }},
		{fake.StepFile, func() error { return second(sb.(sandbox.FileServer).Files(t.Context())) }},
		{fake.StepFile, func() error { return f.Remove(t.Context(), "/workspace/f", false) }},
		{fake.StepOpenShell, func() error { return second(sb.OpenShell(t.Context(), sandbox.ShellOptions{})) }},
		{fake.StepLine, line},
		{fake.StepNetwork, dial},
	} {
		heal := p.Engine().Inject(fake.FailAt(tt.step, boom))
		if err := tt.do(); sandbox.CodeOf(err) != sandbox.CodeUnavailable || !errors.Is(err, boom) {
			t.Errorf("%s: %v", tt.step, err)
		}
		heal()
		heal = p.Engine().Inject(fake.FailAt(tt.step, &sandbox.Error{Code: sandbox.CodeBudgetExceeded}))
		if err := tt.do(); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
			t.Errorf("%s with a code of its own: %v", tt.step, err)
		}
		heal()
	}
	if got, err := read(t, f, "/workspace/f"); err != nil || got != "old" {
		t.Errorf("after all faults the file holds %q, %v", got, err)
	}
	if entries, err := f.ReadDir(t.Context(), "/workspace"); err != nil || len(entries) != 1 {
		t.Errorf("left are %v, %v", entries, err)
	}
	if err := line(); err != nil {
		t.Errorf("after all faults: %v", err)
	}
}

// TestWhatOutlivesWhat holds which files outlast a restart and a removal.
func TestWhatOutlivesWhat(t *testing.T) {
	p := fake.New(fake.Options{Deadline: testenv.Patience})
	ctx := t.Context()
	s := faked.Spec("a")
	open := func() sandbox.Sandbox {
		t.Helper()
		sb, err := p.Open(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		return sb
	}
	run := func(sb sandbox.Sandbox, text string) string {
		t.Helper()
		var out bytes.Buffer
		c, err := sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", text}, Stdout: &out})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Wait(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	const mark, look = "for d in /workspace /tmp /var/tmp; do : >$d/mark; done", "for d in /workspace /tmp /var/tmp; do [ -e $d/mark ] && echo $d; done"
	if _, err := p.Create(ctx, s); err != nil {
		t.Fatal(err)
	}
	sb := open()
	run(sb, mark)
	if err := p.Engine().Restart(s.Name); err != nil {
		t.Fatal(err)
	}
	sb = open()
	if got := run(sb, look); got != "/workspace\n/var/tmp\n" { // /tmp is a tmpfs
		t.Errorf("after a restart: %q", got)
	}
	if err := p.Remove(ctx, s.Name); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Create(ctx, s); err != nil {
		t.Fatal(err)
	}
	sb = open()
	if got := run(sb, look); got != "/workspace\n" {
		t.Errorf("after a removal: %q", got)
	}
	host := p.Engine().Folder(s.Mounts[0].Source, s.UID)
	if err := host.Write("from/the host", 0o640, "hello"); err != nil {
		t.Fatal(err)
	}
	if got := run(sb, "cat '/workspace/from/the host'; echo back >/workspace/answer"); got != "hello" {
		t.Errorf("a command reads %q", got)
	}
	if got, err := host.Read("answer"); err != nil || got != "back\n" {
		t.Errorf("the host reads %q, %v", got, err)
	}
	sb.Close()
	p.Remove(context.Background(), s.Name)
}

// TestImpossibleMount holds that a Spec that cannot be put together makes nothing.
func TestImpossibleMount(t *testing.T) {
	p := fake.New(fake.Options{Deadline: testenv.Patience})
	s := faked.Spec("a")
	s.Tmpfs = append(s.Tmpfs, sandbox.Tmpfs{Target: "/etc/passwd/x", Size: 1})
	_, err := p.Create(t.Context(), s)
	if sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("Create: %v", err)
	}
	if names := p.Engine().Names(); len(names) != 0 {
		t.Errorf("left are %v", names)
	}
}
