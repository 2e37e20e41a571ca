package plan

import (
	"slices"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// TestCover verifies that memory without write permission only covers: Make
// mounts it read-only and probes it as such, and Writable leaves it out.
func TestCover(t *testing.T) {
	const cover = "/data/state"
	w := world(func(w *World) {
		w.Views = append(w.Views, View{Source: "/data", Target: "/data", Write: true, Why: "filesystem.allowWrite"})
		w.Tmpfs = append(w.Tmpfs, sandbox.Tmpfs{Target: cover, Size: 1 << 16, Mode: 0o555})
	})
	p := planned(t, w, host(map[string]Kind{"/data": Dir, cover: Dir}, nil))
	if !slices.ContainsFunc(p.Ops, func(o Op) bool { return o.Kind == OpRemountRo && o.Target == cover }) {
		t.Error("it stays writable")
	}
	if slices.Contains(p.Writable(), cover) {
		t.Error("it counts as a place to write")
	}
	for _, probe := range p.Probes {
		if probe.Path == cover && probe.Want == Writable {
			t.Errorf("it is tried as %+v", probe)
		}
	}
	if v := p.Judge(sandbox.OpWrite, cover+"/x"); v.Allowed || !v.Builtin {
		t.Errorf("to write there is %+v", v)
	}
}

// TestTell verifies that the files of World.Tell in /proc are closed.
func TestTell(t *testing.T) {
	p := planned(t, world(func(w *World) { w.Tell = []string{"/proc/keys"} }), host(nil, nil))
	if !slices.ContainsFunc(p.Ops, func(o Op) bool { return o.Kind == OpMaskFile && o.Target == "/proc/keys" }) {
		t.Errorf("%+v", p.Ops)
	}
	if !slices.ContainsFunc(p.Probes, func(o Probe) bool { return o.Path == "/proc/keys" && o.Want == Unreadable }) {
		t.Errorf("%+v", p.Probes)
	}
}
