package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// dist is what make console builds from the folder web.
//
//go:embed dist
var dist embed.FS

// A file is one of the console.
type file struct {
	data    []byte
	content string
	tag     string
	lasting bool // its name holds the digest of its content
}

// contents are the types of files that the console has. There is no other.
var contents = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".woff2": "font/woff2",
}

// load returns the files by their paths below [Path].
func load() (map[string]file, error) {
	out := map[string]file{}
	err := fs.WalkDir(dist, "dist", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := dist.ReadFile(name)
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(name, "dist/")
		content, known := contents[path.Ext(rel)]
		if !known {
			return &sandbox.Error{Code: sandbox.CodeInternal, Op: "load console", Resource: rel, Message: "the type of the file is not known"}
		}
		sum := sha256.Sum256(data)
		out[rel] = file{data: data, content: content, tag: `"` + hex.EncodeToString(sum[:16]) + `"`, lasting: strings.HasPrefix(rel, "assets/")}
		return nil
	})
	if err != nil {
		return nil, err
	}
	index, ok := out["index.html"]
	if !ok {
		return nil, &sandbox.Error{Code: sandbox.CodeInternal, Op: "load console", Message: "the page is missing", Hint: "make console"}
	}
	out[""] = index
	return out, nil
}

// write answers with the file.
func (f file) write(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.content)
	h.Set("ETag", f.tag)
	h.Set("Cache-Control", "no-cache")
	if f.lasting {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(f.data)))
	if r.Method != http.MethodHead {
		_, _ = bytes.NewReader(f.data).WriteTo(w) // an error means that the client has gone
	}
}
