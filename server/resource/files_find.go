package resource

import (
	"context"
	"path"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// Bounds of the number of matches of a glob.
const (
	defaultMatches = 1000
	maxMatches     = 10_000
)

// Glob returns the paths inside that match, without following links.
func (s *filesServer) Glob(ctx context.Context, t Tree, g api.Glob) (api.GlobResult, error) {
	out := api.GlobResult{Paths: []string{}}
	at := sandbox.WorkspaceDir
	if g.Path != "" {
		var err error
		if at, err = checked("path", g.Path); err != nil {
			return out, err
		}
	}
	pattern, err := fsbridge.PatternFromURL(g.Pattern)
	if err != nil {
		return out, atField("pattern", err)
	}
	if !path.IsAbs(pattern) {
		pattern = strings.TrimSuffix(literally(at), "/") + "/" + pattern
	} else if g.Path != "" {
		return out, malformed("pattern", "the pattern is absolute, and a path to begin at is given", "leave one of them out")
	}
	found, err := fsbridge.Glob(ctx, t, pattern)
	if err != nil {
		return out, err
	}
	limit := g.Limit
	if limit <= 0 {
		limit = defaultMatches
	}
	if limit = min(limit, maxMatches); len(found) > limit {
		found, out.More = found[:limit], true
	}
	reported := 0
	for i, p := range found {
		if reported += len(p); reported >= maxPageBytes && i < len(found)-1 {
			found, out.More = found[:i+1], true
			break
		}
	}
	out.Paths = append(out.Paths, found...)
	return out, nil
}

// literally returns a pattern that matches only this path.
func literally(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `{`, `\{`, `}`, `\}`, `]`, `\]`).Replace(name)
}
