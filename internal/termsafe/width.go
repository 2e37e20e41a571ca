package termsafe

import (
	"strings"
	"unicode"
)

// ellipsis marks where Truncate cut; it is one column wide.
const ellipsis = "…"

// Width returns how many columns a terminal needs for s, which must be the
// output of [Line]: combining marks take none, East Asian wide characters and
// emoji take two. Terminals disagree about rare characters; where they do the
// larger number is returned, so that a table may be loose but never overflows.
func Width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// Truncate escapes s like [Line] and cuts it to at most width columns. A cut
// is marked with an ellipsis and never splits an escape's preceding character
// from its combining marks. A width below one gives the empty string.
func Truncate(s string, width int) string {
	s = Line(s)
	if width < 1 {
		return ""
	}
	if Width(s) <= width {
		return s
	}
	end, used := 0, 0
	for i, r := range s {
		w := runeWidth(r)
		if used+w > width-1 {
			break
		}
		used += w
		end = i + len(string(r))
	}
	return s[:end] + ellipsis
}

// Pad returns Truncate(s, width) filled with spaces to exactly width columns.
func Pad(s string, width int) string {
	s = Truncate(s, width)
	if gap := width - Width(s); gap > 0 {
		s += strings.Repeat(" ", gap)
	}
	return s
}

func runeWidth(r rune) int {
	switch {
	case r >= 0x20 && r < 0x7f:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case wide(r):
		return 2
	}
	return 1
}

// wide reports whether r takes two columns: the blocks that Unicode Standard
// Annex #11 lists as wide or full-width, rounded up to whole blocks.
func wide(r rune) bool {
	switch {
	case r < 0x1100:
		return false
	case r <= 0x115f, // Hangul Jamo initial consonants
		r >= 0x2e80 && r <= 0x303e,   // CJK radicals to punctuation
		r >= 0x3041 && r <= 0xa4cf,   // kana to Yi
		r >= 0xa960 && r <= 0xa97f,   // Hangul Jamo Extended-A
		r >= 0xac00 && r <= 0xd7a3,   // Hangul syllables
		r >= 0xf900 && r <= 0xfaff,   // CJK compatibility ideographs
		r >= 0xfe30 && r <= 0xfe6f,   // CJK compatibility forms
		r >= 0xff00 && r <= 0xff60,   // full-width forms
		r >= 0xffe0 && r <= 0xffe6,   // full-width signs
		r >= 0x16fe0 && r <= 0x1b2ff, // Tangut, Khitan, kana supplements
		r >= 0x1f000 && r <= 0x1faff, // emoji and pictographs
		r >= 0x20000 && r <= 0x3fffd: // CJK extensions
		return true
	}
	return r == 0x231a || r == 0x231b || r == 0x2329 || r == 0x232a ||
		r >= 0x23e9 && r <= 0x23f3 || r >= 0x25fd && r <= 0x27bf || r >= 0x2b1b && r <= 0x2b55
}
