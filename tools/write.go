package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

// write replaces or makes a file.
func (c *call) write(ctx context.Context, in schema.Write) (Answer, error) {
	d := schema.WriteResult{Path: in.Path, Bytes: len(in.Content)}
	err := c.changing(ctx, func(f *fsbridge.Bridge) error {
		info, err := f.Stat(ctx, in.Path)
		switch {
		case sandbox.IsNotFound(err):
			d.Created = true
		case err != nil:
			return err
		case info.IsDir():
			return &sandbox.Error{Code: sandbox.CodeValidation, Op: "write", Field: "path", Resource: termsafe.Line(in.Path), Message: termsafe.Line(in.Path) + " is a folder", Hint: "name a file in it"}
		}
		return f.Write(ctx, in.Path, strings.NewReader(in.Content), sandbox.WriteOptions{})
	})
	if err != nil {
		return Answer{}, err
	}
	what := "replaced"
	if d.Created {
		what = "made"
	}
	return Answer{Text: fmt.Sprintf("%s %s, which has %d bytes now", what, nameShow(in.Path), d.Bytes), Data: d}, nil
}

// editsOf returns the edits of an input, of which there may be one or several.
func editsOf(in schema.Edit) []textEdit {
	if len(in.Edits) == 0 {
		return []textEdit{{Old: in.Old, New: in.New, All: in.All}}
	}
	out := make([]textEdit, len(in.Edits))
	for i, p := range in.Edits {
		out[i] = textEdit(p)
	}
	return out
}

// edit replaces pieces of a file. The file is written only if it is still what
// the edits were made for.
func (c *call) edit(ctx context.Context, in schema.Edit) (Answer, error) {
	d := schema.EditResult{Path: in.Path}
	edits := editsOf(in)
	err := c.changing(ctx, func(f *fsbridge.Bridge) error {
		path, err := followed(ctx, f, in.Path)
		if err != nil {
			return err
		}
		before, err := loadChange(ctx, f, path, maxEditText)
		if err != nil {
			return err
		}
		var text []byte
		if before == nil {
			if edits[0].Old != "" {
				return &sandbox.Error{Code: sandbox.CodeNotFound, Op: "edit", Field: "path", Resource: termsafe.Line(in.Path),
					Message: "there is no file " + termsafe.Line(in.Path), Hint: "look for it with ls or glob, or leave old empty to make it"}
			}
			d.Created = true
		} else {
			text = before.Data
		}
		r, err := applyEdits(text, edits)
		if err != nil {
			return err
		}
		d.Bytes, d.Edits = len(r.Text), make([]schema.EditChange, len(r.Changes))
		for i, e := range r.Changes {
			d.Edits[i] = schema.EditChange(e)
		}
		return applyChange(ctx, f, []changeFile{{Path: path, Before: before, After: &changeContent{Data: r.Text}}})
	})
	if err != nil {
		return Answer{}, err
	}
	what := "edited"
	if d.Created {
		what = "made"
	}
	var where []string
	for _, e := range d.Edits {
		s := fmt.Sprintf("line %d", e.Line)
		if e.Places > 1 {
			s = fmt.Sprintf("%d places, the first at line %d", e.Places, e.Line)
		}
		where = append(where, s)
	}
	return Answer{Text: fmt.Sprintf("%s %s: %s", what, nameShow(in.Path), strings.Join(where, "; ")), Data: d}, nil
}

// maxFollowed is how many links lead to a file at most.
const maxFollowed = 16

// followed returns the file that a path names, in the place of a link to it: to
// write means to write that file. Where links lead is for the sandbox's files
// to judge, which let none lead out of its mount.
func followed(ctx context.Context, f *fsbridge.Bridge, path string) (string, error) {
	for range maxFollowed {
		target, err := f.ReadLink(ctx, path)
		if err != nil {
			return path, nil // not a link, missing, or unknown: the operation that uses the path reports more
		}
		if strings.HasPrefix(target, "/") {
			path = target
			continue
		}
		dir := path[:strings.LastIndexByte(path, '/')+1]
		path = dir + target
	}
	return "", &sandbox.Error{Code: sandbox.CodeValidation, Op: "edit", Field: "path", Resource: termsafe.Line(path), Message: "too many links lead to the file"}
}

// patch changes files, all that the patch says or none.
func (c *call) patch(ctx context.Context, in schema.ApplyPatch) (Answer, error) {
	p, err := parsePatch([]byte(in.Patch), sandbox.WorkspaceDir)
	if err != nil {
		return Answer{}, err
	}
	d := schema.PatchResult{Files: []schema.PatchChange{}}
	err = c.changing(ctx, func(f *fsbridge.Bridge) error {
		before := map[string]*changeContent{}
		load := func(path string) (*changeContent, error) {
			if known, ok := before[path]; ok {
				return known, nil
			}
			content, err := loadChange(ctx, f, path, patchMaxFile)
			if err == nil {
				before[path] = content
			}
			return content, err
		}
		result, err := p.Apply(readerFunc(func(path string) ([]byte, error) {
			content, err := load(path)
			if err == nil && content == nil {
				err = &sandbox.Error{Code: sandbox.CodeNotFound, Op: "apply_patch", Resource: termsafe.Line(path), Message: "there is no file " + termsafe.Line(path)}
			}
			if err != nil {
				return nil, err
			}
			return content.Data, nil
		}))
		if err != nil {
			return err
		}
		files, err := steps(result, load)
		if err != nil {
			return err
		}
		for _, done := range result.Changes {
			d.Files = append(d.Files, schema.PatchChange{Action: string(done.Action), Path: done.Path, From: done.From, Created: done.New, Added: done.Added, Removed: done.Removed, Notes: done.Notes})
		}
		return applyChange(ctx, f, files)
	})
	if err != nil {
		return Answer{}, err
	}
	return Answer{Text: reported(d), Data: d}, nil
}

// steps are the changes of files that a patch comes to.
func steps(r *patchResult, load func(string) (*changeContent, error)) ([]changeFile, error) {
	var out []changeFile
	for _, c := range r.Changes {
		if c.Action == actionDelete {
			continue
		}
		before, err := load(c.Path)
		if err != nil {
			return nil, err
		}
		after := &changeContent{Data: c.Data, Mode: c.Mode}
		if from, err := load(c.From); c.From != "" && err == nil && from != nil && c.Mode == 0 {
			after.Mode = from.Mode // a file that is called something else keeps its permissions
		}
		out = append(out, changeFile{Path: c.Path, Before: before, After: after})
	}
	for _, path := range r.Removed() {
		before, err := load(path)
		if err != nil {
			return nil, err
		}
		out = append(out, changeFile{Path: path, Before: before})
	}
	return out, nil
}

// reported returns the summary of a patch, in the style of patch programs.
func reported(d schema.PatchResult) string {
	var out []string
	for _, f := range d.Files {
		sign := "M"
		switch {
		case f.Action == "delete":
			sign = "D"
		case f.Action == "rename":
			sign = "R"
		case f.Created:
			sign = "A"
		}
		row := sign + " " + nameShow(f.Path)
		if f.From != "" {
			row = sign + " " + nameShow(f.From) + " -> " + nameShow(f.Path)
		}
		out = append(out, fmt.Sprintf("%s (+%d -%d)", row, f.Added, f.Removed))
		out = slices.Concat(out, f.Notes)
	}
	return strings.Join(out, "\n")
}
