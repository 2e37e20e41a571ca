package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// writeJSON writes v as indented JSON. What a terminal might act on is
// written as \u escapes, which every reader of JSON turns back.
func writeJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(escapeJSON(b.Bytes()))
	return err
}

// writeJSONLine writes v as one line of JSON, for readers who act on the first
// line while more goes on.
func writeJSONLine(w io.Writer, v any) error {
	var b, line bytes.Buffer
	if err := writeJSON(&b, v); err != nil {
		return err
	}
	if err := json.Compact(&line, b.Bytes()); err != nil {
		return err
	}
	line.WriteByte('\n')
	_, err := w.Write(line.Bytes())
	return err
}

// escapeJSON escapes the characters of JSON text that are not safe to show.
// Outside of strings there are none but line feeds.
func escapeJSON(p []byte) []byte {
	out := make([]byte, 0, len(p))
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		switch {
		case r == '\n' || termsafe.Safe(r):
			out = append(out, p[:n]...)
		case r > 0xffff:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		p = p[n:]
	}
	return out
}

// A table is text in columns for people.
type table struct {
	rows   [][]string
	widths []int // of columns, at least; set by write to what they came to

	// limit is how many cells of a terminal a line may take; 0 is any number.
	// A table that is wider leaves out the columns that leaves names, in that
	// order and no more than needed, and then cuts the widest columns, the
	// first one last.
	limit  int
	leaves []string
	out    map[int]bool // columns that are left out; set by the first write
}

func newTable(columns ...string) *table { return &table{rows: [][]string{columns}} }

// newTable is newTable for a table that is written to standard output: it fits
// the terminal that this is. leaves names the columns that can be left out
// where the terminal is narrow.
func (a *app) newTable(columns []string, leaves ...string) *table {
	t := newTable(columns...)
	t.limit, t.leaves = columnsOf(a.Stdout), leaves
	return t
}

// add appends a row. Cells may hold anything; they are made safe.
func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// gap is the number of spaces between two columns.
const gap = 2

// minColumn is the width below which no column is cut.
const minColumn = 6

// write writes the table in one piece. Columns are as wide as their widest
// cell and two spaces apart.
func (t *table) write(w io.Writer) error {
	widths := t.widths
	for _, row := range t.rows {
		for i, c := range row {
			row[i] = cell(c)
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], termsafe.Width(row[i]))
		}
	}
	t.leaveOut(widths)
	t.cut(widths)
	t.widths = widths
	var b strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for i, c := range row {
			if !t.out[i] {
				line.WriteString(termsafe.Pad(c, widths[i]) + strings.Repeat(" ", gap))
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// over returns by how many cells the lines of the table are too wide.
func (t *table) over(widths []int) int {
	if t.limit <= 0 {
		return 0
	}
	sum := -gap
	for i, w := range widths {
		if !t.out[i] {
			sum += w + gap
		}
	}
	return max(0, sum-t.limit)
}

// leaveOut decides, at the first write of a table with a head, which columns
// are left out: those that say nothing first.
func (t *table) leaveOut(widths []int) {
	if t.out != nil || len(t.leaves) == 0 {
		return
	}
	t.out = map[int]bool{}
	head := t.rows[0]
	for _, empty := range []bool{true, false} {
		for _, name := range t.leaves {
			i := slices.Index(head, name)
			if i < 0 || t.over(widths) == 0 || empty && !t.isEmpty(i) {
				continue
			}
			t.out[i] = true
		}
	}
}

// isEmpty reports whether no row has anything in the column.
func (t *table) isEmpty(column int) bool {
	return !slices.ContainsFunc(t.rows[1:], func(row []string) bool { return column < len(row) && row[column] != cell("") })
}

// cut makes the widest columns narrower until the lines fit, the first one
// only when the others are as narrow as they can be.
func (t *table) cut(widths []int) {
	for _, first := range []int{1, 0} {
		for over := t.over(widths); over > 0; over = t.over(widths) {
			widest := -1
			for i := first; i < len(widths); i++ {
				if !t.out[i] && widths[i] > minColumn && (widest < 0 || widths[i] > widths[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				break
			}
			widths[widest]--
		}
	}
}

func cell(s string) string {
	if s == "" {
		return "-"
	}
	return termsafe.Line(s)
}

// age writes a number of seconds the way people say it, rounded down.
func age(seconds int64) string {
	d := time.Duration(seconds) * time.Second
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", seconds)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// short cuts a hash or an id to what tells two apart by eye.
func short(hash string) string {
	hash = strings.TrimPrefix(hash, "sha256:")
	if len(hash) > 12 && utf8.ValidString(hash) {
		return hash[:12]
	}
	return hash
}

// and is add for a chain of rows.
func (t *table) and(cells ...string) *table {
	t.add(cells...)
	return t
}

// shortImage cuts the name of an image to what people tell images apart by:
// without the registry and the folders before the last part of the name, and
// of a digest its first characters.
func shortImage(ref string) string {
	name, digest, pinned := strings.Cut(ref, "@")
	name = name[strings.LastIndexByte(name, '/')+1:]
	if pinned {
		name += "@" + short(digest)
	}
	return name
}
