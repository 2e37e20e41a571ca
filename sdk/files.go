package sdk

import (
	"context"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// octets is the kind of content of a file.
const octets = "application/octet-stream"

// inside is the part of an address that names a file: the path inside, cleaned
// and without its first slash, of which everything that could mean something
// else is escaped. Relative paths are in the workspace.
func inside(name string) string {
	parts := strings.Split(path.Clean(absolute(name))[1:], "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}

// ReadFile returns the content of a file, which is to be closed. Its end is the
// file's: one that was cut off is an error of Read. ctx has to last until then.
func (c *API) ReadFile(ctx context.Context, name, path string) (io.ReadCloser, error) {
	a, err := c.Do(ctx, Request{Op: "read file", Method: http.MethodGet, Path: one(name, "/files/"+inside(path)), Again: true})
	if err != nil {
		return nil, err
	}
	return a.Body, nil
}

// ReadPart is ReadFile for so many bytes from offset on; a length of 0 is to the
// end. It is an error when the file has none there.
func (c *API) ReadPart(ctx context.Context, name, path string, offset, length int64) (io.ReadCloser, error) {
	last := ""
	if length > 0 {
		last = strconv.FormatInt(offset+length-1, 10)
	}
	q := Request{Op: "read file", Method: http.MethodGet, Path: one(name, "/files/"+inside(path)), Again: true}
	q.Header = http.Header{"Range": {"bytes=" + strconv.FormatInt(offset, 10) + "-" + last}}
	a, err := c.Do(ctx, q)
	if err != nil {
		return nil, err
	}
	if a.StatusCode == http.StatusPartialContent {
		return a.Body, nil
	}
	a.Body.Close()
	return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: q.Op, Message: "the daemon answers with another part than was asked for"}
}

// WriteFile replaces or makes a file in one step. With exclusive it must not be
// there. ctx bounds how long it may take.
func (c *API) WriteFile(ctx context.Context, name, path string, content io.Reader, exclusive bool) (api.WrittenFile, error) {
	return c.WriteFileWith(ctx, name, path, content, WriteOptions{Exclusive: exclusive})
}

// WriteOptions say how a file is written; the zero value replaces or makes it.
type WriteOptions struct {
	Exclusive bool        // it must not be there
	ETag      string      // it must be there with this content, which is CodeBusy otherwise
	Mode      fs.FileMode // permissions of a new file; 0 is 0644
}

// WriteFileWith is WriteFile with options.
func (c *API) WriteFileWith(ctx context.Context, name, path string, content io.Reader, o WriteOptions) (api.WrittenFile, error) {
	q := Request{Op: "write file", Method: http.MethodPut, Path: one(name, "/files/"+inside(path)), Header: http.Header{"Content-Type": {octets}}, Body: content}
	if o.Exclusive {
		q.Header.Set("If-None-Match", "*")
	}
	if o.ETag != "" {
		q.Header.Set("If-Match", o.ETag)
	}
	if o.Mode != 0 {
		q.Query = url.Values{"mode": {strconv.FormatUint(uint64(o.Mode.Perm()), 8)}}
	}
	var out api.WrittenFile
	err := c.read(ctx, q, &out)
	return out, err
}

// ListFiles returns one page of a folder, in order of names.
func (c *API) ListFiles(ctx context.Context, name, path, cursor string) (api.FileList, error) {
	q := values("list", "true", "cursor", cursor)
	return get[api.FileList](ctx, c, "list files", one(name, "/files/"+inside(path)), q)
}

// StatFile tells of one entry; a link is not followed.
func (c *API) StatFile(ctx context.Context, name, path string) (api.File, error) {
	return c.stat(ctx, name, path, values("stat", "true"))
}

// FollowFile tells of what the entry leads to, where that is a link.
func (c *API) FollowFile(ctx context.Context, name, path string) (api.File, error) {
	return c.stat(ctx, name, path, values("stat", "true", "follow", "true"))
}

func (c *API) stat(ctx context.Context, name, path string, q url.Values) (api.File, error) {
	const op = "stat file"
	l, err := get[api.FileList](ctx, c, op, one(name, "/files/"+inside(path)), q)
	if err == nil && len(l.Items) != 1 {
		err = &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Message: "the daemon has not sent the one entry"}
	}
	if err != nil {
		return api.File{}, err
	}
	return l.Items[0], nil
}

// RemoveFile removes a file, a link or a folder; recursive takes what is in it
// along.
func (c *API) RemoveFile(ctx context.Context, name, path string, recursive bool) error {
	q := url.Values{"recursive": {strconv.FormatBool(recursive)}}
	return c.Call(ctx, Request{Op: "remove file", Method: http.MethodDelete, Path: one(name, "/files/"+inside(path)), Query: q}, nil)
}

// MoveFile renames a file or folder within one mount.
func (c *API) MoveFile(ctx context.Context, name string, r api.MoveFile) (api.File, error) {
	return post[api.File](ctx, c, "move file", one(name, "/files:move"), r)
}

// MakeFolder makes a folder.
func (c *API) MakeFolder(ctx context.Context, name string, r api.MakeFolder) (api.File, error) {
	return post[api.File](ctx, c, "make folder", one(name, "/files:mkdir"), r)
}

// MakeLink makes a symbolic link.
func (c *API) MakeLink(ctx context.Context, name string, r api.MakeLink) (api.File, error) {
	return post[api.File](ctx, c, "make link", one(name, "/files:symlink"), r)
}

// Glob finds files by their names.
func (c *API) Glob(ctx context.Context, name string, r api.Glob) (api.GlobResult, error) {
	return post[api.GlobResult](ctx, c, "glob", one(name, "/files:glob"), r)
}
