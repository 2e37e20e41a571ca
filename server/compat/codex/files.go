package codex

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/compat"
)

// A location is a path of the protocol: absolute, or a URL of the scheme file.
type location string

// UnmarshalJSON implements [json.Unmarshaler].
func (l *location) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	if strings.HasPrefix(text, "file:") {
		u, err := url.Parse(text)
		if err != nil {
			return err
		}
		if u.Host != "" && u.Host != "localhost" {
			return errors.New("the path is on another machine")
		}
		text = u.Path
	}
	if !path.IsAbs(text) || strings.ContainsRune(text, 0) {
		return errors.New("the path is not absolute, or has a NUL byte")
	}
	*l = location(path.Clean(text))
	return nil
}

func (l location) file(s *connection) string { return compat.Sandbox(s.box, "/files", string(l)) }

// A placed is a request about one path.
type placed struct {
	Path      location `json:"path"`
	Recursive *bool    `json:"recursive"`
	Force     *bool    `json:"force"`
	Data      []byte   `json:"dataBase64"`
	Sandbox   inner    `json:"sandbox"`
}

func (s *connection) placed(params json.RawMessage) (placed, error) {
	var in placed
	if err := decode(params, &in); err != nil {
		return in, err
	}
	if in.Path == "" {
		return in, bad("path: is missing")
	}
	return in, in.Sandbox.refuse()
}

// stat describes an entry of /v1.
func (s *connection) stat(l location, follow bool) (api.File, error) {
	q := url.Values{"stat": {"true"}}
	if follow {
		q.Set("follow", "true")
	}
	var out api.FileList
	err := s.Do(s.ctx, http.MethodGet, l.file(s), q, nil, &out)
	if err == nil && len(out.Items) != 1 {
		err = errors.New("not one entry")
	}
	if err != nil {
		return api.File{}, err
	}
	return out.Items[0], nil
}

func (s *connection) readFile(params json.RawMessage) (any, error) {
	in, err := s.placed(params)
	if err != nil {
		return nil, err
	}
	b, err := s.content(in.Path)
	return map[string]any{"dataBase64": b}, err
}

// content reads a file.
func (s *connection) content(l location) ([]byte, error) {
	body := bounded{Buffer: &bytes.Buffer{}, head: http.Header{}}
	a := &compat.Relay{To: &body}
	s.API.ServeHTTP(a, s.Request(s.ctx, http.MethodGet, l.file(s), nil, nil))
	if err := a.Err(); err != nil {
		return nil, err
	}
	if body.over {
		return nil, &failure{codeInvalid, "the file has more than 16 MiB"}
	}
	return append([]byte{}, body.Bytes()...), nil
}

// bounded holds the body of an answer up to maxFile bytes.
type bounded struct {
	*bytes.Buffer
	head http.Header
	over bool
}

// Header implements [http.ResponseWriter].
func (b *bounded) Header() http.Header { return b.head }

// WriteHeader implements [http.ResponseWriter].
func (b *bounded) WriteHeader(int) {}

// Write implements [http.ResponseWriter].
func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxFile {
		b.over = true
		return 0, io.ErrShortWrite
	}
	return b.Buffer.Write(p)
}

func (s *connection) writeFile(params json.RawMessage) (any, error) {
	in, err := s.placed(params)
	if err != nil {
		return nil, err
	}
	return struct{}{}, s.put(in.Path, in.Data)
}

func (s *connection) put(l location, data []byte) error {
	r := s.Request(s.ctx, http.MethodPut, l.file(s), nil, bytes.NewReader(data))
	r.ContentLength = int64(len(data))
	r.Header.Set("Content-Type", "application/octet-stream")
	return s.Send(r, nil)
}

func (s *connection) createDirectory(params json.RawMessage) (any, error) {
	in, err := s.placed(params)
	if err != nil {
		return nil, err
	}
	parents := in.Recursive == nil || *in.Recursive
	return struct{}{}, s.Do(s.ctx, http.MethodPost, compat.Sandbox(s.box, "/files:mkdir"), nil, api.MakeFolder{Path: string(in.Path), Parents: parents}, nil)
}

func (s *connection) getMetadata(params json.RawMessage) (any, error) {
	in, err := s.placed(params)
	if err != nil {
		return nil, err
	}
	link, err := s.stat(in.Path, false)
	if f, ok := errors.AsType[*compat.Fault](err); ok && f.Code == sandbox.CodeCapabilityBlocked && above(in.Path) {
		// Codex looks for its files in every folder above, and takes any other error as
		// the end of its work.
		return nil, &failure{codeNotFound, "only files of " + sandbox.WorkspaceDir + " are shown"}
	}
	if err != nil {
		return nil, err
	}
	e := link
	if link.Type == "symlink" {
		if e, err = s.stat(in.Path, true); err != nil {
			e = link
		}
	}
	at := max(e.ModifiedAt.UnixMilli(), 0)
	return map[string]any{
		"isDirectory": e.Type == "dir", "isFile": e.Type == "file", "isSymlink": link.Type == "symlink", "size": e.Size, "createdAtMs": at, "modifiedAtMs": at,
	}, nil
}

// above reports whether a path is an entry of a folder above the workspace.
func above(l location) bool { return strings.HasPrefix(sandbox.WorkspaceDir, path.Dir(string(l))) }

func (s *connection) canonicalize(params json.RawMessage) (any, error) {
	in, err := s.placed(params)
	if err != nil {
		return nil, err
	}
	out, err := s.output("realpath", "-e", "--", string(in.Path))
	if err != nil {
		return nil, err
	}
	return map[string]string{"path": toURI(strings.TrimSuffix(out, "\n"))}, nil
}

// output runs a program of the sandbox, and returns what it writes.
func (s *connection) output(args ...string) (string, error) {
	var out api.ExecResult
	if err := s.Do(s.ctx, http.MethodPost, compat.Sandbox(s.box, "/exec"), nil, api.Exec{Args: args}, &out); err != nil {
		return "", err
	}
	if out.ExitCode != 0 {
		code := codeInvalid
		if strings.Contains(out.Stderr, "No such file") {
			code = codeNotFound
		}
		return "", &failure{code, strings.TrimSpace(out.Stderr)}
	}
	return out.Stdout, nil
}

func (s *connection) readDirectory(params json.RawMessage) (any, error) {
	in, err := s.placed(params)
	if err != nil {
		return nil, err
	}
	entries, cursor := []map[string]any{}, ""
	for {
		q := url.Values{"list": {"true"}}
		if cursor != "" {
			q.Set("cursor", cursor)
		}
		var page api.FileList
		if err := s.Do(s.ctx, http.MethodGet, in.Path.file(s), q, nil, &page); err != nil {
			return nil, err
		}
		for _, e := range page.Items {
			entries = append(entries, map[string]any{"fileName": e.Name, "isDirectory": e.Type == "dir", "isFile": e.Type == "file", "isSymlink": e.Type == "symlink"})
		}
		if cursor = page.Next; cursor == "" {
			return map[string]any{"entries": entries}, nil
		}
		if len(entries) >= maxEntries {
			return nil, &failure{codeInvalid, "the folder has more than 10000 entries"}
		}
	}
}

func (s *connection) remove(params json.RawMessage) (any, error) {
	in, err := s.placed(params)
	if err != nil {
		return nil, err
	}
	q := url.Values{}
	if in.Recursive == nil || *in.Recursive {
		q.Set("recursive", "true")
	}
	err = s.Do(s.ctx, http.MethodDelete, in.Path.file(s), q, nil, nil)
	if f, ok := errors.AsType[*compat.Fault](err); ok && f.Code == sandbox.CodeNotFound && f.About != s.box && (in.Force == nil || *in.Force) {
		err = nil
	}
	return struct{}{}, err
}

func (s *connection) copy(params json.RawMessage) (any, error) {
	var in struct {
		Source      location `json:"sourcePath"`
		Destination location `json:"destinationPath"`
		Recursive   bool     `json:"recursive"`
		Sandbox     inner    `json:"sandbox"`
	}
	if err := decode(params, &in); err != nil {
		return nil, err
	}
	if in.Source == "" || in.Destination == "" {
		return nil, bad("sourcePath, destinationPath: both are needed")
	}
	if err := in.Sandbox.refuse(); err != nil {
		return nil, err
	}
	e, err := s.stat(in.Source, true)
	if err != nil {
		return nil, err
	}
	if e.Type != "dir" {
		data, err := s.content(in.Source)
		if err != nil {
			return nil, err
		}
		return struct{}{}, s.put(in.Destination, data)
	}
	if !in.Recursive {
		return nil, bad("recursive: is needed to copy a folder")
	}
	if in.Destination == in.Source || strings.HasPrefix(string(in.Destination), string(in.Source)+"/") {
		return nil, bad("destinationPath: is inside of the folder")
	}
	return struct{}{}, s.copyFolder(in.Source, in.Destination)
}

// copyFolder passes the archive of a folder on to where it is unpacked.
func (s *connection) copyFolder(from, to location) error {
	ctx, done := context.WithTimeout(s.ctx, 10*time.Minute)
	defer done()
	r, w := io.Pipe()
	q := s.Request(ctx, http.MethodPut, compat.Sandbox(s.box, "/archive"), url.Values{"path": {string(to)}}, r)
	q.Header.Set("Content-Type", "application/x-tar")
	packed := make(chan error, 1)
	go func() {
		a := &compat.Relay{To: pipe{w, http.Header{}}}
		s.API.ServeHTTP(a, s.Request(ctx, http.MethodGet, compat.Sandbox(s.box, "/archive"), url.Values{"path": {string(from)}}, nil))
		err := a.Err()
		w.CloseWithError(err)
		packed <- err
	}()
	err := s.Send(q, nil)
	r.CloseWithError(io.ErrClosedPipe)
	return errors.Join(<-packed, err)
}

// A pipe is an answer that another request sends.
type pipe struct {
	io.Writer
	head http.Header
}

// Header implements [http.ResponseWriter].
func (p pipe) Header() http.Header { return p.head }

// WriteHeader implements [http.ResponseWriter].
func (pipe) WriteHeader(int) {}
