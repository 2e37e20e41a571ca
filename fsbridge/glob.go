package fsbridge

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/termsafe"
)

// Limits of Glob, which takes patterns from agents.
const (
	maxPattern = 1024
	maxBraces  = 8
	maxMatches = 100_000
)

// Glob returns the paths that match pattern, in the order of a walk. The
// pattern is absolute or relative to the workspace, and so are the results.
// Its words are those of doublestar: *, ?, [class], {a,b} and ** for any
// number of folders. Links are matched and not followed; folders that may not
// be read, or that vanish meanwhile, are left out as a shell does.
//
// A malformed or oversized pattern is [sandbox.CodeValidation], more than
// 100,000 matches [sandbox.CodeBudgetExceeded].
func Glob(ctx context.Context, f sandbox.Files, pattern string) ([]string, error) {
	if err := checkPattern(pattern); err != nil {
		return nil, err
	}
	root, rest := doublestar.SplitPattern(pattern)
	if rest == "." || rest == "" {
		rest = "*"
	}
	view := &view{ctx: ctx, files: f, root: root, lenient: true}
	if !strings.ContainsAny(pattern, `*?[{\`) {
		return literal(ctx, f, pattern)
	}
	if _, err := f.Stat(ctx, root); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	var found []string
	err := doublestar.GlobWalk(view, rest, func(name string, _ fs.DirEntry) error {
		if len(found) == maxMatches {
			return &sandbox.Error{
				Code: sandbox.CodeBudgetExceeded, Op: "glob", Field: "pattern", Resource: termsafe.Line(pattern),
				Message: "the pattern has too many matches", Hint: "use a narrower pattern",
			}
		}
		if name == "." {
			found = append(found, root)
		} else if root == "." {
			found = append(found, name)
		} else {
			found = append(found, path.Join(root, name))
		}
		return nil
	}, doublestar.WithNoFollow(), doublestar.WithFailOnIOErrors())
	if errors.Is(err, doublestar.ErrBadPattern) {
		return nil, badPattern(pattern, "the pattern is malformed")
	}
	return found, unwrapPath(err)
}

func literal(ctx context.Context, f sandbox.Files, name string) ([]string, error) {
	_, err := lstat(ctx, f, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []string{name}, nil
}

func checkPattern(pattern string) error {
	switch {
	case pattern == "":
		return badPattern(pattern, "the pattern is empty")
	case len(pattern) > maxPattern:
		return badPattern(pattern[:maxPattern], "the pattern is too long")
	case strings.Count(pattern, "{") > maxBraces:
		return badPattern(pattern, "the pattern has too many braces")
	case strings.IndexByte(pattern, 0) >= 0:
		return badPattern(pattern, "the pattern has a NUL byte")
	case !doublestar.ValidatePattern(pattern):
		return badPattern(pattern, "the pattern is malformed")
	}
	for e := range strings.SplitSeq(pattern, "/") {
		if e == ".." {
			return badPattern(pattern, `the pattern has ".."`)
		}
	}
	return nil
}

func badPattern(pattern, message string) error {
	return &sandbox.Error{
		Code: sandbox.CodeValidation, Op: "glob", Field: "pattern", Resource: termsafe.Line(pattern),
		Message: message, Hint: "for example: src/**/*.go",
	}
}

// unwrapPath takes our own error out of the PathError of the io/fs view.
func unwrapPath(err error) error {
	var e *sandbox.Error
	if errors.As(err, &e) {
		return e
	}
	return err
}
