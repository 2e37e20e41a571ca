// The show files render the answers of tools: numbered lines of files, entries
// of folders, paths, and matching lines. Agents read them, so every answer is
// bounded, says how much there is in total, and how to see more of it.
//
// The package is pure. What it shows comes from a sandbox and stays unchanged
// except for what would break the format: names that could be taken for other
// lines are quoted, and bytes that are no UTF-8 are replaced, which the answer
// says. A caller that writes to a terminal must make it safe for that.

package tools

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Page is a part of a longer answer.
type showPage struct {
	Text  string // lines, each with its newline
	Shown int    // items in Text
	Total int    // items that there are; with More at least as many
	More  bool   // there are items that Text does not have
	Hint  string // how to see more, or why there is nothing; may be empty
}

// The bounds where none are given.
const (
	defaultBytes = 256 << 10 // of a text
	defaultWidth = 2000      // bytes of one line
)

func orElse(n, other int) int {
	if n <= 0 {
		return other
	}
	return n
}

// Name returns a name or path as it is shown: in quotes if something in it
// cannot be seen, or would be taken for something else.
func nameShow(s string) string {
	odd := func(r rune) bool { return r == utf8.RuneError || !unicode.IsGraphic(r) || unicode.Is(unicode.Cf, r) }
	if s == "" || strings.ContainsFunc(s, odd) || strings.TrimSpace(s) != s || s[0] == '"' {
		return strconv.Quote(s)
	}
	return s
}

// shorten cuts a line to width bytes, and says how much is missing.
func shorten(line []byte, width int) string {
	if len(line) <= width {
		return strings.ToValidUTF8(string(line), "\ufffd")
	}
	head := whole(line[:width])
	return fmt.Sprintf("%s… [%d more bytes]", strings.ToValidUTF8(string(head), "\ufffd"), len(line)-len(head))
}

// A text is built up to a bound.
type text struct {
	strings.Builder
	limit int
}

// line adds a line and reports whether it fits. The first one always does.
func (t *text) line(s string) bool {
	if t.Len() > 0 && t.Len()+len(s)+1 > t.limit {
		return false
	}
	t.WriteString(s)
	t.WriteByte('\n')
	return true
}
