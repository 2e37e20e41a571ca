package plan_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// TestProve verifies that SelfCheck accepts the mounts of a real bwrap, and
// detects a link that was inserted between planning and mounting.
func TestProve(t *testing.T) {
	ws, mask, world := hostile(t)
	world.Denies = append(world.Denies, plan.Deny{Path: ws + "/odd name\\x/f", Read: true, Rule: "odd"})
	odd := filepath.Join(ws, "odd name\\x")
	if err := errors.Join(os.Mkdir(odd, 0o755), os.WriteFile(odd+"/f", nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	give(t, odd)
	w := raise(t, world, mask)
	host, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	mounts := w.sh(t, "cat /proc/self/mountinfo")
	if err := plan.SelfCheck(w.plan, mask, string(host), mounts); err != nil {
		t.Errorf("as planned: %v\n%s", err, mounts)
	}
	for _, lie := range []struct{ name, old, new, want string }{
		{"mask elsewhere", "/workspace/a/b/.env", "/workspace/c", "nothing is mounted"},
		{"mask writable", "/workspace/vault ro", "/workspace/vault rw", "no read-only memory"},
		{"hooks writable", "/workspace/.git/hooks ro", "/workspace/.git/hooks rw", "writable"},
		{"root writable", " / ro", " / rw", "writable"},
		{"another file system", "- proc", "- tmpfs", "it is tmpfs"},
	} {
		if !strings.Contains(mounts, lie.old) {
			t.Errorf("%s: %q is not in\n%s", lie.name, lie.old, mounts)
		}
		err := plan.SelfCheck(w.plan, mask, string(host), strings.Replace(mounts, lie.old, lie.new, 1))
		if err == nil || !strings.Contains(err.Error(), lie.want) {
			t.Errorf("%s: got %v, want %q", lie.name, err, lie.want)
		}
	}
	if plan.SelfCheck(w.plan, mask, string(host), mounts+"short line\n") == nil {
		t.Error("a line that cannot be read was passed over")
	}
}

// TestProveSwapped verifies that SelfCheck detects links inserted between
// planning and mounting.
func TestProveSwapped(t *testing.T) {
	ws, mask, world := hostile(t)
	w := raise(t, world, mask)
	host, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	refused := func(name, want string) {
		t.Helper()
		mounts := w.sh(t, "cat /proc/self/mountinfo")
		if err := plan.SelfCheck(w.plan, mask, string(host), mounts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q\n%s", name, err, want, mounts)
		}
	}
	// A link that is removed again before the mount: bwrap has already followed
	// it.
	outside := filepath.Join(filepath.Dir(ws), "outside")
	if err := errors.Join(os.MkdirAll(outside+"/hooks", 0o755), os.WriteFile(outside+"/config", nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	give(t, outside)
	args := w.args
	w.args = slices.Clone(args)
	w.args[slices.Index(args, ws+"/.git")] = outside
	refused("followed before", "instead of")
	// A link that stays, to a folder that has the mount point too.
	w.args = args
	if err := errors.Join(os.Rename(ws+"/.git", ws+"/other"), os.Symlink("other", ws+"/.git")); err != nil {
		t.Fatal(err)
	}
	refused("followed by the mount point", "nothing is mounted there")
}
