package tools

import (
	"bytes"
	"errors"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// apply returns the text with the hunks in their places. Hunks go in their
// order, none before the end of the one ahead of it. A diff that marks missing
// newlines is taken at its word about the end of the file; otherwise the end
// stays as it was.
func (t *target) apply(hunks []patchHunk, marked bool, c *patchChange) (string, error) {
	var out []string
	done, shift := 0, 0
	keepEnd := !marked && len(t.lines) > 0
	for i, h := range hunks {
		expected := -1
		if h.Start > 0 || marked {
			expected = h.Start - 1 + shift
			if h.Start == 0 {
				expected = 0
			}
		}
		m, err := t.find(h, done, expected)
		if err != nil {
			return "", numberedHunk(err, i, len(hunks))
		}
		length := len(h.before())
		if m.moved {
			c.note("hunk %d was found at line %d instead of %d", i+1, m.at+1, expected+1)
			shift += m.at - expected
		}
		if m.loose {
			c.note("hunk %d differs from the file in blanks at the ends of lines", i+1)
			keepEnd = keepEnd || m.at+length == len(t.lines) && !t.standsAt(len(t.lines)-1, last(h.before()), false)
		}
		out = append(out, t.lines[done:m.at]...)
		out = append(out, t.replaced(h, m.at)...)
		done = m.at + length
	}
	out = append(out, t.lines[done:]...)
	if keepEnd {
		return t.ended(out), nil
	}
	return joined(out), nil
}

// last is the last of some lines, alone; there may be none.
func last(lines []string) []string { return lines[max(0, len(lines)-1):] }

// replaced are the lines of the file after a hunk: lines that stay are those of
// the file, whose blanks may be others.
func (t *target) replaced(h patchHunk, at int) (out []string) {
	for _, l := range h.Lines {
		switch l.Op {
		case opKeep:
			out = append(out, t.lines[at])
			at++
		case opRemove:
			at++
		case opAdd:
			out = append(out, l.Text)
		}
	}
	return out
}

// joined writes the lines one after another; one that came to stand before
// others gets its newline.
func joined(lines []string) string {
	var b strings.Builder
	for i, l := range lines {
		b.WriteString(l)
		if i < len(lines)-1 && !strings.HasSuffix(l, "\n") {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// ended writes the lines, with a newline at the end if the file had one.
func (t *target) ended(lines []string) string {
	text := joined(lines)
	had := strings.HasSuffix(t.lines[len(t.lines)-1], "\n")
	switch has := strings.HasSuffix(text, "\n"); {
	case text == "" || has == had:
		return text
	case had:
		return text + "\n"
	}
	return strings.TrimSuffix(text, "\n")
}

// missed is the error about a hunk whose lines the file does not have: it shows
// what is nearest, and says if the change is there already or comes too early.
func (t *target) missed(h patchHunk, want []string, low int) *sandbox.Error {
	hint := "read the lines again and make the patch of them as they are"
	if after := h.after(); len(after) > 0 {
		if _, n := some(t.all(0, after, false)); n == 1 {
			hint = "the lines as they are after the change are in the file: it may have been made already"
		}
	}
	if low > 0 {
		if first, n := some(t.all(0, want, true)); n > 0 && first[0] < low {
			return bad(t.path, h.Line, "put the hunks into the order of the file", "the hunk does not fit after the one before it; its lines are at line %d", first[0]+1)
		}
	}
	const said = "the hunk does not fit the file: "
	text := []byte(strings.Join(want, ""))
	if bytes.Contains(t.text, text) {
		// Its first or last line is only part of the file's.
		return bad(t.path, h.Line, hint, "%sits lines are there as parts of longer ones: %s", said, explainMiss(t.text, append([]byte("\n"), text...), patchMaxMessage/2))
	}
	return bad(t.path, h.Line, hint, "%s%s", said, explainMiss(t.text, text, patchMaxMessage-len(said)-64))
}

// numberedHunk says in an error which hunk it is about.
func numberedHunk(err error, i, of int) error {
	var e *sandbox.Error
	if errors.As(err, &e) && of > 1 {
		e.Message = cut(sandbox.Errorf(e.Code, "", "hunk %d of %d, %s", i+1, of, e.Message).Message)
	}
	return err
}
