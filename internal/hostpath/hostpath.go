// Package hostpath turns host paths as people write them into the paths that
// the kernel would reach, so that a rule about a path can be checked against
// what is really behind it.
//
// A canonical path is a snapshot: links can change after it was taken. It
// serves decisions at load and at create; file operations go through os.Root.
package hostpath

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// maxLinks bounds how many symbolic links one path may lead through. Linux
// itself gives up at 40.
const maxLinks = 40

// maxLength bounds the path in bytes while links are put in, as PATH_MAX does.
const maxLength = 4096

// Expand replaces "~", "$NAME" and "${NAME}" in path. It is
// [pathvar.Expand], here for callers that are not pure anyway.
func Expand(path, home string, env map[string]string) (string, error) {
	return ExpandVariables(path, home, env)
}

// Canonical returns the absolute path, free of symbolic links, dots and
// double slashes, that path leads to. The links of the deepest existing
// ancestor are resolved and the missing rest is appended, so a path that does
// not exist yet has a canonical form too. A dangling link counts as what it
// points to, because creating the target later would make it so.
//
// A relative path, a NUL byte and a loop of links are [sandbox.CodeValidation];
// an ancestor that cannot be read is [sandbox.CodeUnavailable].
func Canonical(path string) (string, error) {
	if strings.HasPrefix(path, "/") && strings.IndexByte(path, 0) < 0 {
		if canonical, ok := straight(path); ok {
			return canonical, nil
		}
	}
	canonical, _, err := Trace(path)
	return canonical, err
}

// Trace returns what [Canonical] returns and besides every place that is passed
// on the way there, in order: each folder, each link where the link itself
// lies, and what a ".." leaves again. A process that can replace one of these
// places decides where path leads next time. Every place is free of links but
// for its last part.
func Trace(path string) (canonical string, via []string, err error) {
	if !strings.HasPrefix(path, "/") {
		return "", nil, failed(path, sandbox.CodeValidation, "is not absolute", nil)
	}
	if strings.IndexByte(path, 0) >= 0 {
		return "", nil, failed(path, sandbox.CodeValidation, "contains a NUL byte", nil)
	}
	w := walk{path: path, pending: split(path)}
	for len(w.pending) > 0 {
		if err := w.step(); err != nil {
			return "", nil, err
		}
	}
	return w.here(), w.via, nil
}

// walk resolves one path component by component, as the kernel does.
type walk struct {
	path    string   // as asked for, for messages
	done    []string // resolved, no links
	pending []string // still to be resolved, first one next
	via     []string // every place passed so far
	links   int
	missing int // number of components at the end of done that do not exist
}

func (w *walk) here() string { return "/" + strings.Join(w.done, "/") }

func (w *walk) step() error {
	c := w.pending[0]
	w.pending = w.pending[1:]
	if c == ".." {
		if n := len(w.done); n > 0 {
			w.done = w.done[:n-1]
		}
		w.missing = max(w.missing-1, 0)
		return nil
	}
	w.done = append(w.done, c)
	w.via = append(w.via, w.here())
	if w.missing > 0 {
		w.missing++
		return nil
	}
	fi, err := os.Lstat(w.here())
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		w.missing = 1
		return nil
	case err != nil:
		return failed(w.path, sandbox.CodeUnavailable, "cannot be resolved", err)
	case fi.Mode()&fs.ModeSymlink != 0:
		return w.follow()
	}
	return nil
}

// follow puts the target of the link at the end of done in its place.
func (w *walk) follow() error {
	target, err := os.Readlink(w.here())
	if err != nil {
		return failed(w.path, sandbox.CodeUnavailable, "cannot be resolved", err)
	}
	if w.links++; w.links > maxLinks || len(target)+len(w.path) > maxLength {
		return failed(w.path, sandbox.CodeValidation, "leads through too many symbolic links", nil)
	}
	w.done = w.done[:len(w.done)-1]
	if strings.HasPrefix(target, "/") {
		w.done = w.done[:0]
	}
	w.pending = append(split(target), w.pending...)
	return nil
}

// split returns the components of p without empty ones and single dots.
func split(p string) []string {
	var out []string
	for c := range strings.SplitSeq(p, "/") {
		if c != "" && c != "." {
			out = append(out, c)
		}
	}
	return out
}

func failed(path string, code sandbox.Code, why string, cause error) error {
	e := sandbox.Errorf(code, "resolve path", "%q %s", path, why)
	e.Resource, e.Err = path, cause
	return e
}

// Within reports whether path is dir or lies below it. It compares the names
// alone, case-sensitively, so both have to be clean and absolute.
func Within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
