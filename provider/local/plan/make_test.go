package plan

import (
	"slices"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// scratch returns a minimal realistic world.
func scratch() World {
	return World{
		Views: []View{
			{Source: "/usr", Target: "/usr", Why: "system"},
			{Source: "/state/ws", Target: "/workspace", Write: true, Why: "workspace"},
		},
		Symlinks: []Symlink{{"/bin", "usr/bin"}},
		Tmpfs:    []sandbox.Tmpfs{{Target: "/tmp", Size: 1 << 20, Mode: 0o1777}},
		ShmSize:  1 << 16,
		Denies:   []Deny{{Path: "/state/ws/a/.env", Read: true, Rule: "**/.env"}},
		Kinds: map[string]Kind{
			"/usr": Dir, "/state": Dir, "/state/ws": Dir, "/state/ws/a": Dir, "/state/ws/a/.env": File,
		},
	}
}

// TestMakeOrders verifies the order of the steps of a small plan.
func TestMakeOrders(t *testing.T) {
	p, err := Make(scratch())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range p.Ops {
		got = append(got, string(o.Kind)+" "+o.Target)
	}
	want := []string{
		"symlink /bin", "dev /dev", "proc /proc", "tmpfs /tmp", "ro-bind /usr", "bind /workspace",
		"tmpfs /dev/shm", "bind /workspace/a", "mask-file /workspace/a/.env", "remount-ro /dev", "remount-ro /",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
