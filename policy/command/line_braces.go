package command

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// braced returns the words that x becomes by brace expansion: x itself where
// it has none. It reports false when those are too many, or of a kind of which
// bash makes more than words, and are left in the one word returned.
func braced(x *syntax.Word) ([]*syntax.Word, bool) {
	if n := openBraces(x); n == 0 {
		return []*syntax.Word{x}, true
	} else if n > maxBraces {
		return []*syntax.Word{x}, false
	}
	split := &syntax.Word{Parts: slices.Clone(x.Parts)}
	if !syntax.SplitBraces(split) {
		return []*syntax.Word{x}, true
	}
	if n := countBraces(split); n == 1 {
		return []*syntax.Word{x}, true
	} else if n > maxWords || n == 0 {
		return []*syntax.Word{split}, false
	}
	var out []*syntax.Word
	for w, err := range expand.BracesSeq(nil, split) {
		if err != nil || len(w.Parts) == 0 {
			// An empty word of unquoted text vanishes, as in {,x}.
			return []*syntax.Word{split}, false
		}
		out = append(out, w)
	}
	return out, len(out) > 0
}

// openBraces returns how many braces x opens, 0 when nothing in it makes
// bash expand them.
func openBraces(x *syntax.Word) int {
	n, list := 0, false
	for _, part := range x.Parts {
		if lit, ok := part.(*syntax.Lit); ok {
			if n += strings.Count(lit.Value, "{"); n > 0 {
				list = list || strings.Contains(lit.Value, ",") || strings.Contains(lit.Value, "..")
			}
		}
	}
	if !list {
		return 0
	}
	return n
}

// countBraces returns how many words the braces of x make: 1 when there are
// none, 0 when the text does not determine it, and no exact number beyond
// [maxWords].
func countBraces(x *syntax.Word) int {
	n := 1
	for _, part := range x.Parts {
		b, ok := part.(*syntax.BraceExp)
		if !ok {
			continue
		}
		k := 0
		if b.Sequence {
			k = countSequence(b)
		}
		for _, e := range b.Elems {
			if b.Sequence {
				break
			}
			c := countBraces(e)
			if c == 0 {
				return 0
			}
			k = min(k+c, maxWords+1)
		}
		if n = min(n*k, maxWords+1); n == 0 {
			return 0
		}
	}
	return n
}

// countSequence returns how many words {a..b} or {a..b..step} makes, 0 when it
// is not of plain small numbers.
func countSequence(b *syntax.BraceExp) int {
	var n [3]int
	for i, e := range b.Elems {
		v := e.Lit()
		k, err := strconv.Atoi(v)
		if err != nil || len(v) > 6 || strings.HasPrefix(v, "+") || i > 2 {
			return 0
		}
		n[i] = k
	}
	step := max(n[2], -n[2], 1)
	return min(max(n[1]-n[0], n[0]-n[1])/step+1, maxWords+1)
}
