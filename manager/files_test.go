package manager_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// withFiles calls fn with the files of a session.
func withFiles(t *testing.T, m *manager.Manager, session string, fn func(ctx context.Context, s manager.Share) error) error {
	t.Helper()
	ctx, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	return m.Files(ctx, manager.Request{Who: who(session)}, func(s manager.Share) error { return fn(ctx, s) })
}

// TestFilesUseTheSessionsSandbox holds that files and commands meet in one
// sandbox, which either makes.
func TestFilesUseTheSessionsSandbox(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager("")
	must(t, withFiles(t, m, "a", func(ctx context.Context, s manager.Share) error {
		return s.Write(ctx, "made", strings.NewReader("by files"), sandbox.WriteOptions{})
	}))
	if out, o := mustRun(t, m, "a", "cat made; echo by a command > answer"); out != "by files" || o.Created {
		t.Errorf("the command sees %q; a sandbox was made for it: %v", out, o.Created)
	}
	must(t, withFiles(t, m, "a", func(ctx context.Context, s manager.Share) error {
		f, err := s.Read(ctx, "answer", 0, -1)
		if err != nil {
			return err
		}
		defer f.Close()
		b, err := io.ReadAll(f)
		if string(b) != "by a command\n" {
			t.Errorf("files see %q", b)
		}
		return err
	}))
}

// TestFilesHoldTheLeaseAndNoteTheUse holds that a sandbox whose files are in
// use is neither removed nor counts as idle afterwards.
func TestFilesHoldTheLeaseAndNoteTheUse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager("")
	mustRun(t, m, "a", "true")
	r.clock.advance(time.Hour)
	must(t, withFiles(t, m, "a", func(ctx context.Context, s manager.Share) error {
		rows, err := m.Select(ctx, "", manager.Selector{All: true}, false)
		if err != nil {
			return err
		}
		got := m.Recreate(ctx, rows)
		if len(got.Removed) != 0 || len(got.Failed) != 1 || got.Failed[0].Code != sandbox.CodeBusy {
			t.Errorf("while files are in use: %+v", got)
		}
		return nil
	}))
	l, err := m.List(t.Context(), manager.ListOptions{})
	must(t, err)
	if idle := l.Containers[0].IdleSeconds; idle > 60 {
		t.Errorf("it counts as idle for %d seconds", idle)
	}
}

func TestFilesTellWhatIsExposed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	root := tempDir(t, 0o755)
	m := r.manager(`{"agents":{"list":[{"id":"other","sandbox":{"workspaceRoot":"` + root + `"}}]}}`)
	must(t, withFiles(t, m, "a", func(_ context.Context, s manager.Share) error {
		for _, want := range []string{r.state.Workspaces(), r.state.Workspaces() + "/" + s.Name, root} {
			if !slices.Contains(s.Exposed, want) {
				t.Errorf("%v lacks %s", s.Exposed, want)
			}
		}
		return nil
	}))
}

func TestShellPicksAProgramAndALimit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager("")
	shell := func(change func(*manager.Request)) (string, manager.Outcome) {
		t.Helper()
		var out bytes.Buffer
		req := manager.Request{Who: who("a"), Command: sandbox.Command{Stdout: &out, Stderr: &out}}
		change(&req)
		ctx, done := context.WithTimeout(t.Context(), time.Minute)
		defer done()
		o, err := m.Shell(ctx, req)
		must(t, err)
		return out.String(), o
	}
	if out, o := shell(func(r *manager.Request) { r.Command.Args = []string{"-c", `echo "$0"; exit 9`} }); out != "bash\n" || o.Exit.Code != 9 {
		t.Errorf("it says %q and exits with %d", out, o.Exit.Code)
	}
	// Without bash there is sh: PATH is one of the sandbox's own.
	_, _ = mustRun(t, m, "a", "mkdir bin; ln -s $(command -v dash) bin/sh")
	if out, _ := shell(func(r *manager.Request) {
		r.Command.Env = map[string]string{"PATH": "/workspace/bin"}
		r.Command.Args = []string{"-c", `echo "$0"`}
	}); out != "sh\n" {
		t.Errorf("without bash it says %q", out)
	}
	m = r.manager(`{"agents":{"defaults":{"sandbox":{"limits":{"timeout":"1s"}}}}}`)
	if _, o := shell(func(r *manager.Request) { r.Command.Args = []string{"-c", "sleep 60"} }); !o.TimedOut {
		t.Errorf("a line is not limited: %+v", o)
	}
	interactive := func(r *manager.Request, line string) {
		r.Command.TTY = &sandbox.TTY{Rows: 24, Cols: 80}
		r.Command.Stdin = strings.NewReader(line + "\n")
	}
	if out, o := shell(func(r *manager.Request) { interactive(r, "sleep 2; exit 5") }); o.TimedOut || o.Exit.Code != 5 {
		t.Errorf("an interactive shell ended with %+v: %s", o, out)
	}
	if _, o := shell(func(r *manager.Request) { interactive(r, "sleep 1000; exit 5"); r.Timeout = time.Second }); !o.TimedOut {
		t.Errorf("its own limit does not count: %+v", o)
	}
	_, err := m.Shell(t.Context(), manager.Request{Who: who("a")})
	if sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("without a terminal: %v", err)
	}
}

// TestExplainTellsTheFileTransport holds that asking neither makes nor starts
// nor thaws anything.
func TestExplainTellsTheFileTransport(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager("")
	explain := func() manager.Explanation {
		t.Helper()
		e, err := m.Explain(t.Context(), who("a"), nil, manager.Questions{})
		must(t, err)
		return e
	}
	if e := explain(); e.Files.Transport != "" || e.Files.Note != "decided when it runs" || e.Status != sandbox.StatusMissing {
		t.Errorf("before there is one: %+v, %s", e.Files, e.Status)
	}
	_, o := mustRun(t, m, "a", "true")
	testenv.Success(t, func() error { // the report may lack it while the guest takes long to answer
		if e := explain(); e.Files.Transport != "guest" && e.Files.Transport != "script" || !e.Files.Durable {
			return fmt.Errorf("while it runs: %+v", e.Files)
		}
		return nil
	})
	if e := explain(); len(e.Problems) > 0 {
		t.Errorf("problems: %v", e.Problems)
	}
	info, err := r.engine.Inspect(t.Context(), o.Name)
	must(t, err)
	must(t, r.engine.Pause(t.Context(), info.ID))
	if e := explain(); e.Files.Transport != "" || e.Status != sandbox.StatusPaused {
		t.Errorf("while it is paused: %+v, %s", e.Files, e.Status)
	}
	if info, _ = r.engine.Inspect(t.Context(), o.Name); info.Status != sandbox.StatusPaused {
		t.Errorf("asking made it %s", info.Status)
	}
}
