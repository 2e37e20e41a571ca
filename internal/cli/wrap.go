package cli

import (
	"bytes"
	"io"
	"strings"

	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// A wrapper passes text on in lines of at most width cells. A longer line is
// broken between words, and goes on below the column in which its last cell
// begins. Close writes what is left of the last line.
type wrapper struct {
	w     io.Writer
	width int
	rest  []byte // an incomplete line
}

// minText is the least width that the text of a column is broken to. Where
// less is left, the text goes on at a small indent.
const minText = 24

// Write implements io.Writer.
func (w *wrapper) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	end := bytes.LastIndexByte(w.rest, '\n') + 1
	if end == 0 {
		return len(p), nil
	}
	var out strings.Builder
	for line := range strings.Lines(string(w.rest[:end])) {
		out.WriteString(wrapLine(strings.TrimSuffix(line, "\n"), w.width) + "\n")
	}
	w.rest = w.rest[end:]
	if _, err := io.WriteString(w.w, out.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes the last line if no line feed ends it.
func (w *wrapper) Close() error {
	_, err := w.w.Write(w.rest)
	w.rest = nil
	return err
}

// wrapLine breaks one line.
func wrapLine(line string, width int) string {
	if termsafe.Width(line) <= width {
		return line
	}
	indent := len(line) - len(strings.TrimLeft(line, " "))
	if at := strings.LastIndex(line, "  "); at >= indent {
		indent = at + 2
	}
	if width-indent < minText {
		indent = min(8, width/4)
	}
	margin := strings.Repeat(" ", indent)
	var out strings.Builder
	head := len(line) - len(strings.TrimLeft(line, " "))
	out.WriteString(line[:head])
	used, first := head, true
	for _, word := range splitKeeping(line[head:]) {
		n := termsafe.Width(word)
		if !first && used+n > width {
			out.WriteString("\n" + margin)
			used, word = indent, strings.TrimLeft(word, " ")
			n = termsafe.Width(word)
		}
		out.WriteString(word)
		used, first = used+n, false
	}
	return out.String()
}

// splitKeeping splits text into words, each with the spaces before it.
func splitKeeping(text string) []string {
	var out []string
	for text != "" {
		word := strings.TrimLeft(text, " ")
		spaces := len(text) - len(word)
		end := strings.IndexByte(word, ' ')
		if end < 0 {
			end = len(word)
		}
		out = append(out, text[:spaces+end])
		text = text[spaces+end:]
	}
	return out
}
