// This file serves the files of a sandbox over HTTP with the interface of
// sandbox.Files, with paths and links byte for byte, for clients of this
// project; package client has the client. The server that mounts it
// decides which files a request may use.
//
// Paths of files are parameters, because there every byte can be written:
//
//	GET  …/files/abilities
//	GET  …/files/content?path&offset&limit       the bytes; PUT …?path&perm&exclusive
//	GET  …/files/stat?path[&link=true]           link describes a link itself
//	GET  …/files/link?path                       the target of the link
//	GET  …/files/folder?path
//	POST …/files/mkdir?path&perm                 …/remove?path&recursive …/clear?path
//	POST …/files/rename?path&to                  …/symlink?path&to (the target of the link)
//
// With plain=true no link is followed.

package resource

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

// A remotefilesFind returns the files that a request is about. ctx bounds their
// use; done is called after that and when the answer was written.
type remotefilesFind func(r *http.Request) (files sandbox.Files, ctx context.Context, done func(), err error)

// A remotefilesTell returns an error as the sender of the request may see it; a
// nil Tell hides nothing.
type remotefilesTell func(r *http.Request, err error) error

func (t remotefilesTell) of(r *http.Request, err error) error {
	if t == nil || err == nil {
		return err
	}
	return t(r, err)
}

// A remotefilesRequest is an HTTP request with its files.
type remotefilesRequest struct {
	sandbox.Files
	ctx  context.Context
	http *http.Request
	q    url.Values
	path string
}

// Mount serves files below prefix, which is a pattern of [http.ServeMux].
func Mount(mux *http.ServeMux, prefix string, find remotefilesFind, tell remotefilesTell) {
	for pattern, do := range map[string]func(*remotefilesRequest) (any, error){
		"GET /abilities": abilities, "GET /stat": stat, "GET /link": readLink, "GET /folder": readDir,
		"PUT /content": write, "POST /{op}": changeFile,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+prefix+path, func(w http.ResponseWriter, r *http.Request) {
			q, done, err := openRemotefiles(find, r)
			if err != nil {
				api.Write(w, tell.of(r, err))
				return
			}
			defer done()
			v, err := do(q)
			api.Answer(w, v, tell.of(r, err))
		})
	}
	mux.HandleFunc("GET "+prefix+"/content", func(w http.ResponseWriter, r *http.Request) {
		q, done, err := openRemotefiles(find, r)
		if err != nil {
			api.Write(w, tell.of(r, err))
			return
		}
		defer done()
		read(w, q, tell)
	})
}

// Lists reports whether a request that was passed to a [Find] lists a folder,
// whose entries are held in memory until the answer was written.
func Lists(r *http.Request) bool { return strings.HasSuffix(r.Pattern, "/folder") }

// openRemotefiles finds the files that r is about, with its options.
func openRemotefiles(find remotefilesFind, r *http.Request) (*remotefilesRequest, func(), error) {
	files, ctx, done, err := find(r)
	if err != nil {
		return nil, nil, err
	}
	q := &remotefilesRequest{Files: files, ctx: ctx, http: r, q: r.URL.Query()}
	q.path = q.q.Get("path")
	if q.q.Get("plain") != "true" {
		return q, done, nil
	}
	l, ok := files.(sandbox.LinkRefuser)
	if !ok {
		err = unable("do without links")
	} else {
		q.Files, err = l.WithoutLinks()
	}
	if err != nil {
		done()
	}
	return q, done, err
}

func unable(what string) error {
	return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "files", Message: "files of this sandbox cannot " + what}
}

func abilities(q *remotefilesRequest) (any, error) {
	var a stream.Abilities
	_, a.Links = q.Files.(fsbridge.Linker)
	_, a.Clear = q.Files.(sandbox.Clearer)
	if l, ok := q.Files.(sandbox.LinkRefuser); ok {
		_, err := l.WithoutLinks()
		a.NoLinks = err == nil
	}
	return a, nil
}

func stat(q *remotefilesRequest) (any, error) {
	look := q.Stat
	if q.q.Get("link") == "true" {
		l, ok := q.Files.(fsbridge.Linker)
		if !ok {
			return nil, unable("be looked at as links")
		}
		look = l.Lstat
	}
	info, err := look(q.ctx, q.path)
	if err != nil {
		return nil, err
	}
	return stream.FileOf(info), nil
}

func readLink(q *remotefilesRequest) (any, error) {
	l, ok := q.Files.(fsbridge.Linker)
	if !ok {
		return nil, unable("be looked at as links")
	}
	target, err := l.ReadLink(q.ctx, q.path)
	return stream.Target{Target: stream.Text(target)}, err
}

func readDir(q *remotefilesRequest) (any, error) {
	entries, err := q.ReadDir(q.ctx, q.path)
	if err != nil {
		return nil, err
	}
	all := stream.Files{Items: make([]stream.File, len(entries))}
	for i, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		all.Items[i] = stream.FileOf(info)
	}
	return all, nil
}

func changeFile(q *remotefilesRequest) (any, error) {
	files, ctx, path := q.Files, q.ctx, q.path
	switch q.http.PathValue("op") {
	case "mkdir":
		perm, err := mode(q.q)
		if err != nil {
			return nil, err
		}
		return nil, files.Mkdir(ctx, path, perm)
	case "remove":
		return nil, files.Remove(ctx, path, q.q.Get("recursive") == "true")
	case "rename":
		return nil, files.Rename(ctx, path, q.q.Get("to"))
	case "clear":
		if c, ok := q.Files.(sandbox.Clearer); ok {
			return nil, c.Clear(ctx, path)
		}
		return nil, unable("be cleared")
	case "symlink":
		if l, ok := q.Files.(fsbridge.Linker); ok {
			return nil, l.Symlink(ctx, q.q.Get("to"), path)
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

func write(q *remotefilesRequest) (any, error) {
	perm, err := mode(q.q)
	if err != nil {
		return nil, err
	}
	// A body that is cut off ends with an error, so that an incomplete file
	// replaces nothing.
	return nil, q.Write(q.ctx, q.path, q.http.Body, sandbox.WriteOptions{Perm: perm, Exclusive: q.q.Get("exclusive") == "true"})
}

func read(w http.ResponseWriter, q *remotefilesRequest, tell remotefilesTell) {
	content, err := q.content()
	if err != nil {
		api.Write(w, tell.of(q.http, err))
		return
	}
	defer content.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Trailer", stream.TrailerProblem)
	_, err = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{content}, make([]byte, 64<<10))
	if err == nil {
		return
	}
	if b, fail := json.Marshal(api.Of(tell.of(q.http, err))); fail == nil {
		w.Header().Set(stream.TrailerProblem, string(b))
		return
	}
	panic(http.ErrAbortHandler) // so that the client does not take it for the whole
}

func (q *remotefilesRequest) content() (io.ReadCloser, error) {
	offset, limit := int64(0), int64(-1)
	for name, to := range map[string]*int64{"offset": &offset, "limit": &limit} {
		if text := q.q.Get(name); text != "" {
			var err error
			if *to, err = strconv.ParseInt(text, 10, 64); err != nil {
				return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: "read", Field: name, Message: "it is no number"}
			}
		}
	}
	return q.Read(q.ctx, q.path, offset, limit)
}
