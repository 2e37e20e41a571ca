// The near files find the nearest match of a text that is missing, and name
// the difference: line endings, blanks, indentation, letters. With it an agent
// can correct an edit or a patch that does not fit, without reading the whole
// file again.
//
// The package is pure. Texts and what is looked for are untrusted: time and
// memory grow with their sizes and never with the product of both, whatever
// they hold. What is shown of them is bounded, and safe for terminals.

package tools

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// A Kind names in what the nearest place differs.
type nearKind string

// The kinds. The empty one is a difference in words.
const (
	kindEndings     nearKind = "line endings"
	kindLastNewline nearKind = "the newline at the end of the file, which is not there"
	kindTrailing    nearKind = "blanks at the ends of lines"
	kindIndentation nearKind = "indentation"
	kindBlanks      nearKind = "blanks within lines"
	kindCase        nearKind = "upper and lower case"
	kindNumbered    nearKind = "the line numbers before the lines, which are not part of the file"
)

// A Miss is the place that is most like what was looked for.
type nearMiss struct {
	Line  int      // of its first line, from 1; 0: nothing is like it
	Lines int      // that it has
	At    int      // the first line there that differs, from 1
	Want  int      // the line of what was looked for that should be there, from 1
	Kind  nearKind // of the difference
}

// maxLook bounds, in bytes, the part of a text in which places are weighed by
// their words. Differences that have a kind are found everywhere.
const maxLook = 4 << 20

// Nearest returns the place of text that is most like want, which text does
// not hold. Of places that are equally alike it is the first.
func nearest(text, want []byte) nearMiss {
	lines := bytes.Count(bytes.TrimSuffix(want, []byte("\n")), []byte("\n")) + 1
	if short, ok := bytes.CutSuffix(want, []byte("\n")); ok && len(short) > 0 && bytes.HasSuffix(text, short) {
		last := bytes.Count(text, []byte("\n")) + 1
		return nearMiss{Line: last - lines + 1, Lines: lines, At: last, Want: lines, Kind: kindLastNewline}
	}
	for _, n := range forms {
		if line := n.find(text, want); line > 0 {
			m := nearMiss{Line: line, Lines: lines, Kind: n.kind}
			m.At, m.Want = m.first(text, want)
			return m
		}
	}
	m := weigh(text[:min(len(text), maxLook)], want)
	if m.Line > 0 {
		m.At, m.Want = m.first(text, want)
	}
	return m
}

// A form is a way to write lines in which differences of one kind vanish.
type form struct {
	kind nearKind
	want func(line []byte) []byte // of what is looked for
	text func(line []byte) []byte // of the text
}

var forms = []form{
	{kindEndings, ending, ending},
	{kindTrailing, trimTrailing, trimTrailing},
	{kindIndentation, bytes.TrimSpace, bytes.TrimSpace},
	{kindBlanks, squeeze, squeeze},
	{kindCase, bytes.ToLower, bytes.ToLower},
	{kindNumbered, unnumber, ending},
}

// find returns the line of text at which want is in this form, or 0.
func (f form) find(text, want []byte) int {
	w := each(want, f.want)
	if len(bytes.TrimSpace(w)) == 0 {
		return 0
	}
	t := each(text, f.text)
	if bytes.Equal(t, text) && bytes.Equal(w, want) {
		return 0 // which is what has been looked for already
	}
	for at := range searchNear(t, w) {
		return bytes.Count(t[:at], []byte("\n")) + 1
	}
	return 0
}

// each writes every line of text by f; the newlines stay.
func each(text []byte, f func([]byte) []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		line, rest, more := bytes.Cut(text, []byte("\n"))
		out = append(out, f(line)...)
		if more {
			out = append(out, '\n')
		}
		text = rest
	}
	return out
}

func ending(line []byte) []byte { return bytes.TrimSuffix(line, []byte("\r")) }

// trimTrailing returns a line without the blanks at its end, a carriage return
// included.
func trimTrailing(line []byte) []byte { return bytes.TrimRight(line, " \t\r\f\v") }

func squeeze(line []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if strings.ContainsRune(" \t\r\f\v\u00a0", r) {
			return -1
		}
		return r
	}, line)
}

// unnumber takes off the number that a listing puts before a line.
func unnumber(line []byte) []byte {
	number, rest, ok := bytes.Cut(line, []byte("\t"))
	if number = bytes.TrimSpace(number); !ok || len(number) == 0 || len(bytes.Trim(number, "0123456789")) > 0 {
		return ending(line)
	}
	return ending(rest)
}

// first returns the first line of the place that is not the one that was
// wanted, and which of the wanted ones that is.
func (m nearMiss) first(text, want []byte) (at, wanted int) {
	have := from(text, m.Line)
	for i := range m.Lines {
		var h, w []byte
		h, have, _ = bytes.Cut(have, []byte("\n"))
		w, want, _ = bytes.Cut(want, []byte("\n"))
		inner := i > 0 && i < m.Lines-1 || m.Lines == 1 && m.Kind == ""
		if inner && !bytes.Equal(h, w) || i == 0 && !bytes.HasSuffix(h, w) || i > 0 && !bytes.HasPrefix(h, w) {
			return m.Line + i, i + 1
		}
	}
	return m.Line, 1
}

// from returns the text from a line on, which counts from 1.
func from(text []byte, line int) []byte {
	for ; line > 1; line-- {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return text
}

const (
	maxShown     = 8   // lines
	maxShownLine = 120 // bytes of one that are shown
)

// explainMiss says in at most limit bytes where text is most like want and what
// the difference is, with the lines there and their numbers.
func explainMiss(text, want []byte, limit int) string {
	m := nearest(text, want)
	if m.Line == 0 {
		return "nothing in it is like that"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the nearest place is line %d", m.Line)
	if m.Lines > 1 {
		fmt.Fprintf(&b, "-%d", m.Line+m.Lines-1)
	}
	line, _, _ := bytes.Cut(from(want, m.Want), []byte("\n"))
	if m.Kind != "" {
		fmt.Fprintf(&b, ", it differs in %s", m.Kind)
	} else {
		fmt.Fprintf(&b, ", line %d is not %s", m.At, quoteNear(line))
	}
	b.WriteString(":")
	start := max(m.Line, m.At-2)
	shown := linesFrom(text, start, min(m.Line+m.Lines-start, maxShown))
	for _, s := range shown {
		if b.Len()+1+len(s) > limit {
			break
		}
		b.WriteString("\n" + s)
	}
	return b.String()[:min(b.Len(), limit)]
}

// linesFrom returns lines of a text with their numbers, bounded and safe to show.
func linesFrom(text []byte, start, count int) (out []string) {
	rest := from(text, start)
	for i := range count {
		if len(rest) == 0 {
			break
		}
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		out = append(out, fmt.Sprintf("%6d\t%s", start+i, safe(line)))
	}
	return out
}

// Quote returns a line in quotes, bounded and safe to show.
func quoteNear(line []byte) string { return `"` + safe(line) + `"` }

// safe cuts a line and escapes what a terminal would act upon; tabs stay,
// because indentation is what one looks for.
func safe(line []byte) string {
	cut := line
	if len(line) > maxShownLine {
		cut = bytes.ToValidUTF8(line[:maxShownLine], nil)
	}
	s := termsafe.String(string(cut))
	if len(line) > maxShownLine {
		s += "…"
	}
	return s
}
