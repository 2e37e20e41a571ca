package walls

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/daemon/fault"
	"github.com/bulkhead-dev/sandbox/daemon/stream"
	"github.com/bulkhead-dev/sandbox/daemon/walls/form"
	"github.com/bulkhead-dev/sandbox/fsbridge"
)

// Paths of files are parameters, because there every byte can be written:
//
//	GET  …/files/abilities
//	GET  …/files/content?path&offset&limit       the bytes; PUT …?path&perm&exclusive
//	GET  …/files/stat?path[&link=true]           link describes a link itself
//	GET  …/files/link?path                       what it says
//	GET  …/files/folder?path
//	POST …/files/mkdir?path&perm                 …/remove?path&recursive …/clear?path
//	POST …/files/rename?path&to                  …/symlink?path&to (what the link says)
//
// With plain=true no link is followed.

// open returns the files of the sandbox, as the request wants them.
func (o *handle) open(r *http.Request) (sandbox.Files, url.Values, error) {
	q := r.URL.Query()
	files, err := o.served(r.Context())
	if err != nil || q.Get("plain") != "true" {
		return files, q, err
	}
	l, ok := files.(sandbox.LinkRefuser)
	if !ok {
		return nil, q, unable("do without links")
	}
	files, err = l.WithoutLinks()
	return files, q, err
}

// served returns the files of the sandbox, which are opened once.
func (o *handle) served(ctx context.Context) (sandbox.Files, error) {
	o.mu.Lock()
	files := o.files
	o.mu.Unlock()
	if files != nil {
		return files, nil
	}
	s, ok := o.sb.(sandbox.FileServer)
	if !ok {
		return nil, unable("be served")
	}
	files, err := s.Files(ctx)
	if err == nil {
		o.mu.Lock()
		o.files = files
		o.mu.Unlock()
	}
	return files, err
}

func unable(what string) error {
	return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "files", Message: "files of this sandbox cannot " + what}
}

func abilities(o *handle, r *http.Request) (any, error) {
	files, err := o.served(r.Context())
	if err != nil {
		return nil, err
	}
	var a form.Abilities
	_, a.Links = files.(fsbridge.Linker)
	_, a.Clear = files.(sandbox.Clearer)
	if l, ok := files.(sandbox.LinkRefuser); ok {
		_, err := l.WithoutLinks()
		a.NoLinks = err == nil
	}
	return a, nil
}

func stat(o *handle, r *http.Request) (any, error) {
	files, q, err := o.open(r)
	if err != nil {
		return nil, err
	}
	look := files.Stat
	if q.Get("link") == "true" {
		l, ok := files.(fsbridge.Linker)
		if !ok {
			return nil, unable("be looked at as links")
		}
		look = l.Lstat
	}
	info, err := look(r.Context(), q.Get("path"))
	if err != nil {
		return nil, err
	}
	return form.FileOf(info), nil
}

func readLink(o *handle, r *http.Request) (any, error) {
	files, q, err := o.open(r)
	if err != nil {
		return nil, err
	}
	l, ok := files.(fsbridge.Linker)
	if !ok {
		return nil, unable("be looked at as links")
	}
	target, err := l.ReadLink(r.Context(), q.Get("path"))
	return form.Target{Target: stream.Text(target)}, err
}

func readDir(o *handle, r *http.Request) (any, error) {
	files, q, err := o.open(r)
	if err != nil {
		return nil, err
	}
	entries, err := files.ReadDir(r.Context(), q.Get("path"))
	if err != nil {
		return nil, err
	}
	all := form.Files{Items: make([]form.File, len(entries))}
	for i, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		all.Items[i] = form.FileOf(info)
	}
	return all, nil
}

func changeFiles(o *handle, r *http.Request) (any, error) {
	files, q, err := o.open(r)
	if err != nil {
		return nil, err
	}
	ctx, path := r.Context(), q.Get("path")
	switch r.PathValue("op") {
	case "mkdir":
		perm, err := mode(q)
		if err != nil {
			return nil, err
		}
		return nil, files.Mkdir(ctx, path, perm)
	case "remove":
		return nil, files.Remove(ctx, path, q.Get("recursive") == "true")
	case "rename":
		return nil, files.Rename(ctx, path, q.Get("to"))
	case "clear":
		if c, ok := files.(sandbox.Clearer); ok {
			return nil, c.Clear(ctx, path)
		}
		return nil, unable("be cleared")
	case "symlink":
		if l, ok := files.(fsbridge.Linker); ok {
			return nil, l.Symlink(ctx, q.Get("to"), path)
		}
		return nil, unable("be links")
	}
	return nil, &sandbox.Error{Code: sandbox.CodeNotFound, Op: "files", Message: "there is no such operation"}
}

func mode(q url.Values) (fs.FileMode, error) {
	text := q.Get("perm")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 8, 32)
	if err != nil {
		return 0, &sandbox.Error{Code: sandbox.CodeValidation, Op: "files", Field: "perm", Message: "permissions are not in octal"}
	}
	return fs.FileMode(n), nil
}

func write(o *handle, r *http.Request) (any, error) {
	files, q, err := o.open(r)
	if err != nil {
		return nil, err
	}
	perm, err := mode(q)
	if err != nil {
		return nil, err
	}
	// A body that is cut off ends with an error, so that half a file replaces
	// nothing.
	return nil, files.Write(r.Context(), q.Get("path"), r.Body, sandbox.WriteOptions{Perm: perm, Exclusive: q.Get("exclusive") == "true"})
}

func read(o *handle, w http.ResponseWriter, r *http.Request) {
	ctx, cancel := o.bound(r)
	defer cancel()
	content, err := readable(o, r.WithContext(ctx))
	if err != nil {
		fault.Write(w, err)
		return
	}
	defer content.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Trailer", form.TrailerProblem)
	_, err = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{content}, make([]byte, 64<<10))
	if err == nil {
		return
	}
	if b, fail := json.Marshal(fault.Of(err)); fail == nil {
		w.Header().Set(form.TrailerProblem, string(b))
		return
	}
	panic(http.ErrAbortHandler) // so that nobody takes it for the whole
}

func readable(o *handle, r *http.Request) (io.ReadCloser, error) {
	files, q, err := o.open(r)
	if err != nil {
		return nil, err
	}
	offset, limit := int64(0), int64(-1)
	for name, to := range map[string]*int64{"offset": &offset, "limit": &limit} {
		if text := q.Get(name); text != "" {
			if *to, err = strconv.ParseInt(text, 10, 64); err != nil {
				return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: "read", Field: name, Message: "it is no number"}
			}
		}
	}
	return files.Read(r.Context(), q.Get("path"), offset, limit)
}
