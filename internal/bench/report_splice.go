//go:build linux

package main

import (
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// The lines between which a document holds the text of a run.
const (
	Begin = "<!-- bench:begin -->"
	End   = "<!-- bench:end -->"
)

// Splice returns doc with text between its two marker lines in place of what
// is there. A document without exactly one pair of markers, in order, is
// [sandbox.CodeValidation]: nothing of it may be lost by a guess.
func Splice(doc, text string) (string, error) {
	if strings.Count(doc, Begin) != 1 || strings.Count(doc, End) != 1 {
		return "", wrongMarkers()
	}
	head, rest, _ := strings.Cut(doc, Begin)
	_, tail, ok := strings.Cut(rest, End)
	if !ok {
		return "", wrongMarkers()
	}
	return head + Begin + "\n" + strings.Trim(text, "\n") + "\n" + End + tail, nil
}

func wrongMarkers() error {
	return &sandbox.Error{
		Code: sandbox.CodeValidation, Op: "put the table in the document",
		Message: "the document has not one line " + Begin + " and after it one line " + End,
		Hint:    "add the two lines where the table belongs",
	}
}
