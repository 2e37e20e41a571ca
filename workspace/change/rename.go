package change

import (
	"cmp"
	"errors"
	"slices"
)

// Bounds of the search for renamed files, which is quadratic for files that
// changed while they were renamed.
const (
	maxSimilar  = 64 << 10 // bytes of a file that is compared by its lines
	maxPairs    = 200      // files of each kind
	minSimilar  = 50       // percent
	minimalSize = 1        // bytes: empty files are never seen as renamed
)

// errLong says that a file has more bytes than are read.
var errLong = errors.New("is too long")

// renames joins removed and added files of the same content, and then those
// whose lines are similar, as git does.
func (c *comparer) renames(entries []Entry) ([]Entry, error) {
	var removed, added []int
	for i := range entries {
		e := &entries[i]
		switch {
		case e.Unread:
		case e.Kind == Removed && e.OldMode.IsRegular() && e.OldSize >= minimalSize:
			removed = append(removed, i)
		case e.Kind == Added && e.Mode.IsRegular() && e.Size >= minimalSize:
			added = append(added, i)
		}
	}
	if len(removed) == 0 || len(added) == 0 {
		return entries, nil
	}
	gone := make([]bool, len(entries))
	join := func(from, to, percent int) {
		a, b := &entries[from], &entries[to]
		b.Kind, b.From, b.Similarity = Renamed, a.Path, percent
		b.OldMode, b.OldSize, b.OldDigest, b.OldType = a.OldMode, a.OldSize, a.OldDigest, a.OldType
		b.Binary = b.Binary || a.Binary
		gone[from] = true
	}
	byDigest := map[string][]int{}
	for _, i := range removed {
		byDigest[entries[i].OldDigest] = append(byDigest[entries[i].OldDigest], i)
	}
	for _, i := range added {
		if list := byDigest[entries[i].Digest]; len(list) > 0 {
			join(list[0], i, 100)
			byDigest[entries[i].Digest] = list[1:]
		}
	}
	left := func(list []int, open func(*Entry) bool) []int {
		return slices.DeleteFunc(list, func(i int) bool { return gone[i] || entries[i].Kind == Renamed || !open(&entries[i]) })
	}
	removed = left(removed, func(e *Entry) bool { return !e.Binary && e.OldSize <= maxSimilar })
	added = left(added, func(e *Entry) bool { return !e.Binary && e.Size <= maxSimilar })
	if len(removed) > 0 && len(added) > 0 && len(removed) <= maxPairs && len(added) <= maxPairs {
		if err := c.similar(entries, removed, added, join); err != nil {
			return nil, err
		}
	}
	out := entries[:0]
	for i := range entries {
		if !gone[i] {
			out = append(out, entries[i])
		}
	}
	return out, nil
}

// similar joins the pairs of removed and added files whose lines are most
// similar.
func (c *comparer) similar(entries []Entry, removed, added []int, join func(from, to, percent int)) error {
	type pair struct{ from, to, percent int }
	var pairs []pair
	counts := map[int]map[string]int{}
	load := func(t *Tree, i int) bool {
		data, err := t.text(entries[i].Path, maxSimilar)
		if err == nil {
			counts[i] = countLines(data)
		}
		return err == nil
	}
	removed = slices.DeleteFunc(removed, func(i int) bool { return !load(c.base, i) })
	added = slices.DeleteFunc(added, func(i int) bool { return !load(c.current, i) })
	for _, from := range removed {
		if err := c.ctx.Err(); err != nil {
			return stopped(opCompare, err)
		}
		for _, to := range added {
			if p := similarity(counts[from], counts[to], entries[from].OldSize, entries[to].Size); p >= minSimilar {
				pairs = append(pairs, pair{from, to, min(p, 99)})
			}
		}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(b.percent, a.percent) })
	done := map[int]bool{}
	for _, p := range pairs {
		if !done[p.from] && !done[p.to] {
			done[p.from], done[p.to] = true, true
			join(p.from, p.to, p.percent)
		}
	}
	return nil
}

// countLines returns how often each line occurs.
func countLines(text []byte) map[string]int {
	counts := map[string]int{}
	for _, line := range splitLines(text) {
		counts[line]++
	}
	return counts
}

// similarity returns how many percent of the longer of two texts lie in lines
// that both have.
func similarity(a, b map[string]int, sizeA, sizeB int64) int {
	most := max(sizeA, sizeB)
	if most == 0 || min(sizeA, sizeB)*100 < most*minSimilar {
		return 0
	}
	var common int64
	for line, n := range a {
		common += int64(min(n, b[line])) * int64(len(line))
	}
	return int(common * 100 / most)
}
