// The search files look for lines in the files of a sandbox, through
// [sandbox.Files]. Files and patterns are untrusted: everything is bounded,
// regular expressions are those of RE2, and links below the start of the
// search are not followed.

package tools

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

// The bounds of one search.
const (
	maxEntries     = 500_000   // files and folders that are looked at
	searchMaxBytes = 1 << 30   // that are read
	searchMaxFile  = 128 << 20 // bytes that are read of one file
	maxLine        = 1 << 20   // bytes of a line that are matched
)

// A Query says what is looked for, and where.
type searchQuery struct {
	Match   *regexp.Regexp
	Root    string // a file or a folder
	Glob    string // what paths below Root have to match, or without a slash the names of files; empty is all
	Context int    // lines around those that match
	First   bool   // one line of each file is enough
}

// A Line is one that matches, or one around it.
type searchLine struct {
	Path   string
	Number int    // from 1
	Text   []byte // without its end; valid until the next one
	Hit    bool
}

// Compile returns the expression of a pattern.
func compileSearch(pattern string, literal, ignoreCase bool) (*regexp.Regexp, error) {
	if literal {
		pattern = regexp.QuoteMeta(pattern)
	}
	if ignoreCase {
		pattern = "(?i)" + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: "grep", Field: "pattern", Message: "the pattern is no regular expression of RE2",
			Hint: "there are no look-arounds and back references; set literal for plain text", Err: err}
	}
	return re, nil
}

// Run gives the lines of the query to each, in the order of a walk, until each
// returns false, which is no error. An error is one of the root, or the end of
// ctx; what cannot be read below the root is counted.
func runSearch(ctx context.Context, f sandbox.Files, q searchQuery, each func(searchLine) bool) (schema.Searched, error) {
	if q.Glob != "" {
		var e *sandbox.Error
		if errors.As(fsbridge.CheckPattern(q.Glob), &e) {
			e.Op, e.Field = "grep", "glob"
			return schema.Searched{}, e
		}
	}
	s := &searcher{ctx: ctx, files: f, query: q, each: each}
	err := fsbridge.Walk(ctx, f, q.Root, s.visit)
	switch {
	case errors.Is(err, errEnough), errors.Is(err, errBound):
		err = nil
	case err != nil && ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return s.tally, err
}

// Why a walk ends early.
var (
	errEnough = errors.New("no more is wanted")
	errBound  = errors.New("a bound was reached")
)

type searcher struct {
	ctx     context.Context // of the Run that it belongs to
	files   sandbox.Files
	query   searchQuery
	each    func(searchLine) bool
	tally   schema.Searched
	entries int
	scan    scanner
}

// visit is called for each file and folder.
func (s *searcher) visit(name string, d fs.DirEntry, err error) error {
	root := name == s.query.Root
	switch {
	case s.ctx.Err() != nil:
		return context.Cause(s.ctx)
	case sandbox.CodeOf(err) == sandbox.CodeBudgetExceeded:
		return s.stop("there are too many entries in one folder; search a part of the tree")
	case err != nil && root:
		return err
	case err != nil:
		s.tally.Unreadable++
		return nil
	}
	if s.entries++; s.entries > maxEntries {
		return s.stop("there are too many files; search a part of the tree, or use a glob")
	}
	switch {
	case d.IsDir() && !root && d.Name() == ".git":
		s.tally.Repository++
		return fs.SkipDir
	case d.IsDir() || !d.Type().IsRegular() && !root:
		return nil
	case !root && !s.wanted(name):
		return nil
	}
	err = s.search(name)
	if err == nil || errors.Is(err, errEnough) || errors.Is(err, errBound) || s.ctx.Err() != nil || root {
		return err
	}
	s.tally.Unreadable++
	return nil
}

func (s *searcher) stop(why string) error {
	s.tally.Stopped = why
	return errBound
}

// wanted reports whether the glob of the query matches a file.
func (s *searcher) wanted(name string) bool {
	glob := s.query.Glob
	if glob == "" {
		return true
	}
	if !strings.Contains(glob, "/") {
		return doublestar.MatchUnvalidated(glob, path.Base(name))
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(name, s.query.Root), "/")
	return doublestar.MatchUnvalidated(strings.TrimPrefix(glob, "./"), rest)
}
