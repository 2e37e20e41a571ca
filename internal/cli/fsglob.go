package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"path"
	"unicode/utf8"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/manager"
)

// A match is a path that a pattern matches.
type match struct {
	Path       string `json:"path"` // as the pattern is: absolute, or from /workspace
	Name       string `json:"name"`
	PathBase64 string `json:"pathBase64,omitempty"`
}

type globView struct {
	Matches []match `json:"matches"`
}

func (a *app) fsGlob() *ucli.Command {
	var zero bool
	return a.fileCommand(fileCommand{
		name: "glob", usage: "list the paths that match patterns", args: "PATTERN…", least: 1, most: -1,
		description: "A pattern has *, ?, [class], {a,b} and ** for any number of folders; quote it, or the shell here expands it.\n" +
			"Links are listed and not followed. No match is no failure.",
		flags: []ucli.Flag{zeroFlag(&zero)},
		check: func() error { return a.onlyNames("fs glob", zero, false) },
		do: func(ctx context.Context, s manager.Share, args []string) error {
			found := []match{}
			seen := map[string]bool{}
			for _, pattern := range args {
				paths, err := fsbridge.Glob(ctx, s, pattern)
				if err != nil {
					return badPattern(err)
				}
				for _, p := range paths {
					if !seen[p] {
						seen[p] = true
						found = append(found, newMatch(p))
					}
				}
			}
			if a.globals.json() {
				return writeJSON(a.Stdout, globView{found})
			}
			entries := make([]entry, len(found))
			for i, m := range found {
				entries[i].Path = m.Path
			}
			return a.writeNames(zero, entries, func(e entry) string { return e.Path })
		},
	})
}

func newMatch(p string) match {
	m := match{Path: p, Name: path.Base(p)}
	if !utf8.ValidString(p) {
		m.PathBase64 = base64.StdEncoding.EncodeToString([]byte(p))
	}
	return m
}

// badPattern makes a malformed pattern wrong usage, which it is.
func badPattern(err error) error {
	var e *sandbox.Error
	if errors.As(err, &e) && e.Code == sandbox.CodeValidation && e.Field == "pattern" {
		return usagef("fs glob", "%s: %s", e.Resource, e.Message)
	}
	return err
}
