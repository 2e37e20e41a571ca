package sdk

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/bulkhead-dev/sandbox/server/api"
)

// tarball is the kind of content of an archive.
const tarball = "application/x-tar"

// PackArchive returns what is at path as a tar archive, which is to be closed:
// of a folder its content by the names that it has there, of a file that file.
// The archive is complete when it ends with io.EOF; one that was cut off is
// another error of Read. ctx has to last until then. Names, links and contents
// are whatever code inside has made them.
func (c *API) PackArchive(ctx context.Context, name, path string) (io.ReadCloser, error) {
	a, err := c.Do(ctx, Request{Op: "pack archive", Method: http.MethodGet, Path: one(name, "/archive"), Query: url.Values{"path": {path}}, Again: true})
	if err != nil {
		return nil, err
	}
	return a.Body, nil
}

// UnpackArchive makes what a tar archive holds in the folder path, which is made
// when it is missing. What must not arrive is left out and reported; a name that
// leads out ends it, and what came before is there then. The end of ctx ends it
// too.
func (c *API) UnpackArchive(ctx context.Context, name, path string, tar io.Reader) (api.UnpackedArchive, error) {
	var out api.UnpackedArchive
	err := c.read(ctx, Request{
		Op: "unpack archive", Method: http.MethodPut, Path: one(name, "/archive"), Query: url.Values{"path": {path}},
		Header: http.Header{"Content-Type": {tarball}}, Body: tar,
	}, &out)
	return out, err
}
