package change

import (
	"bytes"
	"slices"
	"sort"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// splitLines splits text after its newlines.
func splitLines(text []byte) []string {
	if len(text) == 0 {
		return nil
	}
	lines := make([]string, 0, bytes.Count(text, []byte{'\n'})+1)
	for len(text) > 0 {
		n := bytes.IndexByte(text, '\n') + 1
		if n == 0 {
			n = len(text)
		}
		lines = append(lines, string(text[:n]))
		text = text[n:]
	}
	return lines
}

// An edit replaces the lines a1 to a2 of the old text by the lines b1 to b2 of
// the new one.
type edit struct{ a1, a2, b1, b2 int }

// diffLines returns the edits that lead from a to b, in order; between two of
// them lies at least one common line. The cost is bounded: lines that occur
// once on both sides divide the texts, as in git's patience algorithm, and the
// search for the shortest edits between them ends after a fixed number of
// steps.
func diffLines(a, b []string) []edit {
	var out []edit
	add := func(e edit) {
		if n := len(out); n > 0 && out[n-1].a2 == e.a1 && out[n-1].b2 == e.b1 {
			out[n-1].a2, out[n-1].b2 = e.a2, e.b2
			return
		}
		out = append(out, e)
	}
	gap := func(a1, a2, b1, b2 int) {
		for a1 < a2 && b1 < b2 && a[a1] == b[b1] {
			a1, b1 = a1+1, b1+1
		}
		for a1 < a2 && b1 < b2 && a[a2-1] == b[b2-1] {
			a2, b2 = a2-1, b2-1
		}
		switch {
		case a1 == a2 && b1 == b2:
		case a1 == a2 || b1 == b2:
			add(edit{a1, a2, b1, b2})
		default:
			for _, d := range lcs.DiffLines(a[a1:a2], b[b1:b2]) {
				add(edit{a1 + d.Start, a1 + d.End, b1 + d.ReplStart, b1 + d.ReplEnd})
			}
		}
	}
	a1, b1 := 0, 0
	for _, at := range anchors(a, b) {
		gap(a1, at[0], b1, at[1])
		a1, b1 = at[0]+1, at[1]+1
	}
	gap(a1, len(a), b1, len(b))
	return out
}

// anchors returns the longest ascending sequence of pairs of lines that are
// equal and occur once on both sides.
func anchors(a, b []string) [][2]int {
	type seen struct{ a, b, times int }
	once := make(map[string]seen, len(a))
	for i, line := range a {
		s := once[line]
		once[line] = seen{i, -1, s.times + 1}
	}
	for i, line := range b {
		if s, ok := once[line]; ok && s.times == 1 {
			if s.b >= 0 {
				s.times = 2
			}
			s.b = i
			once[line] = s
		}
	}
	var pairs [][2]int
	for i, line := range a {
		if s := once[line]; s.times == 1 && s.b >= 0 {
			pairs = append(pairs, [2]int{i, s.b})
		}
	}
	// tails[n] is the pair that ends the best sequence of n+1 pairs.
	before := make([]int, len(pairs))
	var tails []int
	for i, p := range pairs {
		n := sort.Search(len(tails), func(n int) bool { return pairs[tails[n]][1] >= p[1] })
		before[i] = -1
		if n > 0 {
			before[i] = tails[n-1]
		}
		if n == len(tails) {
			tails = append(tails, i)
		} else {
			tails[n] = i
		}
	}
	var out [][2]int
	if len(tails) > 0 {
		for i := tails[len(tails)-1]; i >= 0; i = before[i] {
			out = append(out, pairs[i])
		}
	}
	slices.Reverse(out)
	return out
}

// merge3 returns base with the changes of ours and of theirs, and false where
// both changed the same or adjacent lines differently.
func merge3(base, ours, theirs []byte) ([]byte, bool) {
	o, a, b := splitLines(base), splitLines(ours), splitLines(theirs)
	left, right := diffLines(o, a), diffLines(o, b)
	var out []byte
	put := func(lines []string) {
		for _, l := range lines {
			out = append(out, l...)
		}
	}
	at := 0                // line of base up to which out is complete
	shiftA, shiftB := 0, 0 // what to add to a line of base for the line of ours and theirs
	for len(left) > 0 || len(right) > 0 {
		// A region of base that one or both sides replace. Edits that touch are
		// one region, because neither side has seen the other's line beside its
		// own.
		lo, hi := 0, 0
		switch {
		case len(right) == 0 || len(left) > 0 && left[0].a1 <= right[0].a1:
			lo, hi = left[0].a1, left[0].a2
		default:
			lo, hi = right[0].a1, right[0].a2
		}
		ownA, ownB := shiftA, shiftB
		usedA, usedB := false, false
		for {
			switch {
			case len(left) > 0 && left[0].a1 <= hi:
				hi, shiftA, usedA = max(hi, left[0].a2), left[0].b2-left[0].a2, true
				left = left[1:]
				continue
			case len(right) > 0 && right[0].a1 <= hi:
				hi, shiftB, usedB = max(hi, right[0].a2), right[0].b2-right[0].a2, true
				right = right[1:]
				continue
			}
			break
		}
		put(o[at:lo])
		newA, newB := a[lo+ownA:hi+shiftA], b[lo+ownB:hi+shiftB]
		switch {
		case usedA && usedB && !slices.Equal(newA, newB):
			return nil, false
		case usedA:
			put(newA)
		default:
			put(newB)
		}
		at = hi
	}
	put(o[at:])
	return out, true
}
