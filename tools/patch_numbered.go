package tools

import (
	"strconv"
	"strings"
)

// numbered reads a hunk of a unified diff. Its head says how many lines it has,
// and it has to have them.
func (r *reader) numbered(f patchFile) (patchHunk, error) {
	h := patchHunk{Line: r.at + 1}
	if err := r.hunk(h.Line); err != nil {
		return h, err
	}
	at, ok := header(r.next())
	if !ok {
		return h, bad(f.Path, h.Line, "write it as @@ -start,count +start,count @@", "%s is no head of a hunk", quote(r.lines[h.Line-1]))
	}
	h.Start = at.oldStart
	if at.oldCount == 0 {
		h.Start++ // the line after which it goes
	}
	old, now := at.oldCount, at.newCount
	for old > 0 || now > 0 {
		if !r.more() {
			return h, r.short(f, h, old, now)
		}
		text := r.next()
		op := opKeep
		if text != "" && text != "\r" { // which is an empty line whose blank was lost
			op, text = patchOp(text[0]), text[1:]
		}
		switch {
		case op == opKeep && old > 0 && now > 0:
			old, now = old-1, now-1
		case op == opRemove && old > 0:
			old--
		case op == opAdd && now > 0:
			now--
		case op == '\\' && len(h.Lines) > 0:
			if err := r.unended(f, &h); err != nil {
				return h, err
			}
			continue
		default:
			r.at--
			return h, r.short(f, h, old, now)
		}
		h.Lines = append(h.Lines, patchLine{op, text + "\n"})
	}
	if r.more() && strings.HasPrefix(r.peek(), `\`) && len(h.Lines) > 0 {
		r.next()
		if err := r.unended(f, &h); err != nil {
			return h, err
		}
	}
	if !h.changes() {
		return h, bad(f.Path, h.Line, "", "the hunk changes nothing")
	}
	return h, r.longer(f, h)
}

// unended takes the newline off the last line that was read.
func (r *reader) unended(f patchFile, h *patchHunk) error {
	last := &h.Lines[len(h.Lines)-1]
	text, ok := strings.CutSuffix(last.Text, "\n")
	if !ok {
		return bad(f.Path, r.at, "", "the line before is said twice to have no newline")
	}
	last.Text = text
	return nil
}

// short is the error about a hunk that has other lines than its head says.
func (r *reader) short(f patchFile, h patchHunk, old, now int) error {
	return bad(f.Path, r.at+1, "correct the numbers of the head, or the lines", "the hunk of line %d lacks %d old and %d new lines that its head tells of", h.Line, old, now)
}

// longer refuses a hunk that goes on after the lines that its head tells of.
// What ends a mail looks like a removed line.
func (r *reader) longer(f patchFile, h patchHunk) error {
	if !r.more() || r.pair() {
		return nil
	}
	text := strings.TrimRight(r.peek(), "\r")
	if text == "" || text == "-- " || text == "--" && r.at+2 >= len(r.lines) || !strings.ContainsRune(" +-", rune(text[0])) {
		return nil
	}
	return bad(f.Path, r.at+1, "correct the numbers of the head, or the lines", "the hunk of line %d has more lines than its head tells of", h.Line)
}

// named reads a name to the end of the line, or to the tab before a time.
func named(text string, line int) (string, error) {
	text = strings.TrimRight(text, "\r")
	if !strings.HasPrefix(text, `"`) {
		text, _, _ = strings.Cut(text, "\t")
		return text, nil
	}
	name, _, ok := unquote(text)
	if !ok {
		return "", bad("", line, "", "the name %s is not quoted well", quote(text))
	}
	return name, nil
}

// unquote reads a name in quotes, as C writes strings, and returns the rest of
// the text.
func unquote(text string) (name, rest string, ok bool) {
	var b strings.Builder
	if !strings.HasPrefix(text, `"`) {
		return "", "", false
	}
	for i := 1; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			return b.String(), text[i+1:], true
		case '\\':
			if i++; i == len(text) {
				return "", "", false
			}
			if at := strings.IndexByte(`abtnvfr"\`, text[i]); at >= 0 {
				b.WriteByte("\a\b\t\n\v\f\r\"\\"[at])
				continue
			}
			n, err := strconv.ParseUint(text[i:min(i+3, len(text))], 8, 8)
			if err != nil || i+3 > len(text) {
				return "", "", false
			}
			b.WriteByte(byte(n))
			i += 2
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

// prefixes are what git puts before names, before and after.
var prefixes = [][2]string{{"a/", "b/"}, {"i/", "w/"}, {"c/", "i/"}, {"c/", "w/"}, {"o/", "w/"}, {"1/", "2/"}, {"b/", "a/"}, {"w/", "i/"}, {"i/", "c/"}, {"w/", "c/"}}

// gitNames parses the two names of git's line: which prefixes they have, and
// the name if both are the same. Names with blanks can be separated only if
// they are the same.
func gitNames(text string) (prefix [2]string, name string) {
	if old, rest, ok := unquote(text); ok {
		now := strings.TrimPrefix(rest, " ")
		if strings.HasPrefix(now, `"`) {
			now, _, _ = unquote(now)
		}
		return bare(old, now)
	}
	if i := strings.Index(text, ` "`); i >= 0 {
		if now, _, ok := unquote(text[i+1:]); ok {
			return bare(text[:i], now)
		}
	}
	if half := len(text) / 2; len(text)%2 == 1 && text[half] == ' ' {
		if prefix, name = bare(text[:half], text[half+1:]); name != "" {
			return prefix, name
		}
	}
	for _, p := range prefixes {
		if strings.HasPrefix(text, p[0]) && strings.Contains(text, " "+p[1]) {
			return p, ""
		}
	}
	return [2]string{}, ""
}

// bare takes the prefixes off two names; the name is empty if they differ.
func bare(old, now string) (prefix [2]string, name string) {
	for _, p := range prefixes {
		o, ok := strings.CutPrefix(old, p[0])
		n, ok2 := strings.CutPrefix(now, p[1])
		if ok && ok2 {
			if o == n {
				name = o
			}
			return p, name
		}
	}
	if old == now {
		name = old
	}
	return [2]string{}, name
}
