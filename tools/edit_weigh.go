package tools

import "bytes"

const (
	maxOffsets = 8  // places of one line among the wanted ones that are weighed
	maxWeight  = 80 // of one line
)

// weigh returns the place of text that shares most with want: most of whole
// lines if those are a quarter of it, else what is most like its longest line.
func weigh(text, want []byte) nearMiss {
	wanted := trimmed(want)
	have := trimmed(text)
	if len(wanted) == 0 || len(have) == 0 {
		return nearMiss{}
	}
	total := 0
	for _, w := range wanted {
		total += weight(w)
	}
	line, shared := vote(have, wanted)
	if shared*4 < total {
		if other, ok := alike(have, wanted); ok {
			line, shared = other, 1
		}
	}
	if shared == 0 {
		return nearMiss{}
	}
	line = max(0, min(line, len(have)-1))
	return nearMiss{Line: line + 1, Lines: min(len(wanted), len(have)-line)}
}

// trimmed are the lines of a text without the blanks around them.
func trimmed(text []byte) [][]byte {
	out := make([][]byte, 0, bytes.Count(text, []byte("\n"))+1)
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\n"))
		out = append(out, bytes.TrimSpace(line))
	}
	return out
}

// weight says how much it means that a line is there: a lone bracket little.
func weight(line []byte) int { return min(len(line), maxWeight) }

// vote lets each line of have speak for the places at which it would be where
// it was wanted, and returns the place with most weight, counted from 0.
func vote(have, wanted [][]byte) (line, weighs int) {
	offsets := map[string][]int{}
	for i, w := range wanted {
		if o := offsets[string(w)]; len(w) > 0 && len(o) < maxOffsets {
			offsets[string(w)] = append(o, i)
		}
	}
	shift := len(wanted) - 1
	votes := make([]int32, len(have)+shift)
	for i, h := range have {
		for _, o := range offsets[string(h)] {
			votes[i-o+shift] += int32(weight(h))
		}
	}
	for i, v := range votes {
		if int(v) > weighs {
			line, weighs = i-shift, int(v)
		}
	}
	return line, weighs
}

// alike returns the place at which a line is most like the longest wanted one,
// by the pairs of letters that they share; ok is false if less than half are.
func alike(have, wanted [][]byte) (line int, ok bool) {
	longest := 0
	for i, w := range wanted {
		if len(w) > len(wanted[longest]) {
			longest = i
		}
	}
	pairs := make([]bool, 1<<16)
	w := wanted[longest]
	for i := range len(w) - 1 {
		pairs[int(w[i])<<8|int(w[i+1])] = true
	}
	best := 0
	for i, h := range have {
		shared := 0
		for j := range max(len(h)-1, 0) {
			if pairs[int(h[j])<<8|int(h[j+1])] {
				shared++
			}
		}
		if score := 2000 * shared / max(len(w)+len(h)-2, 1); score > best {
			best, line = score, i
		}
	}
	return line - longest, best >= 500
}
