package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/daemon/api"
)

// octets is the kind of content of a file.
const octets = "application/octet-stream"

// inside is the part of an address that names a file: the path inside without
// its first slash, of which everything that could mean something else is
// escaped. Relative paths are in the workspace.
func inside(path string) string {
	if !strings.HasPrefix(path, "/") {
		path = sandbox.WorkspaceDir + "/" + path
	}
	parts := strings.Split(path[1:], "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}

// ReadFile returns the content of a file, which is to be closed. Its end is the
// file's: one that was cut off is an error of Read. ctx has to last until then.
func (c *Client) ReadFile(ctx context.Context, name, path string) (io.ReadCloser, error) {
	a, err := c.Do(ctx, Request{Op: "read file", Method: http.MethodGet, Path: one(name, "/files/"+inside(path)), Again: true})
	if err != nil {
		return nil, err
	}
	return a.Body, nil
}

// WriteFile replaces or makes a file in one step. With exclusive it must not be
// there.
func (c *Client) WriteFile(ctx context.Context, name, path string, content io.Reader, exclusive bool) (api.WrittenFile, error) {
	h := http.Header{"Content-Type": {octets}}
	if exclusive {
		h.Set("If-None-Match", "*")
	}
	return ask[api.WrittenFile](ctx, c, Request{Op: "write file", Method: http.MethodPut, Path: one(name, "/files/"+inside(path)), Header: h, Body: content})
}

// ListFiles returns one page of a folder, in order of names.
func (c *Client) ListFiles(ctx context.Context, name, path, cursor string) (api.FileList, error) {
	q := values("list", "true", "cursor", cursor)
	return get[api.FileList](ctx, c, "list files", one(name, "/files/"+inside(path)), q)
}

// StatFile tells of one entry; a link is not followed.
func (c *Client) StatFile(ctx context.Context, name, path string) (api.File, error) {
	return get[api.File](ctx, c, "stat file", one(name, "/files/"+inside(path)), values("stat", "true"))
}

// RemoveFile removes a file, a link or a folder; recursive takes what is in it
// along.
func (c *Client) RemoveFile(ctx context.Context, name, path string, recursive bool) error {
	q := url.Values{"recursive": {strconv.FormatBool(recursive)}}
	return c.Call(ctx, Request{Op: "remove file", Method: http.MethodDelete, Path: one(name, "/files/"+inside(path)), Query: q}, nil)
}

// MoveFile renames a file or folder within one mount.
func (c *Client) MoveFile(ctx context.Context, name string, r api.MoveFile) (api.File, error) {
	return post[api.File](ctx, c, "move file", one(name, "/files:move"), r)
}

// MakeFolder makes a folder.
func (c *Client) MakeFolder(ctx context.Context, name string, r api.MakeFolder) (api.File, error) {
	return post[api.File](ctx, c, "make folder", one(name, "/files:mkdir"), r)
}

// Glob finds files by their names.
func (c *Client) Glob(ctx context.Context, name string, r api.Glob) (api.GlobResult, error) {
	return post[api.GlobResult](ctx, c, "glob", one(name, "/files:glob"), r)
}
