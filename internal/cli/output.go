package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox/termsafe"
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
}

func newTable(columns ...string) *table { return &table{rows: [][]string{columns}} }

// add appends a row. Cells may hold anything; they are made safe.
func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

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
	t.widths = widths
	var b strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for i, c := range row {
			line.WriteString(termsafe.Pad(c, widths[i]) + "  ")
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
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
