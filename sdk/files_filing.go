// Filing: this part of the package is the client of package daemon/filing: the files of a sandbox
// behind a daemon as sandbox.Files, with links.

package sdk

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
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

// A Caller makes requests on behalf of an open sandbox.
type filesCaller interface {
	// Call makes a request and reads the JSON of its answer.
	Call(ctx context.Context, q Request, out any) error
	// Do makes a request whose answer is read until done is called.
	Do(ctx context.Context, q Request) (a *http.Response, done func(), err error)
}

// Files are those of a sandbox. They are safe for concurrent use.
type files struct {
	c      filesCaller
	prefix string
	can    stream.Abilities
	plain  bool // no link is followed
}

var (
	_ sandbox.Files       = (*files)(nil)
	_ sandbox.LinkRefuser = (*files)(nil)
	_ sandbox.Clearer     = (*files)(nil)
)

// Open asks what the files below the path prefix can.
func openFiles(ctx context.Context, c filesCaller, prefix string) (*files, error) {
	f := &files{c: c, prefix: prefix}
	err := c.Call(ctx, Request{Op: "open files", Method: http.MethodGet, Path: prefix + "/abilities"}, &f.can)
	return f, err
}

func (f *files) ask(op, method, what string, query url.Values) Request {
	if f.plain {
		query.Set("plain", "true")
	}
	return Request{Op: op, Method: method, Path: f.prefix + "/" + what, Query: query}
}

func at(path string) url.Values { return url.Values{"path": {path}} }

func octal(perm fs.FileMode) string { return strconv.FormatUint(uint64(perm), 8) }

// WithoutLinks implements sandbox.LinkRefuser.
func (f *files) WithoutLinks() (sandbox.Files, error) {
	if !f.can.NoLinks {
		return nil, unable("do without links")
	}
	return &files{c: f.c, prefix: f.prefix, can: f.can, plain: true}, nil
}

func unable(what string) error {
	return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "files", Message: "files of this sandbox cannot " + what}
}

// Read implements sandbox.Files.
func (f *files) Read(ctx context.Context, path string, offset, limit int64) (io.ReadCloser, error) {
	q := at(path)
	q.Set("offset", strconv.FormatInt(offset, 10))
	q.Set("limit", strconv.FormatInt(limit, 10))
	a, done, err := f.c.Do(ctx, f.ask("read", http.MethodGet, "content", q))
	if err != nil {
		return nil, err
	}
	return &content{ctx: ctx, a: a, done: done}, nil
}

// content is what a file holds, as it comes.
type content struct {
	ctx  context.Context // of the Read that it belongs to
	a    *http.Response
	done func()
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
			return n, &sandbox.Error{Code: sandbox.CodeTimeout, Op: "read", Message: "the call ended before the file had", Retryable: true, Err: cause}
		}
		return n, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "read", Message: "the connection ended before the file had", Err: err}
	}
	if text := c.a.Trailer.Get(stream.TrailerProblem); text != "" {
		var d api.Document
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
	if r == nil {
		r = strings.NewReader("")
	}
	from := &source{Reader: r}
	ask := f.ask("write", http.MethodPut, "content", q)
	ask.Body = from
	a, done, err := f.c.Do(ctx, ask)
	if err == nil {
		_ = a.Body.Close() // it is empty
		done()
		return nil
	}
	if from.err != nil {
		return &sandbox.Error{Code: sandbox.CodeExecution, Op: "write", Field: "path", Resource: path, Message: "what is to be written could not be read", Err: from.err}
	}
	return err
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
	return f.c.Call(ctx, f.ask("mkdir", http.MethodPost, "mkdir", q), nil)
}

// Remove implements sandbox.Files.
func (f *files) Remove(ctx context.Context, path string, recursive bool) error {
	q := at(path)
	q.Set("recursive", strconv.FormatBool(recursive))
	return f.c.Call(ctx, f.ask("remove", http.MethodPost, "remove", q), nil)
}

// Clear implements sandbox.Clearer.
func (f *files) Clear(ctx context.Context, path string) error {
	if !f.can.Clear {
		return unable("be cleared")
	}
	return f.c.Call(ctx, f.ask("clear", http.MethodPost, "clear", at(path)), nil)
}

// Rename implements sandbox.Files.
func (f *files) Rename(ctx context.Context, from, to string) error {
	q := at(from)
	q.Set("to", to)
	return f.c.Call(ctx, f.ask("rename", http.MethodPost, "rename", q), nil)
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
	var one stream.File
	if err := f.c.Call(ctx, f.ask("stat", http.MethodGet, "stat", q), &one); err != nil {
		return nil, err
	}
	return info(one), nil
}

// ReadLink returns what the link at path points to, as it is stored.
func (f *files) ReadLink(ctx context.Context, path string) (string, error) {
	if !f.can.Links {
		return "", unable("be looked at as links")
	}
	var t stream.Target
	err := f.c.Call(ctx, f.ask("readlink", http.MethodGet, "link", at(path)), &t)
	return string(t.Target), err
}

// Symlink makes a link at path, which must not exist.
func (f *files) Symlink(ctx context.Context, target, path string) error {
	if !f.can.Links {
		return unable("be links")
	}
	q := at(path)
	q.Set("to", target)
	return f.c.Call(ctx, f.ask("symlink", http.MethodPost, "symlink", q), nil)
}

// ReadDir implements sandbox.Files.
func (f *files) ReadDir(ctx context.Context, path string) ([]fs.DirEntry, error) {
	var all stream.Files
	if err := f.c.Call(ctx, f.ask("readdir", http.MethodGet, "folder", at(path)), &all); err != nil {
		return nil, err
	}
	out := make([]fs.DirEntry, 0, len(all.Items))
	for _, one := range all.Items {
		if !fsbridge.IsName(string(one.Name)) {
			return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "readdir", Message: "the daemon names an entry that cannot be"}
		}
		out = append(out, fs.FileInfoToDirEntry(info(one)))
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out, nil
}

// described is an fs.FileInfo.
type described struct{ f stream.File }

func info(f stream.File) fs.FileInfo { return described{f} }

func (d described) Name() string       { return string(d.f.Name) }
func (d described) Size() int64        { return d.f.Size }
func (d described) Mode() fs.FileMode  { return d.f.Mode }
func (d described) ModTime() time.Time { return d.f.Modified }
func (d described) IsDir() bool        { return d.f.Mode.IsDir() }
func (d described) Sys() any           { return nil }
