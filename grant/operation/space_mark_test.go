package operation

import (
	"strings"
	"testing"
	"time"
)

func TestMark(t *testing.T) {
	now := time.Unix(1_900_000_000, 5)
	m, ok := parseMark(mark{now}.encode())
	if !ok || m.expires.Unix() != now.Unix() || len(mark{time.Unix(1<<40, 0)}.encode()) > maxMark {
		t.Errorf("a mark became %+v, %v", m, ok)
	}
	for _, text := range []string{"", "\n", "1\n", markHead, markHead + "\n", markHead + "1", markHead + "-1\n", markHead + "0\n", markHead + "1\n\n", markHead + "99999999999999\n", markHead + "0x1\n"} {
		if m, ok := parseMark(text); ok {
			t.Errorf("%q is taken for a mark: %+v", text, m)
		}
	}
	const folder = "/tmp/sbx-0123456789abcdef"
	if name, ok := folderOf(strings.TrimPrefix(markOf(folder), "/tmp/")); !ok || "/tmp/"+name != folder {
		t.Errorf("the mark of %s is that of %q", folder, name)
	}
	for _, name := range []string{"", ".until", ".sbx-.until", "sbx-0123456789abcdef.until", ".sbx-0123456789abcdef", ".sbx-0123456789ABCDEF.until", ".sbx-0123456789abcde.until", "..until"} {
		if folder, ok := folderOf(name); ok {
			t.Errorf("%q is the mark of %q", name, folder)
		}
	}
}

func FuzzParseMark(f *testing.F) {
	f.Add(mark{time.Unix(1, 0)}.encode())
	f.Add(markHead + "+1\n")
	f.Fuzz(func(t *testing.T, text string) {
		m, ok := parseMark(text)
		if !ok {
			return
		}
		if again, ok := parseMark(m.encode()); !ok || !again.expires.Equal(m.expires) {
			t.Errorf("%q became %+v and then %+v", text, m, again)
		}
	})
}

// TestPace checks that looking takes a twentieth of the time, within bounds.
func TestPace(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: 50 * time.Millisecond, time.Millisecond: 50 * time.Millisecond, 10 * time.Millisecond: 200 * time.Millisecond, time.Minute: 5 * time.Second,
	} {
		if got := pace(took); got != want {
			t.Errorf("after %v the next look is in %v, want %v", took, got, want)
		}
	}
}

// TestView checks that one look which fails is no end, also where looks are far
// apart because there is much to look at, and that two seconds of them are.
func TestView(t *testing.T) {
	const ms = time.Millisecond
	type look struct {
		at, took time.Duration
		known    bool
		lost     bool
		next     time.Duration
	}
	for name, looks := range map[string][]look{
		"far apart": {{0, 200 * ms, true, false, 4000 * ms}, {4200 * ms, 0, false, false, 50 * ms}, {4250 * ms, 200 * ms, true, false, 4000 * ms}},
		"again":     {{0, 0, false, false, 50 * ms}, {50 * ms, 0, true, false, 50 * ms}, {2050 * ms, 0, false, false, 50 * ms}, {4049 * ms, 0, false, false, 50 * ms}, {4050 * ms, 0, false, true, 50 * ms}},
		"slowly":    {{0, 300 * ms, false, false, 2000 * ms}, {2300 * ms, 300 * ms, false, true, 2000 * ms}},
		"no answer": {{0, 3000 * ms, false, true, 2000 * ms}},
	} {
		var v view
		for i, l := range looks {
			begin := time.Unix(1, 0).Add(l.at)
			if lost, next := v.after(l.known, begin, begin.Add(l.took)); lost != l.lost || next != l.next {
				t.Errorf("%s: after look %d lost %v and the next in %v, want %v and %v", name, i, lost, next, l.lost, l.next)
			}
		}
	}
}

func TestCost(t *testing.T) {
	for size, want := range map[int64]int64{-1: 1 << 10, 0: 1 << 10, 1: 5 << 10, 4096: 5 << 10, 4097: 9 << 10, 1<<63 - 1: 1<<62 - 1} {
		if got := cost(size); got != want {
			t.Errorf("%d bytes count %d, want %d", size, got, want)
		}
	}
}
