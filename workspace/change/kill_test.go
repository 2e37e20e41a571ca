package change_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/workspace/change"
)

// killEnv makes the test binary apply or undo changes and kill itself between
// two steps.
const killEnv = "SANDBOX_CHANGE_KILL"

func TestMain(m *testing.M) {
	if os.Getenv(killEnv) != "" {
		victim()
		return
	}
	os.Exit(m.Run())
}

// victim applies or undoes the changes of the folder that its arguments name,
// and kills itself at the step of a number. It exits with 0 if there are fewer
// steps.
func victim() {
	what, dir := os.Args[1], os.Args[2]
	left, err := strconv.Atoi(os.Args[3])
	fail := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	fail(err)
	step := func(string) {
		if left--; left == 0 {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	if what == "undo" {
		_, err := change.Undo(context.Background(), dir+"/host", dir+"/journal", change.WithStep(change.UndoOptions{}, step))
		fail(err)
		return
	}
	base, err := change.Folder(dir + "/base")
	fail(err)
	current, err := change.Folder(dir + "/current")
	fail(err)
	p, err := change.NewPlan(context.Background(), dir+"/host", base, current, everything())
	fail(err)
	change.SetStep(p, step)
	_, err = p.Apply(context.Background(), dir+"/journal")
	fail(err)
}

// kill runs the victim until it is dead, and reports whether it came to the
// step.
func (r *rig) kill(what string, step int) bool {
	r.Helper()
	cmd := exec.Command(os.Args[0], what, strings.TrimSuffix(r.host, "/host"), strconv.Itoa(step))
	cmd.Env = append(os.Environ(), killEnv+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		r.Fatalf("%v: %s", err, out)
	}
	return true
}

// killRig is a rig with changes of every kind.
func killRig(t *testing.T) *rig {
	r := newRig(t, map[string]string{
		"edit": "1\n", "gone": "1\n", "mode": "1\n", "link": "-> a", "dir/gone": "1\n", "tofile/x": "1\n", "todir": "2\n", "tolink": "3\n", "merge": poem, "moved": strings.Repeat("m\n", 9),
	})
	put(t, r.host+"/merge", ours)
	put(t, r.current+"/merge", theirs)
	put(t, r.current+"/edit", "2\n")
	must(t, os.Remove(r.current+"/gone"))
	must(t, os.Chmod(r.current+"/mode", 0o755))
	put(t, r.current+"/link", "-> b")
	must(t, os.RemoveAll(r.current+"/dir"))
	put(t, r.current+"/tofile", "4\n")
	must(t, os.Remove(r.current+"/todir"))
	must(t, os.Rename(r.current+"/moved", r.current+"/moved2"))
	fill(t, r.current, map[string]string{"todir/x": "5\n", "new/a/b": "6\n"})
	put(t, r.current+"/tolink", "-> edit")
	for i := range 20 { // enough that files are built together
		put(t, r.current+"/many"+strconv.Itoa(i), strconv.Itoa(i))
	}
	return r
}

// whole holds that every path of the host is as before or as after, and that
// the only other names are temporary ones.
func (r *rig) whole(t *testing.T, before, after map[string]string) {
	t.Helper()
	for name, s := range snapshot(t, r.host) {
		if strings.Contains(name, ".sandbox-apply-") {
			continue
		}
		if s != before[name] && s != after[name] && !strings.HasPrefix(s, "d") {
			t.Errorf("%q is %.60q, neither %.60q nor %.60q", name, s, before[name], after[name])
		}
	}
	for name, s := range before {
		if s == after[name] {
			if got := snapshot(t, r.host)[name]; got != s {
				t.Errorf("%q does not change, and is %.60q", name, got)
			}
		}
	}
}

// TestKilledApply kills an application between every two steps. Each file is
// old or new then; the journal is not there and nothing has changed, or says
// what is left to do: Undo leads back and Resume forward.
func TestKilledApply(t *testing.T) {
	t.Parallel()
	sample := killRig(t)
	before := snapshot(t, sample.host)
	must(t, sample.apply(everything()))
	after := snapshot(t, sample.host)
	every := testenv.Rounds(29, 11, 1)
	for step := 1; ; step += every {
		r := killRig(t)
		if !r.kill("apply", step) {
			if step < 20 {
				t.Errorf("there are only %d steps", step)
			}
			differ(t, "after all steps", snapshot(t, r.host), after)
			break
		}
		r.whole(t, before, after)
		s, err := change.Inspect(r.journal)
		switch {
		case sandbox.IsNotFound(err):
			differ(t, fmt.Sprintf("step %d, without a journal", step), snapshot(t, r.host), before)
			if step%2 == 0 {
				must(t, r.apply(everything()))
				differ(t, fmt.Sprintf("step %d, applied again", step), snapshot(t, r.host), after)
			}
			continue
		case err != nil:
			t.Fatal(err)
		case s.Phase == change.Applied:
			differ(t, fmt.Sprintf("step %d, applied", step), snapshot(t, r.host), after)
		case step%2 == 0:
			_, err := change.Resume(deadline(t), r.host, r.journal)
			must(t, err)
			differ(t, fmt.Sprintf("step %d, resumed", step), snapshot(t, r.host), after)
		}
		_, err = r.undo(change.UndoOptions{})
		must(t, err)
		if differ(t, fmt.Sprintf("step %d, undone", step), snapshot(t, r.host), before); t.Failed() {
			return
		}
	}
}

// TestKilledUndo kills an undo between every two steps, and undoes once more.
func TestKilledUndo(t *testing.T) {
	t.Parallel()
	sample := killRig(t)
	before := snapshot(t, sample.host)
	must(t, sample.apply(everything()))
	after := snapshot(t, sample.host)
	every := testenv.Rounds(29, 11, 1)
	for step := 1; ; step += every {
		r := killRig(t)
		must(t, r.apply(everything()))
		if !r.kill("undo", step) {
			if step < 20 {
				t.Errorf("there are only %d steps", step)
			}
			differ(t, "after all steps", snapshot(t, r.host), before)
			return
		}
		r.whole(t, before, after)
		s, err := change.Inspect(r.journal)
		must(t, err)
		if s.Phase == change.Undone {
			differ(t, fmt.Sprintf("step %d, undone", step), snapshot(t, r.host), before)
			continue
		}
		_, err = r.undo(change.UndoOptions{})
		must(t, err)
		if differ(t, fmt.Sprintf("step %d, undone again", step), snapshot(t, r.host), before); t.Failed() {
			return
		}
	}
}
