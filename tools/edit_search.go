package tools

import (
	"bytes"
	"iter"
)

// brute is the longest pattern, in bytes, that is looked for by comparing at
// each place: quick, and bounded because the pattern is.
const brute = 32

// Search yields the offsets of all places of text that hold want, overlapping
// ones included, in their order. An empty want is found nowhere. The time is
// linear in both for any input: the search of package bytes relies on hashes
// that an attacker can make collide.
func searchNear(text, want []byte) iter.Seq[int] {
	return func(yield func(int) bool) {
		switch {
		case len(want) == 0 || len(want) > len(text):
		case len(want) <= brute:
			for base := 0; ; {
				i := bytes.Index(text[base:], want)
				if i < 0 || !yield(base+i) {
					return
				}
				base += i + 1
			}
		default:
			search(text, want, yield)
		}
	}
}

// search is [sequence] for bytes, quick where the first one of want is rare.
func search(text, want []byte, yield func(int) bool) {
	fail := borders(want)
	matched := 0
	for i := 0; i < len(text); i++ {
		if matched == 0 {
			skip := bytes.IndexByte(text[i:], want[0])
			if skip < 0 {
				return
			}
			i += skip
		}
		for matched > 0 && want[matched] != text[i] {
			matched = int(fail[matched-1])
		}
		if want[matched] == text[i] {
			matched++
		}
		if matched == len(want) {
			if !yield(i + 1 - len(want)) {
				return
			}
			matched = int(fail[matched-1])
		}
	}
}

// sequence yields the places of items at which all of want stands, as
// [Search] does, for items of any kind.
func sequence[T comparable](items, want []T) iter.Seq[int] {
	return func(yield func(int) bool) {
		if len(want) == 0 || len(want) > len(items) {
			return
		}
		fail := borders(want)
		matched := int32(0)
		for i, it := range items {
			for matched > 0 && want[matched] != it {
				matched = fail[matched-1]
			}
			if want[matched] == it {
				matched++
			}
			if int(matched) == len(want) {
				if !yield(i + 1 - len(want)) {
					return
				}
				matched = fail[matched-1]
			}
		}
	}
}

// borders are, for each beginning of want, the length of the longest shorter
// beginning with which it ends.
func borders[T comparable](want []T) []int32 {
	fail := make([]int32, len(want))
	for i, k := 1, int32(0); i < len(want); i++ {
		for k > 0 && want[k] != want[i] {
			k = fail[k-1]
		}
		if want[k] == want[i] {
			k++
		}
		fail[i] = k
	}
	return fail
}
