package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

// lookFor bounds how long glob and grep look; what they have found by then is
// the answer of grep.
const lookFor = 60 * time.Second

// errLooked is the cause of a context that ends after lookFor.
var errLooked = errors.New("the time for looking is over")

// ls lists a folder.
func (c *call) ls(ctx context.Context, in schema.Ls) (Answer, error) {
	d := schema.LsResult{Path: in.Path, Entries: []schema.Entry{}}
	var page showPage
	err := c.looking(ctx, func(f *fsbridge.Bridge) error {
		entries, err := f.ReadDir(ctx, in.Path)
		if err != nil {
			return err
		}
		all := make([]showEntry, len(entries))
		for i, e := range entries {
			all[i] = showEntry{Name: e.Name(), Mode: e.Type()}
			if i >= in.Offset && i < in.Offset+in.Limit {
				c.describe(ctx, f, in.Path, e, &all[i])
			}
		}
		page = entriesShow(all, in.Offset, in.Limit, 0)
		first := min(in.Offset, len(all))
		for _, e := range all[first : first+page.Shown] {
			d.Entries = append(d.Entries, entryOf(e))
		}
		return nil
	})
	if err != nil {
		return Answer{}, err
	}
	d.Page = pageOf(page)
	return Answer{Text: lines(page.Text, remarks(page.Hint)), Data: d}, nil
}

// describe fills in what is shown of an entry. One that has gone meanwhile is
// shown without.
func (c *call) describe(ctx context.Context, f *fsbridge.Bridge, dir string, e fs.DirEntry, to *showEntry) {
	if info, err := e.Info(); err == nil {
		to.Mode, to.Size, to.Modified = info.Mode(), info.Size(), info.ModTime()
	}
	if e.Type()&fs.ModeSymlink != 0 {
		if target, err := f.ReadLink(ctx, strings.TrimSuffix(dir, "/")+"/"+e.Name()); err == nil {
			to.Target = target
		}
	}
}

func entryOf(e showEntry) schema.Entry {
	out := schema.Entry{Name: strings.ToValidUTF8(e.Name, "\ufffd"), Kind: "other", Target: strings.ToValidUTF8(e.Target, "\ufffd")}
	if !e.Modified.IsZero() {
		when := e.Modified.UTC()
		out.Modified = &when
	}
	switch {
	case e.Mode.IsDir():
		out.Kind = "folder"
	case e.Mode&fs.ModeSymlink != 0:
		out.Kind = "link"
	case e.Mode.IsRegular():
		out.Kind, out.Size = "file", e.Size
	}
	return out
}

func pageOf(p showPage) schema.Page {
	return schema.Page{Shown: p.Shown, Total: p.Total, More: p.More, Hint: p.Hint}
}

// glob finds files by name.
func (c *call) glob(ctx context.Context, in schema.Glob) (Answer, error) {
	pattern := in.Pattern
	if in.Path != "" && in.Path != "." {
		if path.IsAbs(pattern) {
			return Answer{}, &sandbox.Error{Code: sandbox.CodeValidation, Op: "glob", Field: "pattern", Message: "the pattern is absolute and does not go with path", Hint: "give one of them"}
		}
		pattern = strings.TrimSuffix(escape(in.Path), "/") + "/" + pattern
	}
	bounded, done := context.WithTimeoutCause(ctx, lookFor, errLooked)
	defer done()
	var found []string
	err := c.looking(ctx, func(f *fsbridge.Bridge) (err error) {
		found, err = fsbridge.Glob(bounded, f, pattern)
		return err
	})
	if err != nil {
		if ctx.Err() == nil && errors.Is(context.Cause(bounded), errLooked) {
			err = &sandbox.Error{Code: sandbox.CodeTimeout, Op: "glob", Message: fmt.Sprintf("the search took longer than %s", lookFor), Hint: "look below a folder, or use a pattern that begins with one"}
		}
		return Answer{}, err
	}
	page := pathsShow(found, in.Limit, 0, false)
	d := schema.GlobResult{Paths: []string{}, Page: pageOf(page)}
	for _, name := range found[:page.Shown] {
		d.Paths = append(d.Paths, strings.ToValidUTF8(name, "\ufffd"))
	}
	return Answer{Text: lines(page.Text, remarks(page.Hint)), Data: d}, nil
}

// escape writes a path as a pattern that matches it alone.
func escape(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `{`, `\{`).Replace(name)
}

// grep finds lines.
func (c *call) grep(ctx context.Context, in schema.Grep) (Answer, error) {
	re, err := compileSearch(in.Pattern, in.Literal, in.IgnoreCase)
	if err != nil {
		return Answer{}, err
	}
	q := searchQuery{Match: re, Root: in.Path, Glob: in.Glob, Context: in.Context, First: in.Mode == string(modeFiles)}
	if q.Root == "" {
		q.Root = "."
	}
	if in.Mode != string(modeLines) {
		q.Context = 0
	}
	found := newFindings(in)
	bounded, done := context.WithTimeoutCause(ctx, lookFor, errLooked)
	defer done()
	var tally schema.Searched
	err = c.looking(ctx, func(f *fsbridge.Bridge) (err error) {
		tally, err = runSearch(bounded, f, q, found.add)
		return err
	})
	if err != nil {
		if ctx.Err() != nil || !errors.Is(context.Cause(bounded), errLooked) {
			return Answer{}, err
		}
		tally.Stopped = fmt.Sprintf("the search was ended after %s; search a part of the tree, or use a glob", lookFor)
	}
	return found.answer(tally), nil
}

// findings collect what a search finds, as text and as data.
type findings struct {
	in      schema.Grep
	matches *showMatches
	data    schema.GrepResult
}

func newFindings(in schema.Grep) *findings {
	return &findings{in: in, matches: newMatches(matchOptions{Mode: showMode(in.Mode), Context: in.Context > 0 && in.Mode == string(modeLines), Limit: in.Limit})}
}

// add takes a line and reports whether more is wanted.
func (g *findings) add(l searchLine) bool {
	l.Path = strings.TrimPrefix(l.Path, "./")
	more := g.matches.Add(l.Path, l.Number, l.Text, l.Hit)
	name := strings.ToValidUTF8(l.Path, "\ufffd")
	switch d := &g.data; {
	case g.in.Mode == string(modeLines):
		if more {
			text := l.Text[:min(len(l.Text), defaultWidth)]
			d.Lines = append(d.Lines, schema.GrepLine{Path: name, Line: l.Number, Text: strings.ToValidUTF8(string(text), "\ufffd"), Hit: l.Hit})
		}
	case len(d.Files) > 0 && d.Files[len(d.Files)-1].Path == name:
		d.Files[len(d.Files)-1].Count++
	default:
		d.Files = append(d.Files, schema.GrepFile{Path: name, Count: 1})
	}
	return more
}

// answer is what was found, with what was searched.
func (g *findings) answer(s schema.Searched) Answer {
	page := g.matches.Page()
	d := g.data
	d.Search, d.Page = s, pageOf(page)
	d.Files = d.Files[:min(len(d.Files), page.Shown)]
	if g.in.Mode == string(modeFiles) {
		for i := range d.Files {
			d.Files[i].Count = 0
		}
	}
	var left []string
	for _, n := range []struct {
		count int
		what  string
	}{
		{s.Binary, "files that are no text"}, {s.Unreadable, "files or folders that could not be read"}, {s.Repository, "folders named .git"},
		{s.Partial, "files that are too long, or have too long a line, in part"},
	} {
		if n.count > 0 {
			left = append(left, fmt.Sprintf("%d %s", n.count, n.what))
		}
	}
	note := ""
	if len(left) > 0 {
		note = "not searched: " + strings.Join(left, ", ")
	}
	if s.Stopped != "" {
		d.Page.More = true
	}
	return Answer{Text: lines(page.Text, remarks(page.Hint, s.Stopped, note)), Data: d}
}
