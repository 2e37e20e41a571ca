//go:build linux

package launch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// mountsOnTheWay returns where something is mounted for who starts program as
// the instance's user.
func mountsOnTheWay(t *testing.T, program string) []string {
	t.Helper()
	type result struct {
		text []byte
		err  error
	}
	out := make(chan result)
	onThread(func() {
		var r result
		if r.err = (&Down{UID: 1000, GID: 1000, Sources: []string{"/usr"}}).prepare(program); r.err == nil {
			r.text, r.err = os.ReadFile("/proc/thread-self/mountinfo")
		}
		out <- r
	})
	r := <-out
	if r.err != nil {
		t.Fatal(r.err)
	}
	return mountPoints(r.text)
}

// mountPoints are those of the text of a mountinfo.
func mountPoints(text []byte) (points []string) {
	for line := range strings.Lines(string(text)) {
		points = append(points, strings.Fields(line)[4])
	}
	return points
}

// TestMountsOfTheHostAreLeft holds that the way into an instance does not get
// longer with each mount of the host, and that a program which may need them
// finds them.
func TestMountsOfTheHostAreLeft(t *testing.T) {
	testenv.Require(t, "root")
	got := mountsOnTheWay(t, "/usr/bin/env")
	for _, point := range got {
		near := func(dir string) bool { return point == dir || strings.HasPrefix(point, dir+"/") }
		if point != "/" && !slices.ContainsFunc(append(ground(), Stage), near) {
			t.Errorf("%s is still mounted", point)
		}
	}
	for _, needed := range []string{"/", "/proc", "/usr", Stage, Staged(0)} {
		if !slices.Contains(got, needed) {
			t.Errorf("%s is not mounted; there are %q", needed, got)
		}
	}
	elsewhere := filepath.Join(t.TempDir(), "bwrap")
	if err := os.WriteFile(elsewhere, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	host := func() []string {
		text, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		return mountPoints(text)
	}
	var missing []string
	if !testenv.WithoutMounts(t, func() bool {
		before := host()
		all := mountsOnTheWay(t, elsewhere)
		after := host() // others mount and unmount meanwhile
		missing = slices.DeleteFunc(before, func(point string) bool {
			return !slices.Contains(after, point) || slices.Contains(all, point)
		})
		return len(missing) == 0
	}) {
		t.Errorf("%q are not mounted for a program that is not the system's", missing)
	}
}
