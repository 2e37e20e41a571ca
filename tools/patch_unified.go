package tools

import (
	"io/fs"
	"strconv"
	"strings"
)

// unified reads unified diffs. Lines before, between and after them that say
// nothing of changes are left out, as the head of a mail is.
func (r *reader) unified() error {
	for r.more() {
		line, text := r.at+1, r.peek()
		var err error
		switch {
		case strings.HasPrefix(text, "diff --git "):
			err = r.gitFile()
		case r.pair():
			err = r.plainFile()
		case strings.HasPrefix(text, "@@ -"):
			err = bad("", line, "put lines with --- and +++ before it", "a hunk comes before the names of its file")
		case strings.HasPrefix(text, "Binary files "), strings.HasPrefix(text, "GIT binary patch"):
			err = bad("", line, "write the file as a whole", "binary changes are not taken")
		case strings.HasPrefix(text, "Only in "):
			err = bad("", line, "make the diff with -N", "a file that is on one side only is named without its content")
		case strings.HasPrefix(text, lineBegin):
			err = bad("", line, "hand in one form alone", "%q is not the first line", lineBegin)
		default:
			r.next()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pair reports whether the next lines name a file before and after.
func (r *reader) pair() bool {
	return r.at+1 < len(r.lines) && strings.HasPrefix(r.peek(), "--- ") && strings.HasPrefix(r.lines[r.at+1], "+++ ")
}

// A head is what stands before the hunks of a file.
type head struct {
	line             int
	old, new         string // names as written, without what stands before them
	from, to         string // of a rename
	created, deleted bool
	mode             fs.FileMode
}

const patchNowhere = "/dev/null"

// plainFile reads a file without a line of git's.
func (r *reader) plainFile() error {
	h := head{line: r.at + 1}
	if err := r.names(&h, [2]string{"a/", "b/"}); err != nil {
		return err
	}
	return r.file(h)
}

// gitFile reads a file from git's line on.
func (r *reader) gitFile() error {
	h := head{line: r.at + 1}
	prefix, name := gitNames(strings.TrimRight(r.next(), "\r")[len("diff --git "):])
	for r.more() {
		if r.pair() {
			if err := r.names(&h, prefix); err != nil {
				return err
			}
			break
		}
		line, text := r.at+1, strings.TrimRight(r.peek(), "\r")
		known, err := h.extended(text, line)
		if err != nil {
			return err
		}
		if !known {
			break
		}
		r.next()
	}
	if h.old == "" {
		h.old, h.new = name, name
		if h.from != "" {
			h.old, h.new = h.from, h.to
		}
	}
	if h.old == "" {
		return bad("", h.line, "", "the names of the file are ambiguous")
	}
	return r.file(h)
}

// extended reads one of the lines with which git says more of a file; known is
// false for a line that is none.
func (h *head) extended(text string, line int) (known bool, err error) {
	for _, e := range []struct {
		prefix string
		take   func(rest string) error
	}{
		{"old mode ", func(rest string) error { return special(" "+rest, line) }},
		{"new mode ", func(rest string) error { return h.permissions(rest, line) }},
		{"new file mode ", func(rest string) error { h.created = true; return h.permissions(rest, line) }},
		{"deleted file mode ", func(rest string) error { h.deleted = true; return special(" "+rest, line) }},
		{"similarity index ", func(string) error { return nil }},
		{"dissimilarity index ", func(string) error { return nil }},
		{"index ", func(rest string) error { return special(rest, line) }},
		{"rename from ", func(rest string) error { h.from, err = named(rest, line); return err }},
		{"rename to ", func(rest string) error { h.to, err = named(rest, line); return err }},
		{"copy from ", func(string) error {
			return bad("", line, "make the diff with --no-renames", "copies are not taken")
		}},
		{"Binary files ", func(string) error {
			return bad("", line, "write the file as a whole", "binary changes are not taken")
		}},
		{"GIT binary patch", func(string) error {
			return bad("", line, "write the file as a whole", "binary changes are not taken")
		}},
	} {
		if rest, ok := strings.CutPrefix(text, e.prefix); ok {
			return true, e.take(rest)
		}
	}
	return false, nil
}

// permissions reads a mode as git writes it.
func (h *head) permissions(text string, line int) error {
	switch text {
	case "100644":
		h.mode = 0o644
	case "100755":
		h.mode = 0o755
	case "120000", "160000":
		return bad("", line, "", "links and submodules are not taken")
	default:
		return bad("", line, "", "%s is no mode of a file", quote(text))
	}
	return nil
}

// special refuses changes of what is no file, by the mode at the end of a line.
func special(rest string, line int) error {
	if strings.HasSuffix(rest, " 120000") || strings.HasSuffix(rest, " 160000") {
		return bad("", line, "", "links and submodules are not taken")
	}
	return nil
}

// names reads the two lines that name a file before and after; the prefixes
// come off where both have theirs.
func (r *reader) names(h *head, prefix [2]string) error {
	var err error
	line := r.at + 1
	if h.old, err = named(r.next()[len("--- "):], line); err != nil {
		return err
	}
	if h.new, err = named(r.next()[len("+++ "):], line+1); err != nil {
		return err
	}
	if h.from != "" && h.old == h.from && h.new == h.to {
		return nil // folders that are called as prefixes are
	}
	old, okOld := strings.CutPrefix(h.old, prefix[0])
	now, okNew := strings.CutPrefix(h.new, prefix[1])
	if (okOld || h.old == patchNowhere) && (okNew || h.new == patchNowhere) {
		h.old, h.new = old, now
	}
	return nil
}

// file reads the hunks of a file, and takes it.
func (r *reader) file(h head) error {
	f, err := r.describe(h)
	if err != nil {
		return err
	}
	for r.more() && strings.HasPrefix(r.peek(), "@@ ") {
		hunk, err := r.numbered(f)
		if err != nil {
			return err
		}
		f.Hunks = append(f.Hunks, hunk)
	}
	if f.Kind == kindUpdate && f.To == "" && f.Mode == 0 && len(f.Hunks) == 0 {
		return bad(f.Path, h.line, "", "nothing changes in the file")
	}
	return r.add(f)
}

// describe says what is done with the file, and refuses what does not go
// together.
func (r *reader) describe(h head) (patchFile, error) {
	f := patchFile{Kind: kindUpdate, Line: h.line, Mode: h.mode}
	created, deleted := h.created || h.old == patchNowhere, h.deleted || h.new == patchNowhere
	name := h.old
	if h.old == patchNowhere {
		name = h.new
	}
	var err error
	if f.Path, err = r.clean(name, h.line); err != nil {
		return f, err
	}
	wrong := h.created && h.deleted || h.old == patchNowhere && h.new == patchNowhere ||
		created && deleted || (created || deleted) && h.from != "" || (h.from == "") != (h.to == "") ||
		h.created && h.old != patchNowhere && h.old != h.new || h.deleted && h.new != patchNowhere && h.old != h.new ||
		h.from != "" && (h.old != h.from || h.new != h.to)
	switch {
	case wrong:
		return f, bad(f.Path, h.line, "", "the lines about the file contradict each other")
	case created:
		f.Kind = kindAdd
	case deleted:
		f.Kind, f.Mode = kindDelete, 0
	case h.from != "":
		if f.To, err = r.clean(h.to, h.line); err != nil {
			return f, err
		}
		if f.To == f.Path {
			return f, bad(f.Path, h.line, "", "the file is renamed to itself")
		}
	case h.old != h.new:
		return f, bad(f.Path, h.line, "give the file one name, or use git's rename lines", "the file has two names, %s and %s", quote(h.old), quote(h.new))
	}
	return f, nil
}

// A place is what the head of a hunk says.
type place struct {
	oldStart, oldCount, newCount int
}

// header reads the head of a hunk, such as "@@ -1,2 +3,4 @@ func f() {".
func header(text string) (p place, ok bool) {
	rest, ok := strings.CutPrefix(text, "@@ -")
	if !ok {
		return p, false
	}
	ranges, _, ok := strings.Cut(rest, " @@")
	old, now, both := strings.Cut(ranges, " +")
	if !ok || !both {
		return p, false
	}
	start, oldCount, ok1 := span(old)
	_, newCount, ok2 := span(now)
	return place{start, oldCount, newCount}, ok1 && ok2
}

// span reads "3,4", or "3" for "3,1".
func span(s string) (start, count int, ok bool) {
	first, second, pair := strings.Cut(s, ",")
	if !pair {
		second = "1"
	}
	a, err := strconv.ParseUint(first, 10, 31)
	b, err2 := strconv.ParseUint(second, 10, 31)
	return int(a), int(b), err == nil && err2 == nil
}
