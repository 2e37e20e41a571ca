package change_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/workspace/change"
	"golang.org/x/sys/unix"
)

// A private is a workspace that is an overlay over the host's folder itself.
type private struct {
	*rig
	upper, merged string
	since         time.Time
}

func newPrivate(t *testing.T, files map[string]string) *private {
	t.Helper()
	r := newRig(t, files)
	p := &private{rig: r, upper: filepath.Dir(r.host) + "/upper"}
	p.merged = overlay(t, p.upper, r.host)
	p.since = p.stamp()
	p.later()
	p.since = p.stamp()
	return p
}

// stamp returns the time of the file system.
func (p *private) stamp() time.Time {
	at := filepath.Dir(p.host) + "/stamp"
	put(p, at, "")
	var st unix.Stat_t
	must(p, unix.Stat(at, &st))
	return time.Unix(st.Ctim.Unix())
}

// later returns when the clock of the file system has gone on.
func (p *private) later() {
	testenv.Until(p, "a later time of a change", func() bool { return p.stamp().After(p.since) })
}

func (p *private) plan(o change.PlanOptions) *change.Plan {
	p.Helper()
	current, err := change.Layers([]string{p.upper, p.host}, change.LayerOptions{})
	must(p, err)
	p.Cleanup(func() { current.Close() })
	o.Since = p.since
	plan, err := change.NewPlan(deadline(p), p.host, p.tree(p.host), current, o)
	must(p, err)
	return plan
}

// TestPrivate applies the changes of a workspace over the host's folder.
func TestPrivate(t *testing.T) {
	p := newPrivate(t, map[string]string{"edit": "1", "gone": "1", "dir/a": "1", "dir/b/c": "1", "mode": "1", "link": "-> edit", "same": "1"})
	put(t, p.merged+"/edit", "2")
	must(t, os.Remove(p.merged+"/gone"))
	must(t, os.RemoveAll(p.merged+"/dir"))
	fill(t, p.merged, map[string]string{"dir/new": "1"})
	must(t, os.Chmod(p.merged+"/mode", 0o755))
	put(t, p.merged+"/link", "-> same")
	want := snapshot(t, p.merged)
	before := snapshot(t, p.host)
	plan := p.plan(change.PlanOptions{})
	must(t, plan.Err())
	if _, err := plan.Apply(deadline(t), p.journal); err != nil {
		t.Fatal(err)
	}
	differ(t, "after apply", snapshot(t, p.host), want)
	_, err := p.undo(change.UndoOptions{})
	must(t, err)
	differ(t, "after undo", snapshot(t, p.host), before)
}

// TestHostOnlyFiles holds that whiteouts and opaque folders of a workspace do
// not reach files that the host got later, and that changes of the host are
// not overwritten.
func TestHostOnlyFiles(t *testing.T) {
	p := newPrivate(t, map[string]string{"dir/a": "1", "opaque/a": "1", "f": "1", "g": "1"})
	must(t, os.RemoveAll(p.merged+"/dir"))
	must(t, os.RemoveAll(p.merged+"/opaque"))
	fill(t, p.merged, map[string]string{"opaque/b": "1", "late": "theirs"})
	put(t, p.merged+"/f", "2")
	must(t, os.Remove(p.merged+"/g"))
	p.later()
	fill(t, p.host, map[string]string{"dir/own": "mine", "opaque/own": "mine", "late": "mine", "f": "mine", "g": "mine"})
	plan := p.plan(change.PlanOptions{Partial: true})
	_, err := plan.Apply(deadline(t), p.journal)
	must(t, err)
	got := snapshot(t, p.host)
	for _, name := range []string{"dir/own", "opaque/own", "late", "f", "g"} {
		if !strings.HasSuffix(got[name], "mine") {
			t.Errorf("%s is %q: %+v", name, got[name], plan.Conflicts)
		}
	}
	if got["dir/a"] != "" || got["opaque/a"] != "" || got["opaque/b"] == "" {
		t.Errorf("%q", got)
	}
}

// TestAppliedAgain applies changes from a workspace more than once, while the
// host's files change as well.
func TestAppliedAgain(t *testing.T) {
	p := newPrivate(t, map[string]string{"f": poem, "g": "1", "h": "1"})
	apply := func(journal string, o change.PlanOptions) *change.Plan {
		t.Helper()
		plan := p.plan(o)
		_, err := plan.Apply(deadline(t), journal)
		must(t, err)
		return plan
	}
	put(t, p.merged+"/f", strings.Replace(poem, "four", "VIER", 1))
	put(t, p.merged+"/g", "2")
	put(t, p.merged+"/new", "1")
	apply(p.journal, change.PlanOptions{})
	put(t, p.merged+"/f", strings.Replace(strings.Replace(poem, "four", "VIER", 1), "eight", "ACHT", 1))
	put(t, p.merged+"/g", "3")
	must(t, os.Remove(p.merged+"/new"))
	put(t, p.merged+"/h", "2")
	put(t, p.host+"/f", strings.Replace(strings.Replace(poem, "four", "VIER", 1), "one", "EINS", 1))
	put(t, p.host+"/h", "mine")
	if plan := p.plan(change.PlanOptions{}); len(plan.Steps) != 0 || len(plan.Conflicts) != 4 {
		t.Errorf("without the journal: %+v, %+v", plan.Steps, plan.Conflicts)
	}
	o := change.PlanOptions{Journals: []string{p.journal}, Partial: true}
	if plan := apply(p.journal+"2", o); len(plan.Conflicts) != 1 || plan.Conflicts[0].Path != "h" {
		t.Errorf("%+v", plan.Conflicts)
	}
	got := snapshot(t, p.host)
	if got["f"] != "-rw-r--r-- EINS\ntwo\nthree\nVIER\nfive\nsix\nseven\nACHT\n" || got["g"] != "-rw-r--r-- 3" || got["new"] != "" || got["h"] != "-rw-r--r-- mine" {
		t.Errorf("%q", got)
	}
	_, err := change.Undo(deadline(t), p.host, p.journal+"2", change.UndoOptions{})
	must(t, err)
	if got := snapshot(t, p.host); got["g"] != "-rw-r--r-- 2" || got["new"] != "-rw-r--r-- 1" {
		t.Errorf("%q", got)
	}
	must(t, os.Remove(p.journal+"/phase"))
	current, err := change.Layers([]string{p.upper, p.host}, change.LayerOptions{})
	must(t, err)
	defer current.Close()
	_, err = change.NewPlan(deadline(t), p.host, p.tree(p.host), current, change.PlanOptions{Since: p.since, Journals: []string{p.journal}})
	refused(t, err, sandbox.CodeBusy)
}

// TestForgedMarks holds that attributes which code in a sandbox can set do not
// remove files of the host.
func TestForgedMarks(t *testing.T) {
	p := newPrivate(t, map[string]string{"dir/a": "1", "f": "1"})
	must(t, os.Chmod(p.merged+"/dir", 0o700)) // brings it into the upper folder
	for _, attr := range []string{"user.overlay.opaque", "user.overlay.whiteout"} {
		if err := unix.Setxattr(p.merged+"/dir", attr, []byte("y"), 0); err != nil {
			testenv.Lack(t, "root", err)
		}
	}
	put(t, p.merged+"/f", "")
	must(t, unix.Setxattr(p.merged+"/f", "user.overlay.whiteout", []byte("y"), 0))
	must(t, unix.Setxattr(p.merged+"/dir", "user.overlay.opaque", []byte("x"), 0))
	if err := unix.Mknod(p.merged+"/w", unix.S_IFCHR, 0); err == nil {
		t.Error("a whiteout can be made inside")
	}
	plan := p.plan(change.PlanOptions{})
	_, err := plan.Apply(deadline(t), p.journal)
	must(t, err)
	if got := snapshot(t, p.host); got["dir/a"] == "" || got["f"] != "-rw-r--r-- " {
		t.Errorf("%q", got)
	}
}

// TestDevices holds that device nodes are never applied.
func TestDevices(t *testing.T) {
	testenv.Require(t, "root")
	r := newRig(t, map[string]string{"f": "x"})
	must(t, unix.Mknod(r.current+"/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	must(t, os.Remove(r.current+"/f"))
	must(t, unix.Mknod(r.current+"/f", unix.S_IFBLK|0o666, int(unix.Mkdev(7, 0))))
	before := snapshot(t, r.host)
	o := everything()
	o.AllowRisks, o.AllowPaths, o.Partial = append(o.AllowRisks, change.RiskSpecial), []string{"null", "f"}, true
	p := r.mustPlan(o)
	if len(p.Refused) != 2 || len(p.Steps) != 0 {
		t.Errorf("%+v", p)
	}
	_, err := p.Apply(deadline(t), r.journal)
	must(t, err)
	differ(t, "after apply", snapshot(t, r.host), before)
}

// TestMountedInside holds that nothing is written to a file system that is
// mounted in the host's folder.
func TestMountedInside(t *testing.T) {
	testenv.Require(t, "root")
	r := newRig(t, map[string]string{"mnt/": "", "a": "1"})
	outside := t.TempDir()
	put(t, outside+"/f", "1")
	must(t, unix.Mount(outside, r.host+"/mnt", "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount(r.host+"/mnt", unix.MNT_DETACH)) })
	fill(t, r.current, map[string]string{"mnt/f": "evil", "mnt/g": "evil", "mnt/d/h": "evil", "a": "2"})
	before := snapshot(t, outside)
	p := r.mustPlan(change.PlanOptions{Partial: true})
	if len(p.Conflicts) < 3 || len(p.Steps) != 1 {
		t.Errorf("%+v, %+v", p.Conflicts, p.Steps)
	}
	_, err := p.Apply(deadline(t), r.journal)
	must(t, err)
	differ(t, "the mounted folder", snapshot(t, outside), before)
}

// TestMountedMeanwhile holds the same for a mount between plan and application.
func TestMountedMeanwhile(t *testing.T) {
	testenv.Require(t, "root")
	r := newRig(t, map[string]string{"mnt/f": "1"})
	outside := t.TempDir()
	put(t, outside+"/f", "1")
	put(t, r.current+"/mnt/f", "evil")
	p := r.mustPlan(change.PlanOptions{})
	must(t, unix.Mount(outside, r.host+"/mnt", "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount(r.host+"/mnt", unix.MNT_DETACH)) })
	_, err := p.Apply(deadline(t), r.journal)
	if err == nil || sandbox.CodeOf(err) == sandbox.CodeInternal {
		t.Errorf("%v", err)
	}
	if got := snapshot(t, outside)["f"]; got != "-rw-r--r-- 1" {
		t.Errorf("%q", got)
	}
}
