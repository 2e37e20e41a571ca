// The patch files parse patches and compute their effect on files. They parse
// two formats into one model: unified diffs, as git and diff write them, and
// the format between "*** Begin Patch" and "*** End Patch" that agents write.
//
// A patch is carried out as a whole or not at all, and nothing is guessed. A
// hunk goes where its lines stand; if that is not the place that it names, it
// has to be the only one. Lines that differ in blanks at their ends alone are
// taken, and the result says so. Everything else is an error that names file,
// hunk and line, and shows what is there instead.
//
// The package is pure: contents come from a [Reader], and the [Result] is data.
// Patches are untrusted; sizes and work are bounded.

package tools

import (
	"fmt"
	"io/fs"

	"github.com/bulkhead-dev/sandbox"
)

// The bounds.
const (
	maxPatch        = 8 << 20  // bytes of a patch
	maxFiles        = 500      // in a patch
	maxHunks        = 5000     // in a patch
	patchMaxFile    = 10 << 20 // bytes of a file, before and after
	maxLines        = 1 << 20  // of a file
	maxTotal        = 64 << 20 // bytes read of all files, and written to all
	maxAnchors      = 16       // of a hunk
	maxPath         = 4096     // bytes
	patchMaxMessage = 2 << 10  // bytes of an error's message

	maxWork = 100 << 20 // lines that are looked at to find hunks that have moved
)

// A Patch is what [Parse] has read.
type patch struct {
	Files []patchFile

	marked bool // a missing newline at the end of a file is marked: a unified diff
}

// A Kind says what is done with a file.
type patchKind string

// The kinds.
const (
	kindAdd    patchKind = "add"    // Path is new
	kindUpdate patchKind = "update" // Path changes, and is called To afterwards if that is set
	kindDelete patchKind = "delete"
)

// A File is what a patch wants done with one file.
type patchFile struct {
	Kind  patchKind
	Path  string      // clean
	To    string      // clean; the new name, or empty
	Mode  fs.FileMode // permissions that it is to have; 0 where the patch does not say
	Line  int         // of the patch, from 1
	Hunks []patchHunk
}

// A Hunk is one piece of a file that changes.
type patchHunk struct {
	Line    int      // of the patch, from 1
	Start   int      // line of the file at which it should be, from 1; 0 where the patch does not say
	Anchors []string // lines before it, in their order, after which it has to be looked for
	End     bool     // it has to be at the end of the file
	Lines   []patchLine
}

// A Line is one line of a hunk.
type patchLine struct {
	Op   patchOp
	Text string // with its newline, unless it is said to have none
}

// An Op is what happens to a line.
type patchOp byte

// The operations, as they are written.
const (
	opKeep   patchOp = ' '
	opRemove patchOp = '-'
	opAdd    patchOp = '+'
)

// side returns the texts of the lines that are there before the hunk, or after.
func (h patchHunk) side(leave patchOp) (out []string) {
	for _, l := range h.Lines {
		if l.Op != leave {
			out = append(out, l.Text)
		}
	}
	return out
}

// before are the lines that the file has to have.
func (h patchHunk) before() []string { return h.side(opAdd) }

// after are the lines that it will have instead.
func (h patchHunk) after() []string { return h.side(opRemove) }

// bad is an error about a line of the patch; 0 is none in particular.
func bad(resource string, line int, hint, format string, args ...any) *sandbox.Error {
	e := sandbox.Errorf(sandbox.CodeValidation, "apply_patch", format, args...)
	if line > 0 {
		e.Message = fmt.Sprintf("line %d of the patch: %s", line, e.Message)
	}
	e.Field, e.Resource, e.Hint = "patch", resource, hint
	e.Message = cut(e.Message)
	return e
}

// large is an error about a size.
func large(resource, format string, args ...any) *sandbox.Error {
	e := sandbox.Errorf(sandbox.CodeCapabilityBlocked, "apply_patch", format, args...)
	e.Resource = resource
	return e
}
