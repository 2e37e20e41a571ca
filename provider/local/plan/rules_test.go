package plan

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// world returns the world of scratch after change.
func world(change func(*World)) World {
	w := scratch()
	change(&w)
	return w
}

// host returns the host for the worlds of these tests.
func host(kinds map[string]Kind, links map[string]Target) tree {
	h := tree{scratch().Kinds, links}
	h.kinds["/"] = Dir
	maps.Copy(h.kinds, kinds)
	return h
}

func planned(t *testing.T, w World, h tree) Plan {
	t.Helper()
	_, p, err := Draw(w, h)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := simulate(p, h); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRefused verifies which worlds cannot be planned, and the error messages.
func TestRefused(t *testing.T) {
	tests := []struct {
		name   string
		change func(*World)
		kinds  map[string]Kind
		code   sandbox.Code
		want   string // part of the message
	}{
		{"everything denied", func(w *World) { w.Denies = []Deny{{Path: "/", Read: true, Rule: "r"}} }, nil,
			sandbox.CodeValidation, "every path"},
		{"system denied", func(w *World) { w.Denies = []Deny{{Path: "/usr", Read: true, Rule: "r"}} }, nil,
			sandbox.CodeValidation, "cannot do without: system (r)"},
		{"workspace denied", func(w *World) { w.Denies = []Deny{{Path: "/state", Rule: "r"}} }, nil,
			sandbox.CodeValidation, "cannot do without: workspace (r)"},
		{"needed source missing", func(w *World) { w.Views = append(w.Views, View{Source: "/gone", Target: "/x", Why: "docker.binds"}) }, nil,
			sandbox.CodeValidation, "no such folder or file (docker.binds)"},
		{"socket shown", func(w *World) { w.Views = append(w.Views, View{Source: "/s", Target: "/s", Optional: true, Why: "v"}) },
			map[string]Kind{"/s": Socket}, sandbox.CodeValidation, "socket or device"},
		{"source became a link", func(w *World) { w.Views = append(w.Views, View{Source: "/s", Target: "/s", Why: "v"}) },
			map[string]Kind{"/s": Link}, sandbox.CodeUnavailable, "become a link"},
		{"ancestor of a deny became a link", func(w *World) { w.Denies = []Deny{{Path: "/l/x", Read: true, Rule: "r"}} },
			map[string]Kind{"/l": Link}, sandbox.CodeUnavailable, "become a link"},
		{"view over proc", func(w *World) { w.Views = append(w.Views, View{Source: "/usr", Target: "/proc/x", Why: "v"}) }, nil,
			sandbox.CodeValidation, "belongs to the system"},
		{"tmpfs over dev", func(w *World) { w.Tmpfs = []sandbox.Tmpfs{{Target: "/dev/shm", Size: 1}} }, nil,
			sandbox.CodeValidation, "belongs to the system"},
		{"tmpfs without a size", func(w *World) { w.Tmpfs = []sandbox.Tmpfs{{Target: "/x"}} }, nil,
			sandbox.CodeValidation, "size"},
		{"target not clean", func(w *World) { w.Views = append(w.Views, View{Source: "/usr", Target: "/x/../y", Why: "v"}) }, nil,
			sandbox.CodeValidation, "clean"},
		{"NUL in a deny", func(w *World) { w.Denies = []Deny{{Path: "/a\x00b", Rule: "r"}} }, nil,
			sandbox.CodeValidation, "clean"},
		{"deny without a rule", func(w *World) { w.Denies = []Deny{{Path: "/a"}} }, nil, sandbox.CodeValidation, "named"},
		{"target below a link", func(w *World) { w.Views = append(w.Views, View{Source: "/usr", Target: "/bin/x", Why: "v"}) }, nil,
			sandbox.CodeValidation, "leads through the link /bin"},
		{"link where a view is", func(w *World) { w.Symlinks = []Symlink{{"/usr/x", "y"}} }, nil,
			sandbox.CodeValidation, "something else is shown"},
		{"target below a file", func(w *World) {
			w.Views = append(w.Views, View{Source: "/f", Target: "/f", Why: "v"}, View{Source: "/usr", Target: "/f/x", Why: "v"})
		}, map[string]Kind{"/f": File}, sandbox.CodeValidation, "below a file"},
		{"folder on a file of a writable view", func(w *World) {
			w.Views = append(w.Views, View{Source: "/usr", Target: "/workspace/f", Why: "v"})
		}, map[string]Kind{"/state/ws/f": File}, sandbox.CodeValidation, "another kind"},
		{"too many denies", func(w *World) {
			w.Denies = slices.Repeat([]Deny{{Path: "/x", Rule: "r"}}, maxDenies+1)
		}, nil, sandbox.CodeCapabilityBlocked, "denied"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := Draw(world(tt.change), host(tt.kinds, nil))
			if sandbox.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s … %s", err, tt.code, tt.want)
			}
		})
	}
}

// TestTooManyMounts verifies that Make refuses a plan with more mounts than
// bwrap takes.
func TestTooManyMounts(t *testing.T) {
	h := host(nil, nil)
	w := scratch()
	for i := range maxMounts + 1 {
		p := "/state/ws/f" + string(rune('A'+i%26)) + strings.Repeat("x", i/26)
		h.kinds[p] = File
		w.Denies = append(w.Denies, Deny{Path: p, Read: true, Rule: "**/f*"})
	}
	if _, _, err := Draw(w, h); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Errorf("got %v", err)
	}
}

// TestLacking verifies that Make does not guess missing facts.
func TestLacking(t *testing.T) {
	w := scratch()
	delete(w.Kinds, "/state/ws/a")
	if _, err := Make(w); sandbox.CodeOf(err) != sandbox.CodeInternal {
		t.Errorf("got %v", err)
	}
}

type broken struct{ tree }

func (broken) Kind(string) (Kind, error) { return Missing, errors.New("io") }

// TestDrawFails verifies that Draw returns the error of a host.
func TestDrawFails(t *testing.T) {
	if _, _, err := Draw(World{Denies: []Deny{{Path: "/a", Rule: "r"}}}, broken{}); err == nil || !strings.Contains(err.Error(), "look at /a: io") {
		t.Errorf("got %v", err)
	}
}

// TestJudge verifies verdicts, with the rule that decides and the path that a
// grant would have to name.
func TestJudge(t *testing.T) {
	w := world(func(w *World) {
		w.Views = append(w.Views, View{Source: "/state/id", Target: "/etc/passwd", Fixed: true, Why: "identity"})
		w.Views = append(w.Views, View{Source: "/home/u/lib", Target: "/home/u/lib", Optional: true, Why: "filesystem.allowRead: ~/lib"})
		w.Denies = append(w.Denies,
			Deny{Path: "/state/ws/.git/hooks", Rule: "hooks"},
			Deny{Path: "/state/ws/.claude/skills", Keep: true, Dir: true, Rule: "skills"},
			Deny{Path: "/home/u/.ssh", Read: true, Rule: "~/.ssh"})
	})
	p := planned(t, w, host(map[string]Kind{
		"/state/id": File, "/state/ws/.git": Dir, "/state/ws/.git/hooks": Dir, "/home": Dir, "/home/u": Dir, "/home/u/lib": Dir, "/home/u/.ssh": Dir,
	}, nil))
	tests := []struct {
		op   sandbox.Operation
		path string
		want sandbox.Verdict
	}{
		{"read", "/workspace/x", sandbox.Verdict{Allowed: true, Rule: "workspace", HostPath: "/state/ws/x"}},
		{"write", "/workspace/x/../y", sandbox.Verdict{Allowed: true, Rule: "workspace", HostPath: "/state/ws/y"}},
		{"read", "/workspace/a/.env", sandbox.Verdict{Rule: "**/.env", Builtin: true, HostPath: "/state/ws/a/.env"}},
		{"read", "/workspace/.git/hooks/x", sandbox.Verdict{Allowed: true, Rule: "workspace", HostPath: "/state/ws/.git/hooks/x"}},
		{"write", "/workspace/.git/hooks/x", sandbox.Verdict{Rule: "hooks", Builtin: true, HostPath: "/state/ws/.git/hooks/x"}},
		{"write", "/workspace/.claude/x", sandbox.Verdict{Rule: "skills", Builtin: true, HostPath: "/state/ws/.claude/x"}},
		{"write", "/bin/sh", sandbox.Verdict{Rule: "shown read-only: system", HostPath: "/usr/bin/sh"}},
		{"read", "/home/u/.ssh/id", sandbox.Verdict{Rule: "~/.ssh", Builtin: true, HostPath: "/home/u/.ssh/id"}},
		{"read", "/home/u/other", sandbox.Verdict{Rule: ruleHidden, HostPath: "/home/u/other"}},
		{"write", "/home/u/lib/x", sandbox.Verdict{Rule: "shown read-only: filesystem.allowRead: ~/lib", HostPath: "/home/u/lib/x"}},
		{"write", "/tmp/x", sandbox.Verdict{Allowed: true, Rule: ruleTmpfs}},
		{"write", "/dev/shm/x", sandbox.Verdict{Allowed: true, Rule: ruleTmpfs}},
		{"write", "/dev/null", sandbox.Verdict{Allowed: true, Rule: ruleSystem, Builtin: true}},
		{"write", "/dev/sda", sandbox.Verdict{Rule: ruleSystem, Builtin: true}},
		{"read", "/proc/1/mem", sandbox.Verdict{Allowed: true, Rule: ruleSystem, Builtin: true}},
		{"write", "/.sandbox/bin/x", sandbox.Verdict{Rule: ruleSystem, Builtin: true}},
		{"write", "/etc/passwd", sandbox.Verdict{Rule: "shown read-only: identity", Builtin: true}},
		{"read", "/etc/passwd", sandbox.Verdict{Allowed: true, Rule: "identity"}},
		{"connect", "/workspace/s", sandbox.Verdict{Rule: ruleSocket, Builtin: true, HostPath: "/state/ws/s"}},
		{"read", "relative", sandbox.Verdict{Rule: "not an absolute path", Builtin: true}},
	}
	for _, tt := range tests {
		if got := p.Judge(tt.op, tt.path); got != tt.want {
			t.Errorf("%s %s: got %+v, want %+v", tt.op, tt.path, got, tt.want)
		}
	}
}

// TestGranted verifies that a grant opens the path at every place that shows
// it, and that no grant opens a denied path.
func TestGranted(t *testing.T) {
	w := world(func(w *World) {
		w.Views = append(w.Views, View{Source: "/home/u", Target: "/agent", Why: "agent"})
		w.Denies = append(w.Denies, Deny{Path: "/home/u/.ssh", Read: true, Rule: "~/.ssh"})
	})
	h := host(map[string]Kind{"/home": Dir, "/home/u": Dir, "/home/u/a": Dir, "/home/u/.ssh": Dir, "/home/u/.ssh/id": File}, nil)
	if p := planned(t, w, h); p.Judge(sandbox.OpWrite, "/agent/a/x").Allowed || p.Judge(sandbox.OpRead, "/home/u/a").Allowed {
		t.Error("allowed without a grant")
	}
	p := planned(t, Granted(w, []sandbox.Grant{
		{Operation: sandbox.OpWrite, Path: "/home/u/a"}, {Operation: sandbox.OpRead, Path: "/home/u/.ssh/id"},
		{Operation: sandbox.OpWrite, Path: "/home/u/gone"}, {Operation: sandbox.OpWrite, Path: "/state/ws/x"},
	}), h)
	for path, want := range map[string]bool{
		"/agent/a/x": true, "/home/u/a/x": true, "/agent/b": false, "/home/u/.ssh/id": false, "/agent/.ssh/id": false, "/home/u/b": false,
	} {
		if got := p.Judge(sandbox.OpWrite, path).Allowed; got != want {
			t.Errorf("write %s: %v, want %v", path, got, want)
		}
	}
	if p.Judge(sandbox.OpRead, "/home/u/.ssh/id").Allowed {
		t.Error("a grant has opened what is denied")
	}
}

// TestSame verifies that a new mask makes a plan different, and a new name does
// not.
func TestSame(t *testing.T) {
	h := host(nil, nil)
	p := planned(t, scratch(), h)
	if !p.Same(planned(t, scratch(), h)) {
		t.Error("equal worlds have different plans")
	}
	w := scratch()
	w.Denies = append(w.Denies, Deny{Path: "/state/ws/b", Read: true, Rule: "r"})
	if !p.Same(planned(t, w, h)) {
		t.Error("a missing path has changed the plan")
	}
	h.kinds["/state/ws/b"] = File
	if p.Same(planned(t, w, h)) {
		t.Error("a new file has changed nothing")
	}
}

// TestStill verifies that Still detects a change of each fact of a world.
func TestStill(t *testing.T) {
	fresh := func() tree {
		return host(map[string]Kind{"/state/ws/l": Link, "/opt": Dir}, map[string]Target{"/state/ws/l": {"a", "/state/ws/a"}})
	}
	w, _, err := Draw(world(func(w *World) {
		w.Views = append(w.Views, View{Source: "/", Target: "/", Optional: true, Why: "all"})
		w.Denies = append(w.Denies, Deny{Path: "/state/ws/l", Keep: true, Rule: "r"})
	}), fresh())
	if err != nil {
		t.Fatal(err)
	}
	if !Still(w, fresh()) {
		t.Error("nothing has changed, but Still says so")
	}
	for name, change := range map[string]func(tree){
		"kind": func(h tree) { h.kinds["/state/ws/a/.env"] = Missing },
		"link": func(h tree) { h.links["/state/ws/l"] = Target{"b", "/state/ws/b"} },
		"name": func(h tree) { h.kinds["/srv"] = Dir },
	} {
		h := fresh()
		change(h)
		if Still(w, h) {
			t.Errorf("the %s has changed unnoticed", name)
		}
	}
	if Still(w, broken{fresh()}) {
		t.Error("a host that cannot answer counts as unchanged")
	}
}

// TestMemoryIsBounded verifies that all memory that stays writable has a size.
func TestMemoryIsBounded(t *testing.T) {
	w := scratch()
	w.ShmSize = 0
	p, err := Make(w)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range p.Ops {
		if o.Kind == OpTmpfs && o.Size <= 0 {
			t.Errorf("%s has no bound", o.Target)
		}
	}
}

// TestLinkAlone verifies that a link can be kept without closing its target.
func TestLinkAlone(t *testing.T) {
	made := func(alone bool) Plan {
		_, p, err := Draw(world(func(w *World) {
			w.Denies = []Deny{{Path: "/state/ws/l", Keep: true, Link: alone, Rule: "r"}}
		}), host(map[string]Kind{"/state/ws/l": Link}, map[string]Target{"/state/ws/l": {"a", "/state/ws/a"}}))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, alone := range []bool{false, true} {
		p := made(alone)
		if v := p.Judge(sandbox.OpWrite, "/workspace/l"); v.Allowed {
			t.Errorf("alone is %v: the link can be replaced: %+v", alone, v)
		}
		if v := p.Judge(sandbox.OpWrite, "/workspace/a/new"); v.Allowed != alone {
			t.Errorf("alone is %v: what it leads to: %+v", alone, v)
		}
	}
}
