package walls

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/client"
	"github.com/bulkhead-dev/sandbox/daemon/fault"
	"github.com/bulkhead-dev/sandbox/daemon/walls/form"
	"github.com/bulkhead-dev/sandbox/fsbridge/fsinfo"
)

// A fileServer is a handle with files.
type fileServer struct{ h *handle }

// Files implements sandbox.FileServer.
func (s fileServer) Files(ctx context.Context) (sandbox.Files, error) {
	var a form.Abilities
	if err := s.h.call(ctx, client.Request{Op: "open files", Method: http.MethodGet, Path: s.h.path("/files/abilities")}, &a); err != nil {
		return nil, err
	}
	return &files{h: s.h, can: a}, nil
}

// files are those of a sandbox behind a daemon.
type files struct {
	h     *handle
	can   form.Abilities
	plain bool // no link is followed
}

func (f *files) ask(op, method, what string, query url.Values) client.Request {
	if f.plain {
		query.Set("plain", "true")
	}
	return client.Request{Op: op, Method: method, Path: f.h.path("/files/" + what), Query: query}
}

func at(path string) url.Values { return url.Values{"path": {path}} }

func octal(perm fs.FileMode) string { return strconv.FormatUint(uint64(perm), 8) }

// WithoutLinks implements sandbox.LinkRefuser.
func (f *files) WithoutLinks() (sandbox.Files, error) {
	if !f.can.NoLinks {
		return nil, unable("do without links")
	}
	return &files{h: f.h, can: f.can, plain: true}, nil
}

func unable(what string) error {
	return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "files", Message: "files of this sandbox cannot " + what}
}

// Read implements sandbox.Files.
func (f *files) Read(ctx context.Context, path string, offset, limit int64) (io.ReadCloser, error) {
	q := at(path)
	q.Set("offset", strconv.FormatInt(offset, 10))
	q.Set("limit", strconv.FormatInt(limit, 10))
	bound, done, err := f.h.within(ctx, "read")
	if err != nil {
		return nil, err
	}
	a, err := f.h.p.c.Do(bound, f.ask("read", http.MethodGet, "content", q))
	if err != nil {
		done()
		return nil, f.h.honest(ctx, "read", err)
	}
	return &content{h: f.h, ctx: ctx, a: a, done: done}, nil
}

// content is what a file holds, as it comes.
type content struct {
	h    *handle
	ctx  context.Context // of the Read that it belongs to
	a    *http.Response
	done context.CancelFunc
}

// Read implements io.Reader. The end of the body is the end of the file only
// when no problem follows it.
func (c *content) Read(p []byte) (int, error) {
	n, err := c.a.Body.Read(p)
	if err == nil {
		return n, nil
	}
	if !errors.Is(err, io.EOF) {
		if cause := c.ctx.Err(); cause != nil {
			return n, ended("read", cause)
		}
		return n, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "read", Message: "the connection ended before the file had", Err: err}
	}
	if text := c.a.Trailer.Get(form.TrailerProblem); text != "" {
		var d fault.Document
		if fail := json.Unmarshal([]byte(text), &d); fail != nil {
			return n, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "read", Message: "the file could not be read to its end"}
		}
		return n, d.Err()
	}
	return n, err
}

// Close implements io.Closer.
func (c *content) Close() error {
	c.done()
	_ = c.a.Body.Close() // nothing more is wanted
	return nil
}

// Write implements sandbox.Files.
func (f *files) Write(ctx context.Context, path string, r io.Reader, o sandbox.WriteOptions) error {
	q := at(path)
	q.Set("perm", octal(o.Perm))
	q.Set("exclusive", strconv.FormatBool(o.Exclusive))
	bound, done, err := f.h.within(ctx, "write")
	if err != nil {
		return err
	}
	defer done()
	if r == nil {
		r = strings.NewReader("")
	}
	from := &source{Reader: r}
	ask := f.ask("write", http.MethodPut, "content", q)
	ask.Body = from
	a, err := f.h.p.c.Do(bound, ask)
	if err == nil {
		_ = a.Body.Close() // it is empty
		return nil
	}
	if from.err != nil {
		return &sandbox.Error{Code: sandbox.CodeExecution, Op: "write", Field: "path", Resource: path, Message: "what is to be written could not be read", Err: from.err}
	}
	return f.h.honest(ctx, "write", err)
}

// A source remembers why it could not be read.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// Mkdir implements sandbox.Files.
func (f *files) Mkdir(ctx context.Context, path string, perm fs.FileMode) error {
	q := at(path)
	q.Set("perm", octal(perm))
	return f.h.call(ctx, f.ask("mkdir", http.MethodPost, "mkdir", q), nil)
}

// Remove implements sandbox.Files.
func (f *files) Remove(ctx context.Context, path string, recursive bool) error {
	q := at(path)
	q.Set("recursive", strconv.FormatBool(recursive))
	return f.h.call(ctx, f.ask("remove", http.MethodPost, "remove", q), nil)
}

// Clear implements sandbox.Clearer.
func (f *files) Clear(ctx context.Context, path string) error {
	if !f.can.Clear {
		return unable("be cleared")
	}
	return f.h.call(ctx, f.ask("clear", http.MethodPost, "clear", at(path)), nil)
}

// Rename implements sandbox.Files.
func (f *files) Rename(ctx context.Context, from, to string) error {
	q := at(from)
	q.Set("to", to)
	return f.h.call(ctx, f.ask("rename", http.MethodPost, "rename", q), nil)
}

// Stat implements sandbox.Files.
func (f *files) Stat(ctx context.Context, path string) (fs.FileInfo, error) {
	return f.stat(ctx, at(path))
}

// Lstat describes path itself, also when it is a link.
func (f *files) Lstat(ctx context.Context, path string) (fs.FileInfo, error) {
	if !f.can.Links {
		return nil, unable("be looked at as links")
	}
	q := at(path)
	q.Set("link", "true")
	return f.stat(ctx, q)
}

func (f *files) stat(ctx context.Context, q url.Values) (fs.FileInfo, error) {
	var one form.File
	if err := f.h.call(ctx, f.ask("stat", http.MethodGet, "stat", q), &one); err != nil {
		return nil, err
	}
	return info(one), nil
}

// ReadLink returns what the link at path points to, as it is stored.
func (f *files) ReadLink(ctx context.Context, path string) (string, error) {
	if !f.can.Links {
		return "", unable("be looked at as links")
	}
	var t form.Target
	err := f.h.call(ctx, f.ask("readlink", http.MethodGet, "link", at(path)), &t)
	return string(t.Target), err
}

// Symlink makes a link at path, which must not exist.
func (f *files) Symlink(ctx context.Context, target, path string) error {
	if !f.can.Links {
		return unable("be links")
	}
	q := at(path)
	q.Set("to", target)
	return f.h.call(ctx, f.ask("symlink", http.MethodPost, "symlink", q), nil)
}

// ReadDir implements sandbox.Files.
func (f *files) ReadDir(ctx context.Context, path string) ([]fs.DirEntry, error) {
	var all form.Files
	if err := f.h.call(ctx, f.ask("readdir", http.MethodGet, "folder", at(path)), &all); err != nil {
		return nil, err
	}
	out := make([]fs.DirEntry, 0, len(all.Items))
	for _, one := range all.Items {
		if !fsinfo.IsName(string(one.Name)) {
			return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "readdir", Message: "the daemon names an entry that cannot be"}
		}
		out = append(out, fs.FileInfoToDirEntry(info(one)))
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out, nil
}

// described is an fs.FileInfo.
type described struct{ f form.File }

func info(f form.File) fs.FileInfo { return described{f} }

func (d described) Name() string       { return string(d.f.Name) }
func (d described) Size() int64        { return d.f.Size }
func (d described) Mode() fs.FileMode  { return d.f.Mode }
func (d described) ModTime() time.Time { return d.f.Modified }
func (d described) IsDir() bool        { return d.f.Mode.IsDir() }
func (d described) Sys() any           { return nil }
