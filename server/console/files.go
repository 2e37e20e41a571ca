package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
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
	lasting bool   // its name holds the digest of its content
	policy  string // in place of policyText; pages of the console may have it in a frame
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
	script, ok := out["display.js"]
	if !ok || bytes.Contains(script.data, []byte("</script")) {
		return nil, &sandbox.Error{Code: sandbox.CodeInternal, Op: "load console", Resource: "display.js", Message: "it is missing, or cannot be a part of a page", Hint: "make console"}
	}
	delete(out, "display.js")
	out[displayPage] = displayFile(script.data)
	return out, nil
}

// displayPage is the document with the viewer of browsers' displays, which the page of
// the console has in a frame.
const displayPage = "display.html"

// displayFile returns that document. Its policy gives it an origin of its own, also
// where it is opened outside of the frame, and lets it run its one script and request
// nothing: script and style are in the document, because those that it could request
// would have to be open to every origin.
func displayFile(script []byte) file {
	const style = "html,body{margin:0;height:100%;overflow:hidden}"
	page := "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>display</title><style>" + style + "</style><script type=\"module\">" + string(script) + "</script></head><body></body></html>\n"
	source := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	sum := sha256.Sum256([]byte(page))
	return file{
		data: []byte(page), content: contents[".html"], tag: `"` + hex.EncodeToString(sum[:16]) + `"`,
		policy: "default-src 'none'; script-src " + source(string(script)) + "; style-src " + source(style) + "; img-src data: blob:; " +
			"sandbox allow-scripts; frame-ancestors 'self'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
	}
}

// write answers with the file.
func (f file) write(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.content)
	if f.policy != "" {
		h.Set("Content-Security-Policy", f.policy)
		h.Set("X-Frame-Options", "SAMEORIGIN")
	}
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
