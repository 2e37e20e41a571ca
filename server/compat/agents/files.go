package agents

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/compat"
)

// inWorkspace returns a path of the protocol as one of the workspace, where relative ones
// begin. A link in it that leads out is refused by /v1.
func inWorkspace(field, p string) (string, error) {
	if p == "" {
		return "", bad(field, "is empty")
	}
	if strings.ContainsRune(p, 0) {
		return "", bad(field, "has a NUL byte")
	}
	if !path.IsAbs(p) {
		p = sandbox.WorkspaceDir + "/" + p
	}
	p = path.Clean(p)
	if p != sandbox.WorkspaceDir && !strings.HasPrefix(p, sandbox.WorkspaceDir+"/") {
		return "", outside(field)
	}
	return p, nil
}

// path returns the path of the request's file in /v1.
func (c *call) path() (string, error) {
	if c.file == "" {
		return "", bad("path", "is empty")
	}
	p, err := inWorkspace("path", "/"+c.file)
	return compat.Sandbox(c.name, "/files", p), err
}

// The content types of the protocol and of archives in /v1.
const (
	contentBytes = "application/octet-stream"
	contentTar   = "application/x-tar"
)

// asBytes makes an answer of /v1 one of the protocol: clients take other content
// types for other forms.
func asBytes(h http.Header) { h.Set("Content-Type", contentBytes) }

func readFile(c *call) error {
	p, err := c.path()
	if err != nil {
		return err
	}
	a := &compat.Relay{To: c.W, Set: asBytes}
	c.API.ServeHTTP(a, c.Request(c.R.Context(), http.MethodGet, p, nil, nil))
	return a.Err()
}

func writeFile(c *call) error {
	p, err := c.path()
	if err != nil {
		return err
	}
	return c.upload(p, nil, contentBytes, c.R.Body, nil)
}

// upload sends the body of the request, and answers that it was taken when check
// finds no fault with out.
func (c *call) upload(p string, q url.Values, kind string, body io.Reader, out *api.UnpackedArchive) error {
	r := c.Request(c.R.Context(), http.MethodPut, p, q, body)
	r.ContentLength = c.R.ContentLength
	r.Header.Set("Content-Type", kind)
	var err error
	if out == nil {
		err = c.Send(r, nil)
	} else {
		err = c.Send(r, out)
	}
	if err != nil {
		return err
	}
	if out != nil && len(out.Left) > 0 {
		return &compat.Fault{
			Status: http.StatusForbidden, Code: codeUnpack,
			Message: fmt.Sprintf("%d entries of the archive were left out, the others are there: %s: %s", len(out.Left), out.Left[0].Path, out.Left[0].Reason),
		}
	}
	write(c.W, http.StatusOK, map[string]bool{"ok": true})
	return nil
}

func archive(c *call) (string, url.Values) {
	return compat.Sandbox(c.name, "/archive"), url.Values{"path": {sandbox.WorkspaceDir}}
}

func hydrate(c *call) error {
	body := bufio.NewReader(c.R.Body)
	if _, err := body.Peek(1); errors.Is(err, io.EOF) {
		return bad("", "the archive is empty")
	}
	p, q := archive(c)
	return c.upload(p, q, contentTar, body, &api.UnpackedArchive{})
}

// excluded returns the paths that persist leaves out, relative to the workspace.
func excluded(text string) ([]string, error) {
	var out []string
	for one := range strings.SplitSeq(text, ",") {
		switch {
		case one == "":
			continue
		case path.IsAbs(one) || strings.ContainsRune(one, 0):
			return nil, bad("excludes", "must be paths relative to "+sandbox.WorkspaceDir)
		case slices.Contains(strings.Split(one, "/"), ".."):
			return nil, bad("excludes", `a path must not contain ".."`)
		}
		out = append(out, path.Clean(one))
	}
	return out, nil
}

// persist answers with the workspace as a tar archive.
func persist(c *call) error {
	without, err := excluded(c.R.URL.Query().Get("excludes"))
	if err != nil {
		return err
	}
	p, q := archive(c)
	a := &compat.Relay{To: c.W, Set: asBytes}
	var s *sieve
	if len(without) > 0 {
		s = &sieve{to: c.W, without: without}
		a.To = s
		defer s.cut()
	}
	c.API.ServeHTTP(a, c.Request(c.R.Context(), http.MethodGet, p, q, nil))
	for name, values := range a.Header() {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			c.W.Header()[name] = values
		}
	}
	if err := a.Err(); err != nil {
		return err
	}
	if s != nil && s.close() != nil {
		panic(http.ErrAbortHandler) // or the client took the part for the whole
	}
	return nil
}

// A sieve is the answer of /v1 with a tar archive: it passes the archive on without
// some of its entries.
type sieve struct {
	to      http.ResponseWriter
	without []string

	in   *io.PipeWriter // nil before the answer
	done chan error
}

// Header implements [http.ResponseWriter].
func (s *sieve) Header() http.Header { return s.to.Header() }

// WriteHeader implements [http.ResponseWriter].
func (s *sieve) WriteHeader(status int) {
	s.to.WriteHeader(status)
	from, in := io.Pipe()
	s.in, s.done = in, make(chan error, 1)
	go func() {
		err := sift(s.to, from, s.without)
		from.CloseWithError(err) // nil is io.ErrClosedPipe, after the end of the archive
		s.done <- err
	}()
}

// Write implements [http.ResponseWriter].
func (s *sieve) Write(p []byte) (int, error) { return s.in.Write(p) }

// FlushError is for [http.ResponseController].
func (s *sieve) FlushError() error { return nil }

// close waits for the rest of a whole archive. An error means that it is none.
func (s *sieve) close() error {
	if s.in == nil {
		return nil
	}
	s.in.Close()
	err := <-s.done
	s.in = nil
	return err
}

// cut ends an archive that was not closed, as when /v1 has cut its answer.
func (s *sieve) cut() {
	if s.in != nil {
		s.in.CloseWithError(io.ErrUnexpectedEOF)
		<-s.done
	}
}

// sift copies a tar archive without the entries at and below the paths of without. It
// reads r to its end.
func sift(w io.Writer, r io.Reader, without []string) error {
	in, out := tar.NewReader(r), tar.NewWriter(w)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name := path.Clean(h.Name)
		if slices.ContainsFunc(without, func(p string) bool { return p == "." || name == p || strings.HasPrefix(name, p+"/") }) {
			continue
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, r)
	return err
}
