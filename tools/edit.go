// Edit: this part of the package replaces exact pieces of a text, several edits in
// their order as one step, all of them or none. For a piece that is not found it
// reports the nearest match, so that the caller can correct the edit.
//
// It is pure. It works on bytes, so a file that is no valid text comes out as it
// went in but for what was replaced. A byte order mark, the line endings and a
// missing newline at the end stay: in a text whose lines all end with a carriage
// return and a newline, a plain newline of an edit means both, unless an edit
// spells carriage returns itself.

package tools

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// The bounds. Messages of errors have at most maxEditMessage bytes.
const (
	maxEditText    = 10 << 20 // bytes, before, between and after the edits
	maxEdits       = 100
	maxEditMessage = 2 << 10

	maxEditReported = 5 // places that a message lists
)

// A textEdit replaces Old by New.
type textEdit struct {
	Old string // exactly as it stands in the text; empty only for a new or empty file
	New string
	All bool // every place; otherwise there has to be exactly one
}

// An editResult is what the edits came to.
type editResult struct {
	Text    []byte
	Changes []editChange // one for each edit
}

// An editChange says where an edit went.
type editChange struct {
	Places int // that were replaced
	Line   int // of the first, from 1, in the text as the edit found it
}

// applyEdits returns text after the edits, of which each finds what the ones before
// have left. The text itself is not changed. A file that does not exist is nil.
//
// Anything wrong with the edits, a place that is not there or not the only one
// included, is [sandbox.CodeValidation], and Field names the edit; a text that
// is or would become too large is [sandbox.CodeCapabilityBlocked]. With an
// error there is no result.
func applyEdits(text []byte, edits []textEdit) (editResult, error) {
	if len(edits) == 0 || len(edits) > maxEdits {
		return editResult{}, badEdit("edits", "", "there must be 1 to %d edits, not %d", maxEdits, len(edits))
	}
	if len(text) > maxEditText {
		return editResult{}, largeEdit("")
	}
	spelled := make([][]byte, 0, 2*len(edits))
	for i, e := range edits {
		if err := check(e, i); err != nil {
			return editResult{}, err
		}
		spelled = append(spelled, []byte(e.Old), []byte(e.New))
	}
	form := formOf(text, spelled...)
	now := form.Strip(text)
	changes := make([]editChange, len(edits))
	for i, e := range edits {
		var err error
		if now, changes[i], err = one(now, e, i); err != nil {
			return editResult{}, err
		}
	}
	now = form.Dress(bytes.Clone(now))
	if len(now) > maxEditText {
		return editResult{}, largeEdit("")
	}
	return editResult{Text: now, Changes: changes}, nil
}

// check holds the edit number i against what can be said without the text.
func check(e textEdit, i int) error {
	switch {
	case len(e.Old) > maxEditText || len(e.New) > maxEditText:
		return largeEdit(field(i, ""))
	case e.Old == e.New && e.Old == "":
		return badEdit(field(i, "old"), "", "old and new are empty")
	case e.Old == e.New:
		return badEdit(field(i, "new"), "", "new is the same as old, so nothing would change")
	}
	return nil
}

// one applies the edit number i.
func one(text []byte, e textEdit, i int) ([]byte, editChange, error) {
	if e.Old == "" {
		if len(text) > 0 {
			return nil, editChange{}, badEdit(field(i, "old"), "say what is to be replaced, or write the whole file",
				"old is empty, which only a new or empty file takes")
		}
		return []byte(e.New), editChange{Places: 1, Line: 1}, nil
	}
	old := []byte(e.Old)
	places, first, reported := count(text, old, e.All)
	switch {
	case places == 0:
		return nil, editChange{}, missed(text, old, i)
	case places > 1 && !e.All:
		return nil, editChange{}, badEdit(field(i, "old"), "add lines before or after it until it is the only one, or set all",
			"old is there %d times, at the lines %s", places, placesIn(text, reported, places))
	}
	size := int64(len(text)) + int64(places)*int64(len(e.New)-len(e.Old))
	if size > maxEditText {
		return nil, editChange{}, largeEdit(field(i, ""))
	}
	return replace(text, old, e.New, int(size)), editChange{Places: places, Line: line(text, first)}, nil
}

// count returns how many places hold old, where the first is, and some of
// them. Those that are all replaced do not overlap; for one that has to be the
// only one, an overlapping second is a second.
func count(text, old []byte, apart bool) (places, first int, reported []int) {
	next := 0
	for at := range searchNear(text, old) {
		if apart && at < next {
			continue
		}
		if next = at + len(old); places == 0 {
			first = at
		}
		if places++; len(reported) < maxEditReported {
			reported = append(reported, at)
		}
	}
	return places, first, reported
}

// replace writes text with new for each old; size is what comes of it.
func replace(text, old []byte, new string, size int) []byte {
	out := make([]byte, 0, size)
	done := 0
	for at := range searchNear(text, old) {
		if at < done {
			continue
		}
		out = append(append(out, text[done:at]...), new...)
		done = at + len(old)
	}
	return append(out, text[done:]...)
}

// line is the number of the line of an offset.
func line(text []byte, at int) int { return bytes.Count(text[:at], []byte("\n")) + 1 }

// placesIn lists the lines of the first places.
func placesIn(text []byte, reported []int, places int) string {
	var list []string
	for _, at := range reported {
		list = append(list, fmt.Sprint(line(text, at)))
	}
	s := strings.Join(list, ", ")
	if places > len(reported) {
		s += fmt.Sprintf(" and %d more", places-len(reported))
	}
	return s
}

// missed says where old of the edit number i almost is.
func missed(text, old []byte, i int) error {
	err := badEdit(field(i, "old"), "read the lines again and copy them as they are", "")
	if len(text) == 0 {
		err.Message = "the file is empty, so old is not in it"
		err.Hint = "leave old empty to write into an empty file"
		return err
	}
	const said = "old is not in the file: "
	err.Message = said + explainMiss(text, old, maxEditMessage-len(said))
	return err
}

func field(i int, name string) string {
	s := fmt.Sprintf("edits[%d]", i)
	if name != "" {
		s += "." + name
	}
	return s
}

func badEdit(field, hint, format string, args ...any) *sandbox.Error {
	e := sandbox.Errorf(sandbox.CodeValidation, "edit", format, args...)
	e.Field, e.Hint = field, hint
	return e
}

func largeEdit(field string) error {
	return &sandbox.Error{
		Code: sandbox.CodeCapabilityBlocked, Op: "edit", Field: field,
		Message: fmt.Sprintf("the text is or would become larger than %d bytes, which is the most that can be edited", maxEditText),
	}
}
