package tools

import (
	"errors"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// Parse reads a patch in either form. Relative paths are below dir, which is
// absolute; with an empty dir they stay relative, and absolute ones are
// refused. Whether an absolute path may be touched is for the caller to say:
// [Patch.Paths] are all there are.
//
// A patch may stand in a fence of Markdown or in a here-document, alone or as
// the input of apply_patch, git apply or patch, as it is written for a shell.
//
// Anything that is no patch, or only part of one, is
// [sandbox.CodeValidation] and names the line. So is what cannot be carried out
// as files: binary patches, links, submodules and copies.
func parsePatch(text []byte, dir string) (*patch, error) {
	if len(text) > maxPatch {
		return nil, bad("", 0, "make several patches of it", "the patch has %d bytes, and at most %d are taken", len(text), maxPatch)
	}
	r := &reader{lines: split(string(text)), dir: dir}
	err := r.unwrap()
	if err != nil {
		return nil, err
	}
	if i := r.begins(); i >= 0 {
		r.at = i
		err = r.envelope()
	} else {
		r.patch.marked = true
		err = r.unified()
	}
	if err != nil {
		return nil, err
	}
	if len(r.patch.Files) == 0 {
		return nil, bad("", 0, `write a unified diff, or lines between "*** Begin Patch" and "*** End Patch"`, "there is no change in the patch")
	}
	return &r.patch, nil
}

// A reader goes through the lines of a patch.
type reader struct {
	lines []string // without newlines
	at    int
	dir   string
	hunks int
	patch patch
}

// split returns the lines of a patch. One that has a carriage return at the end
// of every line got them on its way: those of a changed file would not be on
// the lines that name files and places.
func split(text string) []string {
	if n := strings.Count(text, "\n"); n > 0 && n == strings.Count(text, "\r\n") {
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	lines := strings.Split(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// more reports whether there is a line, which peek and next return.
func (r *reader) more() bool   { return r.at < len(r.lines) }
func (r *reader) peek() string { return r.lines[r.at] }
func (r *reader) next() string { r.at++; return r.lines[r.at-1] }

// add takes a file that was read as a whole.
func (r *reader) add(f patchFile) error {
	if len(r.patch.Files) == maxFiles {
		return bad("", f.Line, "make several patches of it", "the patch has more than %d files", maxFiles)
	}
	r.patch.Files = append(r.patch.Files, f)
	return nil
}

// hunk counts a hunk that begins at a line.
func (r *reader) hunk(line int) error {
	if r.hunks++; r.hunks > maxHunks {
		return bad("", line, "make several patches of it", "the patch has more than %d hunks", maxHunks)
	}
	return nil
}

// clean returns a path as it is used, see [Parse].
func (r *reader) clean(name string, line int) (string, error) {
	shown := termsafe.Line(name[:min(len(name), 200)])
	name, err := fsbridge.FromURL(name)
	if err != nil {
		var e *sandbox.Error
		errors.As(err, &e)
		return "", bad(shown, line, e.Hint, "%s", e.Message)
	}
	switch {
	case name == "":
		return "", bad("", line, "", "the name of the file is missing")
	case len(name) > maxPath:
		return "", bad(shown, line, "", "the path has %d bytes, and at most %d are taken", len(name), maxPath)
	case strings.ContainsRune(name, 0):
		return "", bad(shown, line, "", "the path holds a NUL")
	case strings.HasSuffix(name, "/"):
		return "", bad(shown, line, "", "the path names a folder")
	case path.IsAbs(name) && r.dir == "":
		return "", bad(shown, line, "write it relative to the workspace", "the path is absolute")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", bad(shown, line, "write the path without ..", `the path has ".." in it`)
		}
	}
	out := path.Clean(name)
	if r.dir != "" && !path.IsAbs(name) {
		out = path.Join(r.dir, name)
	}
	if out == "." || out == "/" || out == path.Clean(r.dir) {
		return "", bad(shown, line, "", "the path names a folder")
	}
	if len(out) > maxPath {
		return "", bad(shown, line, "", "the path has %d bytes, and at most %d are taken", len(out), maxPath)
	}
	return out, nil
}

// cut bounds a message.
func cut(s string) string {
	if len(s) <= patchMaxMessage {
		return s
	}
	s = s[:patchMaxMessage-len("…")]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "…"
}

// quote shows a piece of the patch.
func quote(s string) string {
	if len(s) > 120 {
		s = strings.ToValidUTF8(s[:120], "") + "…"
	}
	return `"` + termsafe.Line(s) + `"`
}
