package tools

import "strings"

// The lines of the form that agents write.
const (
	lineBegin  = "*** Begin Patch"
	lineEnd    = "*** End Patch"
	lineAdd    = "*** Add File: "
	lineUpdate = "*** Update File: "
	lineDelete = "*** Delete File: "
	lineMove   = "*** Move to: "
	lineEOF    = "*** End of File"
)

// begins returns the line with which the form of agents begins, or -1 if it is
// not the first one with anything on it.
func (r *reader) begins() int {
	for i, l := range r.lines[r.at:] {
		if l = strings.TrimSpace(l); l != "" {
			if l == lineBegin {
				return r.at + i
			}
			return -1
		}
	}
	return -1
}

// envelope reads the form of agents.
func (r *reader) envelope() error {
	r.next()
	for {
		if !r.more() {
			return bad("", len(r.lines), "", "the patch does not end with %q", lineEnd)
		}
		line, text := r.at+1, strings.TrimRight(r.next(), " \t\r")
		var err error
		switch {
		case text == lineEnd:
			return r.nothingMore()
		case text == "":
		case strings.HasPrefix(text, lineAdd):
			err = r.section(kindAdd, text[len(lineAdd):], line)
		case strings.HasPrefix(text, lineUpdate):
			err = r.section(kindUpdate, text[len(lineUpdate):], line)
		case strings.HasPrefix(text, lineDelete):
			err = r.section(kindDelete, text[len(lineDelete):], line)
		default:
			err = bad("", line, "begin with *** Add File:, *** Update File: or *** Delete File:", "%s begins no file", quote(text))
		}
		if err != nil {
			return err
		}
	}
}

// nothingMore refuses what follows the end: it would not be done.
func (r *reader) nothingMore() error {
	for r.more() {
		line := r.at + 1
		if text := r.next(); strings.TrimSpace(text) != "" {
			return bad("", line, "put everything into one patch", "%s follows %q", quote(text), lineEnd)
		}
	}
	return nil
}

// section reads what is done with one file.
func (r *reader) section(k patchKind, name string, line int) error {
	f := patchFile{Kind: k, Line: line}
	var err error
	if f.Path, err = r.clean(strings.TrimSpace(name), line); err != nil {
		return err
	}
	switch k {
	case kindAdd:
		err = r.content(&f)
	case kindUpdate:
		err = r.update(&f)
	}
	if err != nil {
		return err
	}
	return r.add(f)
}

// content reads the lines of a new file.
func (r *reader) content(f *patchFile) error {
	h := patchHunk{Line: r.at + 1}
	for r.more() && strings.HasPrefix(r.peek(), "+") {
		h.Lines = append(h.Lines, patchLine{opAdd, r.next()[1:] + "\n"})
	}
	if r.more() && r.peek() != "" && !strings.HasPrefix(r.peek(), "*** ") {
		return bad(f.Path, r.at+1, "", "%s in a new file does not begin with +", quote(r.peek()))
	}
	if len(h.Lines) > 0 {
		f.Hunks = []patchHunk{h}
		return r.hunk(h.Line)
	}
	return nil
}

// update reads where a file goes and what changes in it.
func (r *reader) update(f *patchFile) error {
	if r.more() && strings.HasPrefix(r.peek(), lineMove) {
		line := r.at + 1
		var err error
		if f.To, err = r.clean(strings.TrimSpace(r.next()[len(lineMove):]), line); err != nil {
			return err
		}
		if f.To == f.Path {
			return bad(f.Path, line, "leave the line out", "the file is moved to itself")
		}
	}
	for r.more() && !r.marker() {
		if strings.TrimSpace(r.peek()) == "" {
			r.next()
			continue
		}
		h, err := r.piece(f)
		if err != nil {
			return err
		}
		f.Hunks = append(f.Hunks, h)
	}
	if len(f.Hunks) == 0 && f.To == "" {
		return bad(f.Path, f.Line, "", "nothing changes in the file")
	}
	return nil
}

// marker reports whether the next line is one that ends a file's section.
func (r *reader) marker() bool {
	return strings.HasPrefix(r.peek(), "*** ") && strings.TrimRight(r.peek(), " \t\r") != lineEOF
}

// piece reads one hunk: its anchors, its lines, and whether it is at the end.
func (r *reader) piece(f *patchFile) (patchHunk, error) {
	h := patchHunk{Line: r.at + 1}
	if err := r.hunk(h.Line); err != nil {
		return h, err
	}
	for r.more() && strings.HasPrefix(r.peek(), "@@") {
		if len(h.Anchors) == maxAnchors {
			return h, bad(f.Path, r.at+1, "", "the hunk has more than %d lines that begin with @@", maxAnchors)
		}
		text := r.next()
		if at, ok := header(text); ok {
			h.Start = at.oldStart
		} else if text = strings.TrimSpace(text[2:]); text != "" {
			h.Anchors = append(h.Anchors, text)
		}
	}
	empty := 0 // lines at the end that have not even a blank
	for r.more() && !r.marker() && !strings.HasPrefix(r.peek(), "@@") {
		line, text := r.at+1, r.next()
		if strings.TrimRight(text, " \t\r") == lineEOF {
			h.End = true
			break
		}
		op := opKeep
		if empty++; text != "" {
			empty = 0
			op, text = patchOp(text[0]), text[1:]
		}
		if op != opKeep && op != opAdd && op != opRemove {
			return h, bad(f.Path, line, "begin lines of the file with a blank, - or +", "%s begins with none of blank, - and +", quote(string(op)+text))
		}
		h.Lines = append(h.Lines, patchLine{op, text + "\n"})
	}
	h.Lines = h.Lines[:len(h.Lines)-empty] // they are between hunks rather than of one
	if !h.changes() {
		return h, bad(f.Path, h.Line, "begin removed lines with - and new ones with +", "the hunk changes nothing")
	}
	return h, nil
}

// changes reports whether the hunk adds or removes a line.
func (h patchHunk) changes() bool {
	for _, l := range h.Lines {
		if l.Op != opKeep {
			return true
		}
	}
	return false
}
