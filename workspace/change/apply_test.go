package change_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/workspace/change"
	"golang.org/x/sys/unix"
)

func (r *rig) undo(o change.UndoOptions) (*change.Report, error) {
	return change.Undo(context.Background(), r.host, r.journal, o)
}

// TestApplyAndUndo holds, for random changes, that the host has what the
// workspace has after Apply, and what it had before after Undo.
func TestApplyAndUndo(t *testing.T) {
	for seed := range int64(testenv.Rounds(3, 10, 300)) {
		rng := rand.New(rand.NewSource(seed))
		r := newRig(t, nil)
		mutate(t, rng, r.base, 40)
		copyTree(t, r.base, r.host)
		copyTree(t, r.base, r.current)
		mutate(t, rng, r.current, 40)
		before, want := snapshot(t, r.host), snapshot(t, r.current)
		p := r.mustPlan(everything())
		if len(p.Conflicts)+len(p.Refused) > 0 {
			t.Fatalf("seed %d: %+v %+v", seed, p.Conflicts, p.Refused)
		}
		differ(t, "after a plan", snapshot(t, r.host), before)
		report, err := p.Apply(deadline(t), r.journal)
		must(t, err)
		if len(report.Done) != len(p.Steps) {
			t.Errorf("seed %d: %d steps done of %d", seed, len(report.Done), len(p.Steps))
		}
		differ(t, "after apply", snapshot(t, r.host), want)
		if again := r.mustPlan(everything()); len(again.Steps)+len(again.Conflicts) > 0 {
			t.Errorf("seed %d: a second time: %+v, %+v", seed, again.Steps, again.Conflicts)
		}
		if s, err := change.Inspect(r.journal); len(p.Steps) > 0 && (err != nil || s.Phase != change.Applied || len(s.Paths) == 0) {
			t.Errorf("%+v, %v", s, err)
		}
		if len(p.Steps) > 0 {
			_, err = r.undo(change.UndoOptions{})
			must(t, err)
		}
		if differ(t, "after undo", snapshot(t, r.host), before); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func TestUndoTwice(t *testing.T) {
	r := newRig(t, map[string]string{"a": "1"})
	put(t, r.current+"/a", "2")
	must(t, r.apply(change.PlanOptions{}))
	_, err := r.undo(change.UndoOptions{})
	must(t, err)
	_, err = r.undo(change.UndoOptions{})
	refused(t, err, sandbox.CodeBusy)
	_, err = change.Resume(deadline(t), r.host, r.journal)
	refused(t, err, sandbox.CodeBusy)
	_, err = change.Undo(deadline(t), r.host, t.TempDir(), change.UndoOptions{})
	refused(t, err, sandbox.CodeNotFound)
	err = r.apply(change.PlanOptions{}) // the folder has a journal
	refused(t, err, sandbox.CodeValidation)
}

func TestUndoRestoresTimes(t *testing.T) {
	r := newRig(t, map[string]string{"a": "1", "b": "1"})
	when := time.Unix(1_000_000_000, 123456000)
	for _, name := range []string{"a", "b"} {
		must(t, os.Chtimes(r.host+"/"+name, when, when))
	}
	put(t, r.current+"/a", "2")
	must(t, os.Remove(r.current+"/b"))
	must(t, r.apply(change.PlanOptions{}))
	_, err := r.undo(change.UndoOptions{})
	must(t, err)
	for _, name := range []string{"a", "b"} {
		if info, err := os.Stat(r.host + "/" + name); err != nil || !info.ModTime().Equal(when) {
			t.Errorf("%s: %v, %v", name, info.ModTime(), err)
		}
	}
}

func TestUndoConflict(t *testing.T) {
	r := newRig(t, map[string]string{"a": "1", "b": "1", "c": "1", "d/x": "1"})
	put(t, r.current+"/a", "2")
	put(t, r.current+"/b", "2")
	must(t, os.Remove(r.current+"/c"))
	fill(t, r.current, map[string]string{"new/f": "1"})
	before := snapshot(t, r.host)
	must(t, r.apply(change.PlanOptions{}))
	put(t, r.host+"/a", "theirs")
	put(t, r.host+"/new/own", "theirs")
	applied := snapshot(t, r.host)
	report, err := r.undo(change.UndoOptions{})
	refused(t, err, sandbox.CodeBusy)
	if report == nil || len(report.Conflicts) != 1 || report.Conflicts[0].Path != "a" {
		t.Errorf("%+v", report)
	}
	differ(t, "after a refused undo", snapshot(t, r.host), applied)
	report, err = r.undo(change.UndoOptions{Partial: true})
	must(t, err)
	if len(report.Conflicts) != 2 { // a, and the folder that is not empty
		t.Errorf("%+v", report.Conflicts)
	}
	before["a"], before["new"], before["new/own"] = applied["a"], applied["new"], applied["new/own"]
	differ(t, "after an undo of the rest", snapshot(t, r.host), before)
}

const (
	poem   = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n"
	ours   = "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n"
	theirs = "one\ntwo\nthree\nfour\nfive\nsix\nseven\nEIGHT\n"
	both   = "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\nEIGHT\n"
)

// conflicts are changes on both sides, by what they are.
var conflicts = map[string]struct {
	base, host, current string // contents; "" is no file
	want                string // content after the plan with Partial
	conflict            string // part of the reason, or ""
}{
	"merge":                 {poem, ours, theirs, both, ""},
	"merge with mode":       {poem, ours, "+x " + theirs, "+x " + both, ""},
	"host's mode stays":     {poem, "+x " + ours, theirs, "+x " + both, ""},
	"same change":           {poem, ours, ours, ours, ""},
	"same lines":            {poem, ours, strings.Replace(poem, "one", "eins", 1), ours, "the same lines"},
	"adjacent lines":        {poem, ours, strings.Replace(poem, "two", "zwei", 1), ours, "the same lines"},
	"both added":            {"", "x\n", "y\n", "x\n", "another one of this name"},
	"both added alike":      {"", "x\n", "x\n", "x\n", ""},
	"both removed":          {"x\n", "", "", "", ""},
	"host removed":          {"x\n", "", "y\n", "", "removed"},
	"removed here":          {"x\n", "y\n", "", "y\n", "changed"},
	"binary":                {"\x00a", "\x00b", "\x00c", "\x00b", "no text"},
	"binary on host":        {poem, "\x00b", theirs, "\x00b", "no text"},
	"link and file":         {poem, "-> x", theirs, "-> x", "changed"},
	"links":                 {"-> a", "-> b", "-> c", "-> b", "link that changed on both"},
	"file became link":      {poem, ours, "-> x", ours, "changed"},
	"only host":             {poem, ours, poem, ours, ""},
	"mode here, text there": {poem, ours, "+x " + poem, "+x " + ours, ""},
	"no newline":            {"a\nb\nc\nd", "A\nb\nc\nd", "a\nb\nc\nD", "A\nb\nc\nD", ""},
}

func TestMergeAndConflict(t *testing.T) {
	for name, tt := range conflicts {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, map[string]string{"other": "1"})
			for root, content := range map[string]string{r.base: tt.base, r.host: tt.host, r.current: tt.current} {
				if content != "" {
					put(t, root+"/f", content)
				}
			}
			put(t, r.current+"/other", "2")
			before := snapshot(t, r.host)
			p := r.mustPlan(change.PlanOptions{})
			if tt.conflict == "" && len(p.Conflicts) > 0 {
				t.Errorf("%+v", p.Conflicts)
			}
			if tt.conflict != "" {
				if len(p.Conflicts) != 1 || !strings.Contains(p.Conflicts[0].Why, tt.conflict) || p.Conflicts[0].Path != "f" {
					t.Errorf("%+v, want %q", p.Conflicts, tt.conflict)
				}
				_, err := p.Apply(deadline(t), r.journal)
				refused(t, err, sandbox.CodeBusy)
				differ(t, "after a refused apply", snapshot(t, r.host), before)
			}
			must(t, r.apply(change.PlanOptions{Partial: true}))
			want := newRig(t, map[string]string{"other": "2"})
			if tt.want != "" {
				put(t, want.host+"/f", tt.want)
			}
			differ(t, "after apply", snapshot(t, r.host), snapshot(t, want.host))
			_, err := r.undo(change.UndoOptions{})
			must(t, err)
			differ(t, "after undo", snapshot(t, r.host), before)
		})
	}
}

// original is an Original of a folder, and of files that were not there.
type original struct {
	root     string
	contents bool
	absent   []string
}

func (o original) Base(rel string) (io.ReadCloser, change.Version, bool) {
	if slices.Contains(o.absent, rel) {
		return nil, change.Version{Absent: true}, true
	}
	info, err := os.Lstat(filepath.Join(o.root, rel))
	if err != nil {
		return nil, change.Version{}, false
	}
	v := change.Version{Mode: info.Mode(), Size: info.Size(), ModTime: info.ModTime()}
	if !o.contents || !info.Mode().IsRegular() {
		v.Link, _ = os.Readlink(filepath.Join(o.root, rel))
		return nil, v, true
	}
	f, err := os.Open(filepath.Join(o.root, rel))
	return f, v, err == nil
}

// TestOriginal holds that a plan goes by what the host's files were, not by
// what the base tree has.
func TestOriginal(t *testing.T) {
	r := newRig(t, map[string]string{"merge": poem, "same": "1\n", "new": "1\n", "unknown": "1\n", "gone": "1\n", "link": "-> a", "mode/": ""})
	was := newRig(t, map[string]string{"merge": poem, "same": "1\n", "gone": "1\n", "link": "-> a"})
	put(t, r.host+"/merge", ours)
	put(t, r.current+"/merge", theirs)
	for _, f := range []string{"same", "new", "unknown"} {
		put(t, r.current+"/"+f, "2\n")
	}
	put(t, r.current+"/link", "-> b")
	must(t, os.Chmod(r.current+"/mode", 0o700))
	must(t, os.Remove(r.current+"/gone"))
	conflicts := func(contents bool) string {
		t.Helper()
		var out []string
		p := r.mustPlan(change.PlanOptions{Original: original{was.base, contents, []string{"new"}}})
		for _, c := range p.Conflicts {
			out = append(out, c.Path)
		}
		if len(p.Steps)+len(out) != 7 {
			t.Errorf("%+v, %+v", p.Steps, p.Conflicts)
		}
		return strings.Join(out, " ")
	}
	if got := conflicts(true); got != "new unknown" {
		t.Errorf("with contents: %s", got)
	}
	for _, name := range []string{"same", "gone"} { // as a manifest would know them
		info, err := os.Stat(r.host + "/" + name)
		must(t, err)
		must(t, os.Chtimes(was.base+"/"+name, info.ModTime(), info.ModTime()))
	}
	if got := conflicts(false); got != "merge new unknown" {
		t.Errorf("by identity: %s", got)
	}
}

// TestLiveBase holds that files of a host's folder that is the base itself have
// a known base only if they did not change since the workspace was made.
func TestLiveBase(t *testing.T) {
	r := newRig(t, map[string]string{"a": "1", "b": "1"})
	for _, f := range []string{"a", "b"} {
		put(t, r.current+"/"+f, "2")
	}
	plan := func(o change.PlanOptions) (*change.Plan, error) {
		return change.NewPlan(deadline(t), r.host, r.tree(r.host), r.tree(r.current), o)
	}
	_, err := plan(change.PlanOptions{})
	refused(t, err, sandbox.CodeValidation)
	changed := func(name string) time.Time {
		var st unix.Stat_t
		must(t, unix.Stat(r.host+"/"+name, &st))
		return time.Unix(st.Ctim.Unix())
	}
	testenv.Until(t, "a later time of a change", func() bool {
		put(t, r.host+"/a", "3")
		return changed("a").After(changed("b"))
	})
	p, err := plan(change.PlanOptions{Since: changed("a")})
	must(t, err)
	if len(p.Steps) != 1 || p.Steps[0].Path != "b" || len(p.Conflicts) != 1 || p.Conflicts[0].Path != "a" {
		t.Errorf("%+v, %+v", p.Steps, p.Conflicts)
	}
}

func TestSelection(t *testing.T) {
	text := strings.Repeat("a line of text\n", 5)
	r := newRig(t, map[string]string{"a": "1", "dir/b": "1", "old/f": text, "x/y": "4", "x/z": "5"})
	put(t, r.current+"/a", "2")
	put(t, r.current+"/dir/b", "2")
	must(t, os.Remove(r.current+"/old/f"))
	fill(t, r.current, map[string]string{"new/deep/f": text, "new/deep/g": "2", "new/h": "3"})
	must(t, os.RemoveAll(r.current+"/x"))
	steps := func(paths ...string) string {
		var out []string
		for _, s := range r.mustPlan(change.PlanOptions{Paths: paths}).Steps {
			out = append(out, string(s.Action)+" "+s.Path)
		}
		return strings.Join(out, ", ")
	}
	for _, tt := range []struct{ paths, want string }{
		{"a", "write a"},
		{"dir", "write dir/b"},
		{"new/deep/g", "write new, write new/deep, write new/deep/g"},
		{"old/f", "remove old/f, write new, write new/deep, write new/deep/f"},
		{"x", "remove x/z, remove x/y, remove x"},
		{"x/y", "remove x/y"},
		{"nothing", ""},
		{"di", ""},
	} {
		if got := steps(tt.paths); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.paths, got, tt.want)
		}
	}
	_, err := r.plan(change.PlanOptions{Paths: []string{"../a"}})
	refused(t, err, sandbox.CodeValidation)
}

func TestRemovedFolder(t *testing.T) {
	r := newRig(t, map[string]string{"d/a": "1", "f/a": "1"})
	must(t, os.RemoveAll(r.current+"/d"))
	must(t, os.RemoveAll(r.current+"/f"))
	put(t, r.current+"/f", "a file now")
	put(t, r.host+"/d/own", "1")
	put(t, r.host+"/f/own", "1")
	p := r.mustPlan(change.PlanOptions{Partial: true})
	if len(p.Conflicts) != 2 || p.Conflicts[0].Path == p.Conflicts[1].Path {
		t.Errorf("%+v", p.Conflicts)
	}
	_, err := p.Apply(deadline(t), r.journal)
	must(t, err)
	if got := snapshot(t, r.host); got["d/own"] == "" || got["f/own"] == "" || got["d/a"] != "" {
		t.Errorf("%v", got)
	}
}

func TestApplyOwnsAndModes(t *testing.T) {
	testenv.Require(t, "root")
	r := newRig(t, map[string]string{"a": "1"})
	must(t, os.Chown(r.host, testenv.OrdinaryUser, testenv.OrdinaryUser))
	fill(t, r.current, map[string]string{"a": "2", "d/f": "1", "l": "-> a"})
	must(t, os.Chmod(r.current+"/a", 0o755|fs.ModeSetuid))
	must(t, os.Chmod(r.current+"/d", 0o777|fs.ModeSticky))
	must(t, r.apply(change.PlanOptions{AllowRisks: []change.Risk{change.RiskSetID}}))
	for name, want := range map[string]uint32{"a": 0o100755, "d": 0o40777, "d/f": 0o100644, "l": 0o120777} {
		var st unix.Stat_t
		must(t, unix.Lstat(r.host+"/"+name, &st))
		if st.Uid != testenv.OrdinaryUser || st.Gid != testenv.OrdinaryUser || uint32(st.Mode) != want {
			t.Errorf("%s: %d:%d %o", name, st.Uid, st.Gid, st.Mode)
		}
	}
	_, err := r.undo(change.UndoOptions{})
	must(t, err)
	var st unix.Stat_t
	must(t, unix.Lstat(r.host+"/a", &st))
	if st.Uid != 0 || uint32(st.Mode) != 0o100644 {
		t.Errorf("restored: %d, %o", st.Uid, st.Mode)
	}
}

// TestPlannedIsApplied holds that what changes between plan and application is
// not applied.
func TestPlannedIsApplied(t *testing.T) {
	for name, change2 := range map[string]func(r *rig){
		"workspace":         func(r *rig) { put(r, r.current+"/a", "evil") },
		"workspace link":    func(r *rig) { put(r, r.current+"/a", "-> /etc/passwd") },
		"workspace removed": func(r *rig) { must(r, os.Remove(r.current+"/a")) },
		"host":              func(r *rig) { put(r, r.host+"/a", "mine") },
		"host link":         func(r *rig) { put(r, r.host+"/a", "-> /etc/passwd") },
		"host removed":      func(r *rig) { must(r, os.Remove(r.host+"/a")) },
		"host mode":         func(r *rig) { must(r, os.Chmod(r.host+"/a", 0o600)) },
		"host exchanged": func(r *rig) {
			must(r, os.Rename(r.host, r.host+"2"))
			must(r, os.Mkdir(r.host, 0o755))
			put(r, r.host+"/a", "1")
			put(r, r.host+"/b", "1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, map[string]string{"a": "1", "b": "1"})
			put(t, r.current+"/a", "2")
			put(t, r.current+"/b", "2")
			p := r.mustPlan(change.PlanOptions{})
			r.TB = t
			change2(r)
			before := snapshot(t, r.host)
			_, err := p.Apply(deadline(t), r.journal)
			refused(t, err, sandbox.CodeBusy)
			differ(t, "after a refused apply", snapshot(t, r.host), before)
		})
	}
	r := newRig(t, map[string]string{"a": "1"})
	put(t, r.current+"/a", "2")
	shown := r.mustPlan(change.PlanOptions{}).Digest
	if _, err := r.plan(change.PlanOptions{Digest: shown}); err != nil {
		t.Errorf("the plan that was shown: %v", err)
	}
	put(t, r.current+"/a", "3")
	_, err := r.plan(change.PlanOptions{Digest: shown})
	refused(t, err, sandbox.CodeBusy)
}

func TestBudget(t *testing.T) {
	r := newRig(t, nil)
	put(t, r.current+"/a", strings.Repeat("x", 1000))
	_, err := r.plan(change.PlanOptions{MaxBytes: 999})
	refused(t, err, sandbox.CodeBudgetExceeded)
	p := r.mustPlan(change.PlanOptions{MaxFile: 999})
	if len(p.Refused) != 1 || len(p.Steps) != 0 {
		t.Errorf("%+v", p)
	}
	_, err = p.Apply(deadline(t), r.journal)
	refused(t, err, sandbox.CodeCapabilityBlocked)
	f, err := os.Create(r.current + "/sparse")
	must(t, err)
	must(t, f.Truncate(1<<40))
	must(t, f.Close())
	p = r.mustPlan(change.PlanOptions{Partial: true})
	if len(p.Refused) != 1 || p.Refused[0].Path != "sparse" {
		t.Errorf("%+v", p.Refused)
	}
}

// TestApplyStopped holds that an application that is stopped is taken back.
func TestApplyStopped(t *testing.T) {
	r := newRig(t, map[string]string{"a": "1", "b": "1", "c": "1"})
	for _, f := range []string{"a", "b", "c"} {
		put(t, r.current+"/"+f, "2")
	}
	before := snapshot(t, r.host)
	ctx, done := context.WithCancel(context.Background())
	p := r.mustPlan(change.PlanOptions{})
	change.SetStep(p, func(step string) {
		if step == "did b" {
			done()
		}
	})
	if _, err := p.Apply(ctx, r.journal); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	differ(t, "after a stopped apply", snapshot(t, r.host), before)
}

// TestRaceInApply holds that a change of the host between two steps is neither
// lost nor overwritten, and that the rest is taken back.
func TestRaceInApply(t *testing.T) {
	for _, at := range []string{"wrote journal", "built f", "did a"} {
		for what, content := range map[string]string{"changed": "mine\n", "linked": "-> a", "removed": ""} {
			t.Run(at+" "+what, func(t *testing.T) {
				r := newRig(t, map[string]string{"a": "1", "f": "1", "g": "1"})
				for _, f := range []string{"a", "f", "g"} {
					put(t, r.current+"/"+f, "2")
				}
				p := r.mustPlan(change.PlanOptions{})
				once := false
				change.SetStep(p, func(step string) {
					if step != at || once {
						return
					}
					once = true
					if content == "" {
						must(t, os.RemoveAll(r.host+"/f"))
					} else {
						put(t, r.host+"/f", content)
					}
				})
				want := snapshot(t, r.host)
				_, err := p.Apply(deadline(t), r.journal)
				refused(t, err, sandbox.CodeBusy)
				after := newRig(t, nil)
				if content != "" {
					put(t, after.host+"/f", content)
				}
				delete(want, "f")
				if s, ok := snapshot(t, after.host)["f"]; ok {
					want["f"] = s
				}
				differ(t, "after a race", snapshot(t, r.host), want)
			})
		}
	}
}

// TestRaceForName holds that a file which the host gets at the path of an added
// one, between two steps, is not replaced.
func TestRaceForName(t *testing.T) {
	for name, content := range map[string]string{"file": "mine\n", "link": "-> a", "folder": ""} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, map[string]string{"a": "1"})
			fill(t, r.current, map[string]string{"a": "2", "new": "2"})
			p := r.mustPlan(change.PlanOptions{})
			want := snapshot(t, r.host)
			once := false
			change.SetStep(p, func(step string) {
				if step != "built new" || once {
					return
				}
				if once = true; content == "" {
					must(t, os.Mkdir(r.host+"/new", 0o755))
				} else {
					put(t, r.host+"/new", content)
				}
				want["new"] = snapshot(t, r.host)["new"]
			})
			_, err := p.Apply(deadline(t), r.journal)
			refused(t, err, sandbox.CodeBusy)
			differ(t, "after a race", snapshot(t, r.host), want)
		})
	}
}

// TestRaceForRemoval holds that a file which changes right before it is removed
// stays.
func TestRaceForRemoval(t *testing.T) {
	r := newRig(t, map[string]string{"a": "1", "f": "1"})
	put(t, r.current+"/a", "2")
	must(t, os.Remove(r.current+"/f"))
	p := r.mustPlan(change.PlanOptions{})
	want := snapshot(t, r.host)
	change.SetStep(p, func(step string) {
		if step == "takes f" {
			put(t, r.host+"/f", "mine")
			want["f"] = "-rw-r--r-- mine"
		}
	})
	_, err := p.Apply(deadline(t), r.journal)
	refused(t, err, sandbox.CodeBusy)
	if want["f"] != "-rw-r--r-- mine" {
		t.Error("the step is not there")
	}
	differ(t, "after a race", snapshot(t, r.host), want)
}

func TestTwoAtOnce(t *testing.T) {
	r := newRig(t, map[string]string{"a": "1"})
	put(t, r.current+"/a", "2")
	p, q := r.mustPlan(change.PlanOptions{}), r.mustPlan(change.PlanOptions{})
	tried := false
	change.SetStep(p, func(step string) {
		if step == "wrote journal" {
			tried = true
			_, err := q.Apply(deadline(t), r.journal+"2")
			refused(t, err, sandbox.CodeBusy)
		}
	})
	_, err := p.Apply(deadline(t), r.journal)
	must(t, err)
	if !tried {
		t.Error("the step is not there")
	}
}

// TestNothingLeft holds that no temporary name stays in the host's folder.
func TestNothingLeft(t *testing.T) {
	r := newRig(t, map[string]string{"a": "1", "d/b": "1"})
	put(t, r.current+"/a", "2")
	must(t, os.RemoveAll(r.current+"/d"))
	must(t, r.apply(change.PlanOptions{}))
	for name := range snapshot(t, r.host) {
		if strings.Contains(name, ".sandbox-") {
			t.Errorf("%s is left", name)
		}
	}
	var b bytes.Buffer
	s, err := change.Inspect(r.journal)
	must(t, err)
	for _, p := range s.Paths {
		b.WriteString(p + " ")
	}
	if got := b.String(); got != "a d d/b " || s.Folder != r.host || !slices.Contains([]change.Phase{change.Applied}, s.Phase) {
		t.Errorf("%q, %+v", got, s)
	}
}
