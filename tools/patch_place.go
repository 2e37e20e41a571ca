package tools

import (
	"fmt"
	"iter"
	"strings"
)

// A target is a file into which hunks are to go.
type target struct {
	path  string
	text  []byte
	lines []string // with their newlines
	work  *int     // lines that may still be looked at, for the whole patch

	exact, loose       []int32 // a number for each line: equal lines have equal ones
	exactIDs, looseIDs map[string]int32
}

// blankless is a line as it is compared when blanks at its end do not count.
func blankless(line string) string {
	return string(trimTrailing([]byte(strings.TrimSuffix(line, "\n"))))
}

// number gives the lines their numbers, once.
func (t *target) number() {
	if t.exactIDs != nil {
		return
	}
	t.exactIDs, t.looseIDs = map[string]int32{}, map[string]int32{}
	give := func(ids map[string]int32, s string) int32 {
		id, ok := ids[s]
		if !ok {
			id = int32(len(ids))
			ids[s] = id
		}
		return id
	}
	for _, l := range t.lines {
		t.exact = append(t.exact, give(t.exactIDs, l))
		t.loose = append(t.loose, give(t.looseIDs, blankless(l)))
	}
}

// A match is where a hunk goes.
type match struct {
	at    int  // index of its first line
	loose bool // lines differ in blanks at their ends
	moved bool // it is not where the hunk says
}

// standsAt reports whether the lines are there.
func (t *target) standsAt(at int, want []string, loose bool) bool {
	if at < 0 || at+len(want) > len(t.lines) {
		return false
	}
	for i, w := range want {
		if l := t.lines[at+i]; l != w && (!loose || blankless(l) != blankless(w)) {
			return false
		}
	}
	return true
}

// all yields where the lines stand, from low on.
func (t *target) all(low int, want []string, loose bool) iter.Seq[int] {
	return func(yield func(int) bool) {
		t.number()
		have, ids := t.exact, t.exactIDs
		if loose {
			have, ids = t.loose, t.looseIDs
		}
		keys := make([]int32, len(want))
		for i, w := range want {
			if loose {
				w = blankless(w)
			}
			id, ok := ids[w]
			if !ok {
				return // no line of the file is that one
			}
			keys[i] = id
		}
		*t.work -= len(have) - low + len(want)
		if *t.work < 0 {
			return
		}
		for i := range sequence(have[low:], keys) {
			if !yield(low + i) {
				return
			}
		}
	}
}

// maxReported is how many places a message lists.
const maxReported = 5

// some returns the first places, and how many there are.
func some(places iter.Seq[int]) (first []int, count int) {
	for at := range places {
		if count++; len(first) < maxReported {
			first = append(first, at)
		}
	}
	return first, count
}

// find returns where a hunk goes: at or after low, and where it is expected if
// that is not negative. It says why there is no such place, or more than one.
func (t *target) find(h patchHunk, low, expected int) (match, error) {
	want := h.before()
	m, err := match{}, error(nil)
	switch {
	case len(want) == 0:
		m.at, err = t.insertion(h, low)
	case h.End:
		m, err = t.atEnd(h, want, low)
	case len(h.Anchors) > 0:
		m, err = t.anchored(h, want, low)
	default:
		m, err = t.search(h, want, low, expected)
	}
	if *t.work < 0 {
		return match{}, t.exhausted(h)
	}
	return m, err
}

// exhausted is the error about a patch for which too much was looked at.
func (t *target) exhausted(h patchHunk) error {
	return bad(t.path, h.Line, "make the diff anew, so that the numbers of its lines are right", "it takes too much work to find where the hunks go")
}

// search looks at the expected place, then everywhere. Lines that stand exactly
// where they are expected are taken; elsewhere they have to be the only ones,
// also among those that differ in blanks.
func (t *target) search(h patchHunk, want []string, low, expected int) (match, error) {
	if expected >= low && t.standsAt(expected, want, false) {
		return match{at: expected}, nil
	}
	moved := expected >= 0
	exact, exacts := some(t.all(low, want, false))
	if exacts == 1 && !moved {
		return match{at: exact[0]}, nil
	}
	loose, looses := some(t.all(low, want, true))
	switch {
	case looses == 1:
		return match{at: loose[0], loose: exacts == 0, moved: moved && loose[0] != expected}, nil
	case exacts == 0 && expected >= low && t.standsAt(expected, want, true):
		return match{at: expected, loose: true}, nil
	case looses > 1:
		return match{}, t.ambiguous(h, loose, looses)
	}
	return match{}, t.missed(h, want, low)
}

// atEnd wants the lines at the end of the file.
func (t *target) atEnd(h patchHunk, want []string, low int) (match, error) {
	at := len(t.lines) - len(want)
	for _, loose := range []bool{false, true} {
		if at >= low && t.standsAt(at, want, loose) {
			return match{at: at, loose: loose}, nil
		}
	}
	err := t.missed(h, want, low)
	err.Message = cut(strings.Replace(err.Message, "does not fit", "does not fit at the end of the file", 1))
	return match{}, err
}

// insertion says where lines go that have none around them: into an empty
// file, after an anchor, or to the end where the hunk says so.
func (t *target) insertion(h patchHunk, low int) (int, error) {
	switch {
	case len(t.lines) == 0:
		return 0, nil
	case h.End:
		return len(t.lines), nil
	case len(h.Anchors) == 0:
		return 0, bad(t.path, h.Line, "give the lines before and after the place", "the hunk has no lines by which its place could be checked")
	}
	after, err := t.anchors(h, low)
	if err != nil {
		return 0, err
	}
	if len(after) > 1 {
		return 0, t.ambiguous(h, after[:min(len(after), maxReported)], len(after))
	}
	return after[0] + 1, nil
}

// anchored looks for the first place after each of the anchor's, which has to
// be the same one for all.
func (t *target) anchored(h patchHunk, want []string, low int) (match, error) {
	after, err := t.anchors(h, low)
	if err != nil {
		return match{}, err
	}
	for _, loose := range []bool{false, true} {
		var places []int
		i := 0
		for at := range t.all(after[0], want, loose) {
			if i < len(after) && after[i] <= at {
				places = append(places, at)
			}
			for i < len(after) && after[i] <= at {
				i++
			}
		}
		switch {
		case len(places) == 1:
			return match{at: places[0], loose: loose}, nil
		case len(places) > 1:
			return match{}, t.ambiguous(h, places[:min(len(places), maxReported)], len(places))
		}
	}
	return match{}, t.missed(h, want, after[0])
}

// anchors returns the lines at which the last anchor stands, from low on: of
// the first anchor each place counts, of the others the first after each of
// the one before. There is at least one.
func (t *target) anchors(h patchHunk, low int) ([]int, error) {
	var after []int
	for k, a := range h.Anchors {
		a = strings.TrimSpace(a)
		if *t.work -= 2 * len(t.lines); *t.work < 0 {
			return nil, t.exhausted(h)
		}
		at := t.anchor(func(line string) bool { return line == a }, k > 0, after, low)
		if len(at) == 0 {
			at = t.anchor(func(line string) bool { return strings.HasPrefix(line, a) }, k > 0, after, low)
		}
		if len(at) == 0 {
			return nil, bad(t.path, h.Line, "", "no line from line %d on is %s, after which the hunk is to go: %s",
				low+1, quote(a), explainMiss(t.text, []byte(a), patchMaxMessage/2))
		}
		after = at
	}
	return after, nil
}

// anchor returns the lines that are meant: all from low on, or the first after
// each one of after.
func (t *target) anchor(meant func(line string) bool, further bool, after []int, low int) (at []int) {
	i := 0
	for n := low; n < len(t.lines); n++ {
		if further && (i == len(after) || after[i] >= n) || !meant(strings.TrimSpace(t.lines[n])) {
			continue
		}
		at = append(at, n)
		for i < len(after) && after[i] < n {
			i++
		}
	}
	return at
}

// ambiguous is the error about a hunk that fits in several places.
func (t *target) ambiguous(h patchHunk, first []int, count int) error {
	var list []string
	for _, at := range first {
		list = append(list, fmt.Sprint(at+1))
	}
	s := strings.Join(list, ", ")
	if count > len(first) {
		s += fmt.Sprintf(" and %d more", count-len(first))
	}
	return bad(t.path, h.Line, "give more lines around the change", "the hunk fits at %d places of the file, at the lines %s", count, s)
}
