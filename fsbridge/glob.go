package fsbridge

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// Limits of Glob, which takes patterns from agents.
const (
	maxPattern = 1024
	maxBraces  = 8
	maxChoices = 256 // ways to choose from all braces: each is tried
	maxMatches = 100_000
	maxMatched = 16 << 20 // bytes of all matches: the names are the sandbox's, the memory is not
	maxPath    = 4095     // bytes of the longest path of Linux; a tree may be deeper
)

// Glob returns the paths that match pattern, in the order of a walk. The
// pattern is absolute or relative to the workspace, and so are the results.
// Its words are those of doublestar: *, ?, [class], {a,b} and ** for any
// number of folders. Links are matched and not followed; folders that may not
// be read, that vanish meanwhile, or that are too deep to have a path, are left
// out as a shell does.
//
// A malformed or oversized pattern is [sandbox.CodeValidation], more than
// 100,000 matches [sandbox.CodeBudgetExceeded].
func Glob(ctx context.Context, f sandbox.Files, pattern string) ([]string, error) {
	if err := CheckPattern(pattern); err != nil {
		return nil, err
	}
	pattern, deep := collapse(pattern)
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
	if deep > 1 {
		return matched(ctx, f, pattern, root, rest)
	}
	found := matches{pattern: pattern}
	err := doublestar.GlobWalk(view, rest, func(name string, _ fs.DirEntry) error {
		switch {
		case name == ".":
			name = root
		case root != ".":
			name = path.Join(root, name)
		}
		return found.add(name)
	}, doublestar.WithNoFollow(), doublestar.WithFailOnIOErrors())
	if errors.Is(err, doublestar.ErrBadPattern) {
		return nil, badPattern(pattern, "the pattern is malformed")
	}
	return found.paths, unwrapPath(err)
}

// matches are what a pattern has found, within bounds.
type matches struct {
	pattern string
	paths   []string
	bytes   int
}

func (m *matches) add(name string) error {
	if len(m.paths) == maxMatches || m.bytes+len(name) > maxMatched {
		return &sandbox.Error{
			Code: sandbox.CodeBudgetExceeded, Op: "glob", Field: "pattern", Resource: termsafe.Line(m.pattern),
			Message: "the pattern has too many matches", Hint: "use a narrower pattern",
		}
	}
	m.paths, m.bytes = append(m.paths, name), m.bytes+len(name)
	return nil
}

// collapse writes each run of ** as one, which matches the same, and counts
// those that are left, also in braces.
func collapse(pattern string) (string, int) {
	var out []string
	for e := range strings.SplitSeq(pattern, "/") {
		if e != "**" || len(out) == 0 || out[len(out)-1] != e {
			out = append(out, e)
		}
	}
	pattern = strings.Join(out, "/")
	return pattern, strings.Count(pattern, "**")
}

// matched is Glob for a pattern with several **, by holding every path below
// root against it once. To look for what each of them stands for would take the
// depth of the tree to the power of their number.
func matched(ctx context.Context, f sandbox.Files, pattern, root, rest string) ([]string, error) {
	found := matches{pattern: pattern}
	err := Walk(ctx, f, root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case len(name) > maxPath && d.IsDir():
			return fs.SkipDir
		case len(name) > maxPath:
			return nil
		case err != nil && name != root && (errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist)):
			return nil
		case err != nil || name == root:
			return err
		case !doublestar.MatchUnvalidated(rest, strings.TrimPrefix(strings.TrimPrefix(name, root), "/")):
			return nil
		}
		return found.add(path.Clean(name))
	})
	if err != nil {
		return nil, err
	}
	return found.paths, nil
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

// CheckPattern refuses patterns that are malformed, lead out of their folder, or
// would take very long to be held against a path. Everybody who takes patterns
// from agents asks it first.
func CheckPattern(pattern string) error {
	switch {
	case pattern == "":
		return badPattern(pattern, "the pattern is empty")
	case len(pattern) > maxPattern:
		return badPattern(pattern[:maxPattern], "the pattern is too long")
	case strings.Count(pattern, "{") > maxBraces:
		return badPattern(pattern, "the pattern has too many braces")
	case choices(pattern) > maxChoices:
		return badPattern(pattern, "the pattern has too many alternatives")
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

// choices is how many ways there are to choose from all braces of a pattern, at
// least, and not much more than maxChoices.
func choices(pattern string) int {
	all := 1
	var open []int // alternatives of each brace that is open
	for _, c := range []byte(pattern) {
		last := len(open) - 1
		switch {
		case c == '{':
			open = append(open, 1)
		case c == ',' && last >= 0:
			open[last]++
		case c == '}' && last >= 0:
			all = min(all*open[last], maxChoices+1)
			open = open[:last]
		}
	}
	for _, n := range open {
		all = min(all*n, maxChoices+1)
	}
	return all
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
