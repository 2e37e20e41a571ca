package resource

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// Bounds of one page of a folder.
const (
	defaultPage = 1000
	MaxPage     = 10_000

	// maxPageBytes is the size at which a page and the answer of a glob end early, in
	// bytes of paths and targets: paths of 4 KiB would make hundreds of
	// megabytes of JSON, in which one byte may take six.
	maxPageBytes = 4 << 20
)

// List returns a page of the entries of the folder name, ordered by name. A page
// of long paths has fewer entries than limit. The cursor is Next of the page
// before. A folder may change between two pages: names that stay are neither
// left out nor listed twice.
func (s *filesServer) List(ctx context.Context, t Tree, name string, limit int, cursor string) (api.FileList, error) {
	if limit <= 0 {
		limit = defaultPage
	}
	limit = min(limit, MaxPage)
	after, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(after) > 255 {
		return api.FileList{}, malformed("cursor", "the cursor is none that a list has given", "begin again without cursor")
	}
	entries, err := t.ReadDir(ctx, name)
	if err != nil {
		return api.FileList{}, err
	}
	if cursor != "" {
		from, found := slices.BinarySearchFunc(entries, string(after), func(e fs.DirEntry, name string) int { return strings.Compare(e.Name(), name) })
		if found {
			from++
		}
		entries = entries[from:]
	}
	out := api.FileList{Items: []api.File{}}
	if len(entries) > limit {
		entries = entries[:limit]
		out.Next = base64.RawURLEncoding.EncodeToString([]byte(entries[limit-1].Name()))
	}
	reported := 0
	for i, e := range entries {
		info, err := e.Info()
		if err != nil {
			return api.FileList{}, err
		}
		f, err := filesDescribe(ctx, t, strings.TrimSuffix(name, "/")+"/"+e.Name(), info)
		if missing(err) {
			continue // it went away after the folder was read
		}
		if err != nil {
			return api.FileList{}, err
		}
		out.Items = append(out.Items, f)
		if reported += len(f.Path) + len(f.Name) + len(f.Target); reported >= maxPageBytes && i < len(entries)-1 {
			out.Next = base64.RawURLEncoding.EncodeToString([]byte(e.Name()))
			break
		}
	}
	return out, nil
}

// Stat describes one entry: a link itself, or with follow its target.
func (s *filesServer) Stat(ctx context.Context, t Tree, name string, follow bool) (api.File, error) {
	look := t.Lstat
	if follow {
		look = t.Stat
	}
	info, err := look(ctx, name)
	if err != nil {
		return api.File{}, err
	}
	f, err := filesDescribe(ctx, t, name, info)
	if err == nil && info.Mode().IsRegular() {
		f.ETag = weakTag(info).String()
	}
	return f, err
}

func filesDescribe(ctx context.Context, t Tree, name string, info fs.FileInfo) (api.File, error) {
	f := api.File{
		Path: name, Name: path.Base(name), Type: typeOf(info.Mode()), Size: info.Size(),
		Mode: fmt.Sprintf("%04o", info.Mode().Perm()), ModifiedAt: info.ModTime().UTC(),
	}
	if f.Type != "symlink" {
		return f, nil
	}
	target, err := t.ReadLink(ctx, name)
	f.Target = target
	return f, err
}

// typeOf returns the name of the kind of an entry.
func typeOf(mode fs.FileMode) string {
	switch mode.Type() {
	case 0:
		return "file"
	case fs.ModeDir:
		return "dir"
	case fs.ModeSymlink:
		return "symlink"
	}
	return "other"
}

// checked refuses names that JSON cannot represent, because a client would
// receive other names.
func checked(field, name string) (string, error) {
	if !utf8.ValidString(name) {
		return "", malformed(field, "the path is no valid UTF-8", "")
	}
	return insideFiles(field, name)
}

// Remove removes name: a file, a link itself, an empty folder, or with recursive
// a tree.
func (s *filesServer) Remove(r *http.Request, t Tree, scope, name string, recursive bool) error {
	ctx := r.Context()
	back, err := s.changing(ctx, scope, name)
	if err != nil {
		return err
	}
	defer back()
	if r.Header.Get("If-Match") != "" || r.Header.Get("If-Unmodified-Since") != "" {
		c, err := s.look(ctx, t, name)
		if err != nil {
			return err
		}
		if err := s.ifMatch(r, t, c); err != nil {
			return err
		}
	}
	return t.Remove(ctx, name, recursive)
}

// Move renames within one mount. Without overwrite it refuses a target that
// exists; it does not notice a target that a command inside makes at the same
// time.
func (s *filesServer) Move(ctx context.Context, t Tree, scope string, m api.MoveFile) (api.File, error) {
	from, err := checked("from", m.From)
	if err != nil {
		return api.File{}, err
	}
	to, err := checked("to", m.To)
	if err != nil {
		return api.File{}, err
	}
	back, err := s.changing(ctx, scope, to)
	if err != nil {
		return api.File{}, err
	}
	defer back()
	if !m.Overwrite {
		_, err := t.Lstat(ctx, to)
		if err == nil {
			return api.File{}, &sandbox.Error{Code: sandbox.CodeBusy, Op: "move", Field: "to", Resource: termsafe.Line(to),
				Message: termsafe.Line(to) + " is there already", Hint: "set overwrite to replace it"}
		}
		if !missing(err) {
			return api.File{}, err
		}
	}
	if err := fsbridge.Move(ctx, t, from, to); err != nil {
		return api.File{}, err
	}
	return s.Stat(ctx, t, to, false)
}

// Mkdir makes a folder.
func (s *filesServer) Mkdir(ctx context.Context, t Tree, m api.MakeFolder) (api.File, error) {
	name, err := checked("path", m.Path)
	if err != nil {
		return api.File{}, err
	}
	perm := fs.FileMode(0o755)
	if m.Mode != "" {
		if perm, err = modeOf(m.Mode); err != nil {
			return api.File{}, err
		}
	}
	if m.Parents {
		err = fsbridge.MkdirAll(ctx, t, name, perm)
	} else {
		err = t.Mkdir(ctx, name, perm)
	}
	if errors.Is(err, fs.ErrExist) && !m.Parents {
		err = &sandbox.Error{Code: sandbox.CodeBusy, Op: "mkdir", Field: "path", Resource: termsafe.Line(name),
			Message: termsafe.Line(name) + " is there already", Hint: "set parents to be content with that", Err: err}
	}
	if err != nil {
		return api.File{}, err
	}
	return s.Stat(ctx, t, name, true)
}

// Symlink makes a link.
func (s *filesServer) Symlink(ctx context.Context, t Tree, scope string, m api.MakeLink) (api.File, error) {
	name, err := checked("path", m.Path)
	if err != nil {
		return api.File{}, err
	}
	if m.Target == "" || !utf8.ValidString(m.Target) || strings.ContainsRune(m.Target, 0) {
		return api.File{}, malformed("target", "the target is empty or no valid text", "")
	}
	back, err := s.changing(ctx, scope, name)
	if err != nil {
		return api.File{}, err
	}
	defer back()
	err = t.Symlink(ctx, m.Target, name)
	if errors.Is(err, fs.ErrExist) {
		err = &sandbox.Error{Code: sandbox.CodeBusy, Op: "symlink", Field: "path", Resource: termsafe.Line(name),
			Message: termsafe.Line(name) + " is there already", Hint: "remove it first", Err: err}
	}
	if err != nil {
		return api.File{}, err
	}
	return s.Stat(ctx, t, name, false)
}
