package patch

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/tools/near"
)

// A Reader gives the contents of files, under the paths of the patch. A file
// that is not there is an error for which [sandbox.IsNotFound] or
// errors.Is(err, fs.ErrNotExist) holds.
type Reader interface {
	Read(path string) ([]byte, error)
}

// ReaderFunc is a function as a [Reader].
type ReaderFunc func(path string) ([]byte, error)

// Read implements [Reader].
func (f ReaderFunc) Read(path string) ([]byte, error) { return f(path) }

// A Result is what a patch makes of files. Whoever carries it out writes all
// that is to be written first, and then takes away what [Result.Removed] names:
// files may have changed names with each other.
type Result struct {
	Changes []Change // in the order of the patch
}

// An Action is what happens to a file.
type Action string

// The actions.
const (
	ActionWrite  Action = "write"  // Path gets Data
	ActionDelete Action = "delete" // Path goes
	ActionRename Action = "rename" // Path gets Data, and From goes
)

// A Change is one file of a [Result].
type Change struct {
	Action  Action
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
func (r *Result) Removed() (out []string) {
	written := map[string]bool{}
	for _, c := range r.Changes {
		if c.Action != ActionDelete {
			written[c.Path] = true
		}
	}
	for _, c := range r.Changes {
		gone := c.From
		if c.Action == ActionDelete {
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
func (p *Patch) Apply(r Reader) (*Result, error) {
	a := &applier{patch: p, reader: r, budget: MaxTotal, work: maxWork}
	if err := a.apart(); err != nil {
		return nil, err
	}
	out := &Result{}
	for _, f := range p.Files {
		c, err := a.file(f)
		if err != nil {
			return nil, err
		}
		if len(c.Data) > MaxFile {
			return nil, large(f.Path, "the file would become larger than %d bytes", MaxFile)
		}
		if a.budget -= len(c.Data); a.budget < 0 {
			return nil, large(f.Path, "the files of the patch have more than %d bytes together", MaxTotal)
		}
		out.Changes = append(out.Changes, c)
	}
	return out, nil
}

type applier struct {
	patch  *Patch
	reader Reader
	budget int // bytes that may still be read or written
	work   int // lines that may still be looked at

	leaving map[string]bool // paths at which nothing is left of what was there
}

// apart refuses patches that change a path twice: the parts would depend on
// each other.
func (a *applier) apart() error {
	sources, targets := map[string]int{}, map[string]int{}
	a.leaving = map[string]bool{}
	for _, f := range a.patch.Files {
		source, target := f.Path, f.Path
		switch {
		case f.Kind == KindAdd:
			source = ""
		case f.Kind == KindDelete:
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
func (a *applier) file(f File) (Change, error) {
	c := Change{Action: ActionWrite, Path: f.Path, Mode: f.Mode}
	c.Added, c.Removed = f.count()
	switch {
	case f.Kind == KindAdd:
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
		c.Action, c.Path, c.From, c.New = ActionRename, f.To, f.Path, true
	case f.Kind == KindDelete:
		c.Action = ActionDelete
	}
	old, err := a.read(f)
	if err != nil {
		return c, err
	}
	if f.Kind == KindDelete {
		return c, a.emptied(f, old, &c)
	}
	c.Data, err = a.content(f, old, &c)
	return c, err
}

// count returns how many lines a file gets and loses.
func (f File) count() (added, removed int) {
	for _, h := range f.Hunks {
		for _, l := range h.Lines {
			switch l.Op {
			case OpAdd:
				added++
			case OpRemove:
				removed++
			}
		}
	}
	return added, removed
}

func gone(err error) bool { return sandbox.IsNotFound(err) || errors.Is(err, fs.ErrNotExist) }

// free refuses a path at which there is a file that stays.
func (a *applier) free(path string, line int) error {
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
func (a *applier) read(f File) ([]byte, error) {
	data, err := a.reader.Read(f.Path)
	if err != nil {
		if gone(err) {
			e := bad(f.Path, f.Line, "look for it with ls or glob", "there is no file %s", quote(f.Path))
			e.Code, e.Err = sandbox.CodeNotFound, err
			return nil, e
		}
		return nil, err
	}
	if len(data) > MaxFile || bytes.Count(data, []byte("\n")) > MaxLines {
		return nil, large(f.Path, "the file has more than %d bytes or %d lines, which is the most that can be patched", MaxFile, MaxLines)
	}
	if a.budget -= len(data); a.budget < 0 {
		return nil, large(f.Path, "the files of the patch have more than %d bytes together", MaxTotal)
	}
	return data, nil
}

// emptied holds that a unified diff that deletes a file takes all of it away.
func (a *applier) emptied(f File, old []byte, c *Change) error {
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
			strings.Join(near.List(left, 1, 3), "\n"))
	}
	return nil
}

// content returns what the hunks make of a file.
func (a *applier) content(f File, old []byte, c *Change) ([]byte, error) {
	if len(f.Hunks) == 0 {
		return old, nil
	}
	form := near.FormOf(old, f.spelled()...)
	plain := form.Strip(old)
	t := &target{path: f.Path, text: plain, lines: lines(string(plain)), work: &a.work}
	text, err := t.apply(f.Hunks, a.patch.marked, c)
	if err != nil {
		return nil, err
	}
	return form.Dress([]byte(text)), nil
}

// spelled are the texts of the hunks: carriage returns in them, and a mark at
// their beginning, are meant.
func (f File) spelled() (out [][]byte) {
	for _, h := range f.Hunks {
		for _, l := range h.Lines {
			out = append(out, []byte(l.Text))
		}
	}
	return out
}

// lines splits a text into its lines, with their newlines.
func lines(text string) []string {
	out := strings.SplitAfter(text, "\n")
	if out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}

// note tells what was not as the patch says.
func (c *Change) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
}
