package e2b

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/compat"
)

// inside returns a path of the protocol as an absolute one inside. Relative paths
// are in the workspace, where commands begin.
func inside(p string) (string, error) {
	switch {
	case p == "":
		return "", bad("path", "is missing")
	case strings.ContainsRune(p, 0):
		return "", bad("path", "has a NUL byte")
	case p == "~" || strings.HasPrefix(p, "~/"):
		return "", bad("path", "begins with ~, which is not replaced; name the folder, or leave it out for "+sandbox.WorkspaceDir)
	}
	if !path.IsAbs(p) {
		p = sandbox.WorkspaceDir + "/" + p
	}
	return path.Clean(p), nil
}

// filePath returns the path of a file in /v1.
func (c *call) filePath(p string) string { return box(c.name, "/files/", strings.TrimPrefix(p, "/")) }

// health answers whether the sandbox runs: SDKs take 502 for one that does not.
func (d *Translator) health(w http.ResponseWriter, r *http.Request) {
	c := callOf(r.Context())
	s, err := c.find()
	if err != nil {
		refuseEnvd(w, r, err)
		return
	}
	if s.Status != sandbox.StatusRunning {
		refuse(w, &fault{status: http.StatusBadGateway, message: "the sandbox is not running: it is " + string(s.Status)})
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// envs answers GET /envs: the variables that commands get.
func (d *Translator) envs(w http.ResponseWriter, r *http.Request) {
	c := callOf(r.Context())
	var out api.ExecResult
	if err := c.do(r.Context(), http.MethodPost, box(c.name, "/exec"), nil, api.Exec{Args: []string{"env", "-0"}}, &out); err != nil {
		refuseEnvd(w, r, err)
		return
	}
	text := out.Stdout
	if out.StdoutBase64 != nil {
		text = string(out.StdoutBase64)
	}
	envs := map[string]string{}
	for pair := range strings.SplitSeq(text, "\x00") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			envs[name] = value
		}
	}
	write(w, http.StatusOK, envs)
}

func (d *Translator) readFile(w http.ResponseWriter, r *http.Request) {
	c := callOf(r.Context())
	if err := d.read(c, r); err != nil {
		refuseEnvd(w, r, err)
	}
}

func (d *Translator) read(c *call, r *http.Request) error {
	if err := c.fileUser(); err != nil {
		return err
	}
	p, err := inside(r.URL.Query().Get("path"))
	if err != nil {
		return err
	}
	in := c.request(r.Context(), r.Method, c.filePath(p), nil, nil)
	for _, name := range []string{"Range", "If-Range", "If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since"} {
		if v := r.Header.Values(name); len(v) > 0 {
			in.Header[name] = v
		}
	}
	a := &compat.Relay{To: c.w, Set: func(h http.Header) {
		h.Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": path.Base(p)}))
	}}
	c.api.ServeHTTP(a, in)
	return ours(a.Err())
}

// wroteFile is one file in the answer of POST /files.
type wroteFile struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Path string `json:"path"`
}

// maxParts bounds the files of one request.
const maxParts = 10_000

func (d *Translator) writeFiles(w http.ResponseWriter, r *http.Request) {
	c := callOf(r.Context())
	out, err := d.writeAll(c, r)
	if err != nil {
		refuseEnvd(w, r, err)
		return
	}
	write(w, http.StatusOK, out)
}

func (d *Translator) writeAll(c *call, r *http.Request) ([]wroteFile, error) {
	if err := c.fileUser(); err != nil {
		return nil, err
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Metadata-") {
			return nil, unsupported("metadata of a file")
		}
	}
	body := io.Reader(r.Body)
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
	case "gzip":
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			return nil, bad("Content-Encoding", "the body is not packed with gzip")
		}
		body = &unpacking{from: unpacked}
	default:
		return nil, &fault{status: http.StatusUnsupportedMediaType, message: "the body is packed in a way that this server does not know; send it as it is, or with gzip"}
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err == nil && kind == "application/octet-stream":
		p, err := inside(r.URL.Query().Get("path"))
		if err != nil {
			return nil, err
		}
		one, err := c.writeOne(r.Context(), p, body)
		return []wroteFile{one}, err
	case err == nil && kind == "multipart/form-data":
		return c.writeParts(body, params["boundary"])
	}
	return nil, &fault{status: http.StatusUnsupportedMediaType, message: "the body is neither multipart/form-data nor application/octet-stream"}
}

// writeOne writes one file.
func (c *call) writeOne(ctx context.Context, p string, content io.Reader) (wroteFile, error) {
	r := c.request(ctx, http.MethodPut, c.filePath(p), url.Values{}, content)
	r.Header.Set("Content-Type", "application/octet-stream")
	a := &answer{}
	c.api.ServeHTTP(a, r)
	if u, ok := content.(*unpacking); ok && u.failed != nil {
		return wroteFile{}, u.failed
	}
	if err := a.err(); err != nil {
		return wroteFile{}, err
	}
	return wroteFile{Name: path.Base(p), Type: "file", Path: p}, nil
}

// An unpacking is a body that is packed with gzip. It keeps the error of a body that
// is not: /v1 would report a request that ended too early.
type unpacking struct {
	from   *gzip.Reader
	failed error
}

func (u *unpacking) Read(p []byte) (int, error) {
	n, err := u.from.Read(p)
	if errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || isFlate(err) || errors.Is(err, io.ErrUnexpectedEOF) {
		u.failed = bad("Content-Encoding", "the body is not packed with gzip as a whole")
		err = u.failed
	}
	return n, err
}
