package tools

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// A Reader gives the contents of files, under the paths of the patch. A file
// that is not there is an error for which [sandbox.IsNotFound] or
// errors.Is(err, fs.ErrNotExist) holds.
type patchReader interface {
	Read(path string) ([]byte, error)
}

// ReaderFunc is a function as a [Reader].
type readerFunc func(path string) ([]byte, error)

// Read implements [Reader].
func (f readerFunc) Read(path string) ([]byte, error) { return f(path) }

// A Result is the effect of a patch on files. The caller writes all files
// first, and then removes those that [Result.Removed] names: files may have
// exchanged names.
type patchResult struct {
	Changes []patchChange // in the order of the patch
}

// An Action is what happens to a file.
type patchAction string

// The actions.
const (
	actionWrite  patchAction = "write"  // Path gets Data
	actionDelete patchAction = "delete" // Path goes
	actionRename patchAction = "rename" // Path gets Data, and From goes
)

// A Change is one file of a [Result].
type patchChange struct {
	Action  patchAction
	Path    string
	From    string      // of a rename
	Data    []byte      // the whole content
	New     bool        // there was no such file
	Mode    fs.FileMode // permissions that it is to have; 0 where the patch does not say
	Added   int         // lines
	Removed int         // lines
	Notes   []string    // what was not exactly as the patch says, for people and agents
}

// Removed returns the paths that are to go once everything is written.
func (r *patchResult) Removed() (out []string) {
	written := map[string]bool{}
	for _, c := range r.Changes {
		if c.Action != actionDelete {
			written[c.Path] = true
		}
	}
	for _, c := range r.Changes {
		gone := c.From
		if c.Action == actionDelete {
			gone = c.Path
		}
		if gone != "" && !written[gone] {
			out = append(out, gone)
		}
	}
	return out
}

// Apply says what the patch makes of the files that r has. Each file is read as
// it was before the patch. Whatever does not fit is [sandbox.CodeValidation],
// what is too large [sandbox.CodeCapabilityBlocked]; other errors are those of
// r. With an error there is no result.
func (p *patch) Apply(r patchReader) (*patchResult, error) {
	a := &patchApplier{patch: p, reader: r, budget: maxTotal, work: maxWork}
	if err := a.apart(); err != nil {
		return nil, err
	}
	out := &patchResult{}
	for _, f := range p.Files {
		c, err := a.file(f)
		if err != nil {
			return nil, err
		}
		if len(c.Data) > patchMaxFile {
			return nil, large(f.Path, "the file would become larger than %d bytes", patchMaxFile)
		}
		if a.budget -= len(c.Data); a.budget < 0 {
			return nil, large(f.Path, "the files of the patch have more than %d bytes together", maxTotal)
		}
		out.Changes = append(out.Changes, c)
	}
	return out, nil
}

type patchApplier struct {
	patch  *patch
	reader patchReader
	budget int // bytes that may still be read or written
	work   int // lines that may still be looked at

	leaving map[string]bool // paths at which nothing is left of what was there
}

// apart refuses patches that change a path twice: the parts would depend on
// each other.
func (a *patchApplier) apart() error {
	sources, targets := map[string]int{}, map[string]int{}
	a.leaving = map[string]bool{}
	for _, f := range a.patch.Files {
		source, target := f.Path, f.Path
		switch {
		case f.Kind == kindAdd:
			source = ""
		case f.Kind == kindDelete:
			target = ""
		case f.To != "":
			target = f.To
		}
		if source != "" && source != target {
			a.leaving[source] = true
		}
		for _, once := range []struct {
			of   map[string]int
			name string
		}{{sources, source}, {targets, target}} {
			if line := once.of[once.name]; once.name != "" && line > 0 {
				return bad(once.name, f.Line, "put all changes of a file into one place", "the patch changes the file already at line %d", line)
			}
			once.of[once.name] = f.Line
		}
	}
	for name, line := range targets {
		for i := strings.IndexByte(name, '/'); i >= 0 && i < len(name); i = next(name, i) {
			if above := name[:i]; above != "" && (targets[above] > 0 || sources[above] > 0) {
				return bad(above, line, "make two patches of it", "a file of the patch is a folder for another one, %s", quote(name))
			}
		}
	}
	return nil
}

// next is the index of the next slash after i, or the end.
func next(name string, i int) int {
	if j := strings.IndexByte(name[i+1:], '/'); j >= 0 {
		return i + 1 + j
	}
	return len(name)
}

// file says what becomes of one file.
func (a *patchApplier) file(f patchFile) (patchChange, error) {
	c := patchChange{Action: actionWrite, Path: f.Path, Mode: f.Mode}
	c.Added, c.Removed = f.count()
	switch {
	case f.Kind == kindAdd:
		if err := a.free(f.Path, f.Line); err != nil {
			return c, err
		}
		c.New = true
		var err error
		c.Data, err = a.content(f, nil, &c)
		return c, err
	case f.To != "":
		if err := a.free(f.To, f.Line); err != nil {
			return c, err
		}
		c.Action, c.Path, c.From, c.New = actionRename, f.To, f.Path, true
	case f.Kind == kindDelete:
		c.Action = actionDelete
	}
	old, err := a.read(f)
	if err != nil {
		return c, err
	}
	if f.Kind == kindDelete {
		return c, a.emptied(f, old, &c)
	}
	c.Data, err = a.content(f, old, &c)
	return c, err
}

// count returns how many lines a file gets and loses.
func (f patchFile) count() (added, removed int) {
	for _, h := range f.Hunks {
		for _, l := range h.Lines {
			switch l.Op {
			case opAdd:
				added++
			case opRemove:
				removed++
			}
		}
	}
	return added, removed
}

func gone(err error) bool { return sandbox.IsNotFound(err) || errors.Is(err, fs.ErrNotExist) }

// free refuses a path at which there is a file that stays.
func (a *patchApplier) free(path string, line int) error {
	if a.leaving[path] {
		return nil
	}
	switch _, err := a.reader.Read(path); {
	case err == nil:
		return bad(path, line, "update it, or delete it first", "there is a file already at %s", quote(path))
	case !gone(err):
		return err
	}
	return nil
}

// read returns what is in the file before the patch.
func (a *patchApplier) read(f patchFile) ([]byte, error) {
	data, err := a.reader.Read(f.Path)
	if err != nil {
		if gone(err) {
			e := bad(f.Path, f.Line, "look for it with ls or glob", "there is no file %s", quote(f.Path))
			e.Code, e.Err = sandbox.CodeNotFound, err
			return nil, e
		}
		return nil, err
	}
	if len(data) > patchMaxFile || bytes.Count(data, []byte("\n")) > maxLines {
		return nil, large(f.Path, "the file has more than %d bytes or %d lines, which is the most that can be patched", patchMaxFile, maxLines)
	}
	if a.budget -= len(data); a.budget < 0 {
		return nil, large(f.Path, "the files of the patch have more than %d bytes together", maxTotal)
	}
	return data, nil
}

// emptied holds that a unified diff that deletes a file takes all of it away.
func (a *patchApplier) emptied(f patchFile, old []byte, c *patchChange) error {
	if !a.patch.marked {
		c.Removed = bytes.Count(old, []byte("\n"))
		if len(old) > 0 && old[len(old)-1] != '\n' {
			c.Removed++
		}
		return nil
	}
	left, err := a.content(f, old, c)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return bad(f.Path, f.Line, "make the diff anew", "the file is to be deleted, and has lines of which the patch does not know: %s",
			strings.Join(linesFrom(left, 1, 3), "\n"))
	}
	return nil
}

// content returns what the hunks make of a file.
func (a *patchApplier) content(f patchFile, old []byte, c *patchChange) ([]byte, error) {
	if len(f.Hunks) == 0 {
		return old, nil
	}
	form := formOf(old, f.spelled()...)
	plain := form.Strip(old)
	t := &target{path: f.Path, text: plain, lines: patchLines(string(plain)), work: &a.work}
	text, err := t.apply(f.Hunks, a.patch.marked, c)
	if err != nil {
		return nil, err
	}
	return form.Dress([]byte(text)), nil
}

// spelled are the texts of the hunks: carriage returns in them, and a mark at
// their beginning, are meant.
func (f patchFile) spelled() (out [][]byte) {
	for _, h := range f.Hunks {
		for _, l := range h.Lines {
			out = append(out, []byte(l.Text))
		}
	}
	return out
}

// lines splits a text into its lines, with their newlines.
func patchLines(text string) []string {
	out := strings.SplitAfter(text, "\n")
	if out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}

// note tells what was not as the patch says.
func (c *patchChange) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
}
