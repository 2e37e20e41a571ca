package plan_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// ops returns a plan with a closed file in an open folder, one in a closed
// folder, an own file over a system file, and memory with a host folder in it.
func ops() plan.Plan {
	return plan.Plan{Ops: []plan.Op{
		{Kind: plan.OpDir, Target: "/.sandbox"},
		{Kind: plan.OpRoBind, Source: "/etc", Target: "/etc"},
		{Kind: plan.OpRoBind, Source: "/state/passwd", Target: "/etc/passwd"},
		{Kind: plan.OpBind, Source: "/home/u/proj", Target: "/workspace"},
		{Kind: plan.OpBind, Source: "/home/u/proj/sub", Target: "/workspace/sub"},
		{Kind: plan.OpMaskFile, Target: "/workspace/sub/.env"},
		{Kind: plan.OpRoBind, Source: "/home/u/proj/.git/config", Target: "/workspace/.git/config"},
		{Kind: plan.OpTmpfs, Target: "/workspace/cache"},
		{Kind: plan.OpRoBind, Source: "/x", Target: "/workspace/cache/x"},
		{Kind: plan.OpRemountRo, Target: "/"},
	}}
}

const built = `1 0 0:1 / / ro - tmpfs t ro
2 1 8:1 /etc /etc ro - ext4 d rw
3 2 8:1 /state/passwd /etc/passwd ro - ext4 d rw
4 1 8:1 /home/u/proj /workspace rw - ext4 d rw
5 4 8:1 /home/u/proj/sub /workspace/sub rw - ext4 d rw
6 5 8:1 /state/mask /workspace/sub/.env ro - ext4 d rw
7 4 8:1 /home/u/proj/.git/config /workspace/.git/config ro - ext4 d rw
8 4 0:2 / /workspace/cache rw - tmpfs t rw
9 8 8:1 /x /workspace/cache/x ro - ext4 d rw
`

func TestLost(t *testing.T) {
	line := func(id string) string {
		i := strings.Index(built, id+" ")
		return built[i : i+strings.Index(built[i:], "\n")+1]
	}
	for _, tt := range []struct {
		name, old, new string
		want           []string
	}{
		{"nothing", "", "", nil},
		{"replaced", line("7"), "", []string{"/workspace/.git/config"}},
		{"renamed", "/workspace/sub/.env", "/workspace/sub/.env~", []string{"/workspace/sub/.env"}},
		{"a folder above renamed", "/workspace/sub", "/workspace/old", []string{"/workspace/sub/.env"}},
		{"another mount of the same place", "6 5 8:1 /state/mask", "66 5 8:1 /x", []string{"/workspace/sub/.env"}},
		{"what could be written to", line("5"), "", nil},
		{"more is mounted", line("9"), line("9") + "10 4 0:9 / /workspace/new rw - tmpfs t rw\n", nil},
		{"mounted over", line("6"), line("6") + "10 6 0:9 / /workspace/sub/.env rw - tmpfs t rw\n", nil},
		{"a file of the system", line("3"), "", []string{"/etc/passwd"}},
	} {
		now := strings.Replace(built, tt.old, tt.new, 1)
		if tt.name == "a folder above renamed" {
			now = strings.ReplaceAll(built, tt.old, tt.new)
		}
		if lost, err := plan.Lost(ops(), built, now); err != nil || !slices.Equal(lost, tt.want) {
			t.Errorf("%s: %q, %v; want %q", tt.name, lost, err, tt.want)
		}
	}
	for _, text := range [][2]string{{built, "short line\n"}, {"short line\n", built}} {
		if _, err := plan.Lost(ops(), text[0], text[1]); err == nil {
			t.Error("a line that cannot be read was passed over")
		}
	}
}

func TestShowsOnly(t *testing.T) {
	var got []string
	for _, op := range ops().Ops {
		if plan.ShowsOnly(ops(), op.Target) {
			got = append(got, op.Target)
		}
	}
	if !slices.Equal(got, []string{"/etc/passwd"}) {
		t.Errorf("%q close nothing", got)
	}
}

func TestCovered(t *testing.T) {
	closed, ways := plan.Covered(ops())
	want := map[string]string{
		"/etc/passwd": "/etc/passwd", "/workspace/sub/.env": "/home/u/proj/sub/.env",
		"/workspace/.git/config": "/home/u/proj/.git/config", "/workspace/cache": "/home/u/proj/cache",
	}
	if !maps.Equal(closed, want) {
		t.Errorf("%q, want %q", closed, want)
	}
	slices.Sort(ways)
	if want := []string{
		"/etc/passwd", "/home/u/proj/.git", "/home/u/proj/.git/config", "/home/u/proj/cache", "/home/u/proj/sub", "/home/u/proj/sub/.env",
	}; !slices.Equal(ways, want) {
		t.Errorf("%q, want %q", ways, want)
	}
}
