package plan

import (
	"fmt"
	"math/rand/v2"
	"path"
	"reflect"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// check plans the world on the host, runs the plan in the model and returns the
// first property that fails. planned is false if Make refuses the world.
func check(w World, h tree) (planned bool, wrong error) {
	w, p, err := Draw(w, h)
	if err != nil {
		return false, nil
	}
	again, err := Make(w)
	if err != nil {
		return true, fmt.Errorf("what Draw has asked for is not enough: %w", err)
	}
	if !reflect.DeepEqual(p, again) || !Still(w, h) {
		return true, fmt.Errorf("what Draw has asked for makes another plan:\n%+v\n%+v", p, again)
	}
	m, err := simulate(p, h)
	if err != nil {
		return true, err
	}
	for _, hold := range []func(World, Plan, *model) error{holdSights, holdOpen, holdWrites, holdKept, holdProbes} {
		if err := hold(w, p, m); err != nil {
			return true, err
		}
	}
	return true, nil
}

// denied returns the effect of the denies and opens of w on the host path p. It
// shares no code with Make, and follows links of denies here.
func denied(w World, m *model, p string) (read, write bool) {
	covers := func(at string) bool { return p == at || len(p) > len(at) && p[:len(at)+1] == at+"/" }
	reads, writes := -1, -1 // lengths of the longest matching opens
	for _, o := range w.Opens {
		kind := m.host.kinds[o.Path]
		if !covers(o.Path) || m.host.realKind(o.Path) == Link || kind != Dir && kind != File {
			continue
		}
		if o.Read {
			reads = max(reads, len(o.Path))
		}
		if o.Write {
			writes = max(writes, len(o.Path))
		}
	}
	for _, d := range w.Denies {
		at := d.Path
		if d.Link && m.host.kinds[at] == Link {
			continue
		}
		for m.host.kinds[at] == Link {
			at = m.host.links[at].Real
		}
		if !covers(at) {
			continue
		}
		opened := d.Read && d.Yields && reads > len(at)
		read = read || d.Read && !opened
		write = write || !opened || writes < reads
	}
	return read, write
}

// holdOpen verifies that paths that the judge allows reading exist and are
// readable.
func holdOpen(_ World, p Plan, m *model) error {
	for target, l := range p.layers {
		if !l.shows() {
			continue
		}
		for h, kind := range m.host.kinds {
			if kind != Dir && kind != File || !under(h, l.view.Source) {
				continue
			}
			at := l.inside(h)
			if top, _ := topOf(p.layers, at); top.target != target || !p.Judge(sandbox.OpRead, at).Allowed || isPlaceholder(p, h) {
				continue
			}
			if in, rel := m.place(at); in.mask || path.Join(in.source, rel) != h {
				return fmt.Errorf("the judge lets %s be read, which shows %q, mask %v", at, path.Join(in.source, rel), in.mask)
			}
		}
	}
	return nil
}

// holdSights verifies that no visible path is denied, that read-only paths are
// not writable, that no folder above a closed path can be renamed, and that the
// judge's verdict on every path agrees with the mounts.
func holdSights(w World, p Plan, m *model) (wrong error) {
	fail := func(s sight, format string, args ...any) {
		if wrong == nil {
			wrong = fmt.Errorf("%s shows %q: %s", s.path, s.host, fmt.Sprintf(format, args...))
		}
	}
	m.walk(func(s sight) {
		if s.host == "" {
			if s.mask || s.writable && s.path != "/proc" && p.Judge(sandbox.OpWrite, s.path).Allowed {
				return
			}
			if s.writable && s.path != "/proc" {
				fail(s, "memory that is writable, which the judge does not know")
			}
			return
		}
		read, write := denied(w, m, s.host)
		switch {
		case read:
			fail(s, "denied for reading")
		case write && s.writable && s.kind != Socket && s.kind != Other:
			fail(s, "denied for writing")
		}
		if s.kind == Dir && s.writable && !s.point {
			for _, d := range w.Denies {
				if d.Path != s.host && under(d.Path, s.host) && (m.host.kinds[d.Path] != Missing && m.host.kinds[d.Path] != Link || d.Keep) && shownBelow(m, s, d.Path) {
					fail(s, "can be renamed away with %s in it", d.Path)
				}
			}
		}
		if s.kind == Socket || s.kind == Other || s.kind == Link {
			return
		}
		if v := p.Judge(sandbox.OpRead, s.path); !v.Allowed || v.HostPath != s.host {
			fail(s, "the judge does not let it be read: %+v", v)
		}
		if v := p.Judge(sandbox.OpWrite, s.path); v.Allowed != s.writable && !parentFrozen(w, m, s.host) {
			fail(s, "writable is %v, but the judge says %+v", s.writable, v)
		}
	})
	return wrong
}

// shownBelow reports whether s shows the host path p below it, rather than
// another mount at that place.
func shownBelow(m *model, s sight, p string) bool {
	in, rel := m.place(moved(p, s.host, s.path))
	return in.mask || in.source != "" && path.Join(in.source, rel) == p
}

// parentFrozen reports whether a link that must stay lies in p or beside it.
func parentFrozen(w World, m *model, p string) bool {
	for _, d := range w.Denies {
		for at := d.Path; d.Keep && m.host.kinds[at] == Link; at = m.host.links[at].Real {
			if dir := path.Dir(at); dir == p || dir == path.Dir(p) {
				return true
			}
		}
	}
	return false
}

// holdWrites verifies that requested paths are writable unless they are denied.
func holdWrites(w World, p Plan, m *model) error {
	for target, l := range p.layers {
		if l.kind != layerView || !l.view.Write {
			continue
		}
		for h, kind := range m.host.kinds {
			if kind != Dir && kind != File || !under(h, l.view.Source) {
				continue
			}
			at := moved(h, l.view.Source, target)
			if top, _ := topOf(p.layers, at); top.target != target || maskedAbove(m, at) {
				continue
			}
			_, write := denied(w, m, h)
			if write || isPlaceholder(p, h) || parentFrozen(w, m, h) {
				continue
			}
			if in, rel := m.place(at); in.ro || path.Join(in.source, rel) != h {
				return fmt.Errorf("%s is to be writable and is not: %s %v", at, in.source, in.ro)
			}
		}
	}
	return nil
}

func maskedAbove(m *model, p string) bool {
	for q := range up(p) {
		if in, _ := m.place(q); in.mask {
			return true
		}
	}
	return false
}

func isPlaceholder(p Plan, h string) bool {
	for _, s := range p.Placeholders {
		if under(h, s.Path) {
			return true
		}
	}
	return false
}

// holdKept verifies that no view allows creating a missing path that must stay
// missing, or removing a link that must stay.
func holdKept(w World, _ Plan, m *model) (wrong error) {
	m.walk(func(s sight) {
		if s.host == "" || s.kind != Dir || !s.writable || wrong != nil {
			return
		}
		for _, d := range w.Denies {
			if !d.Keep || d.Path == s.host || !under(d.Path, s.host) {
				continue
			}
			name := down(s.host, d.Path)[0]
			in, rel := m.place(moved(name, s.host, s.path))
			switch kind := m.kind(in, rel); {
			case kind == Missing:
				wrong = fmt.Errorf("%s: %s can be made", s.path, name)
			case kind == Link && name == d.Path:
				wrong = fmt.Errorf("%s: the link %s can be removed", s.path, name)
			case kind == File && rel != "" && name != d.Path:
				wrong = fmt.Errorf("%s: the file %s can make way for a folder", s.path, name)
			}
		}
	})
	return wrong
}

// holdProbes verifies that the expectation of each probe is true in the model.
func holdProbes(_ World, p Plan, m *model) error {
	for _, probe := range p.Probes {
		in, rel := m.place(probe.Path)
		ok := false
		switch probe.Want {
		case Unreadable:
			ok = in.mask || in.source == "" && in.closed[rel]
		case Unwritable:
			ok = in.ro
		case Writable:
			ok = !in.ro && m.kind(in, rel) != Missing
		case Pinned:
			ok = rel == ""
		}
		if !ok {
			return fmt.Errorf("the probe %+v does not hold", probe)
		}
	}
	return nil
}

// TestPlansHold checks the properties in many small random worlds.
func TestPlansHold(t *testing.T) {
	rounds := testenv.Rounds(2000, 6000, 15000)
	planned := 0
	for seed := range rounds {
		ok, wrong := checkSeed(uint64(seed))
		if wrong != nil {
			t.Fatalf("seed %d: %v", seed, wrong)
		}
		if ok {
			planned++
		}
	}
	if planned < rounds/3 {
		t.Errorf("only %d of %d worlds could be planned", planned, rounds)
	}
}

func checkSeed(seed uint64) (planned bool, wrong error) {
	r := rand.New(rand.NewPCG(seed, 1))
	h, paths := randomTree(r)
	return check(randomWorld(r, h, paths), h)
}

// FuzzPlans checks the same properties in fuzzed worlds.
func FuzzPlans(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		if _, wrong := checkSeed(seed); wrong != nil {
			t.Error(wrong)
		}
	})
}

// TestOrderOfDenies verifies that the order of denies does not change the plan.
func TestOrderOfDenies(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 2))
		h, paths := randomTree(r)
		w, p, err := Draw(randomWorld(r, h, paths), h)
		if err != nil {
			continue
		}
		r.Shuffle(len(w.Denies), func(i, j int) { w.Denies[i], w.Denies[j] = w.Denies[j], w.Denies[i] })
		q, err := Make(w)
		if err != nil || !reflect.DeepEqual(p, q) {
			t.Fatalf("seed %d: another plan: %v\n%+v\n%+v", seed, err, p.Ops, q.Ops)
		}
	}
}
