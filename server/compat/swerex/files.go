package swerex

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/compat"
)

// Bounds of an archive that is unpacked.
const (
	maxEntries  = 100_000
	maxUnpacked = 512 << 20 // bytes in all
)

// inside returns a path as the sandbox has it; relative ones begin in the workspace.
func inside(p string) (string, error) {
	switch {
	case p == "":
		return "", raise(classNotFound, "the path is empty")
	case strings.ContainsRune(p, 0):
		return "", raise(classValue, "embedded null byte")
	case !path.IsAbs(p):
		p = sandbox.WorkspaceDir + "/" + p
	}
	return path.Clean(p), nil
}

func readFile(c *call) (any, error) {
	var in struct {
		Path     string  `json:"path"`
		Encoding *string `json:"encoding"`
		Errors   *string `json:"errors"`
	}
	if err := c.body(&in); err != nil {
		return nil, err
	}
	p, err := inside(in.Path)
	if err != nil {
		return nil, err
	}
	latin := false
	if in.Encoding != nil {
		switch strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(*in.Encoding)) {
		case "utf8":
		case "latin1", "iso88591":
			latin = true
		default:
			return nil, raise(classValue, "the encoding "+*in.Encoding+" is not supported: use utf-8 or latin-1")
		}
	}
	if err := c.sandbox(); err != nil {
		return nil, err
	}
	var content bounded
	a := &compat.Relay{To: &content}
	c.API.ServeHTTP(a, c.Request(c.R.Context(), http.MethodGet, compat.Sandbox(c.box, "/files", p), nil, nil))
	if err := a.Err(); err != nil {
		return nil, fileError(err)
	}
	if content.over {
		return nil, raise(classValue, "the file has more than 16 MiB; read a part of it with a command")
	}
	b := content.Bytes()
	if latin {
		runes := make([]rune, len(b))
		for i, one := range b {
			runes[i] = rune(one)
		}
		return map[string]string{"content": newlines(string(runes))}, nil
	}
	how := "strict"
	if in.Errors != nil {
		how = *in.Errors
	}
	text, err := decode(b, how)
	return map[string]string{"content": newlines(text)}, err
}

// newlines are those of a file that Python reads as text.
func newlines(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

// decode returns bytes as text; how says what becomes of bytes that are no UTF-8.
func decode(b []byte, how string) (string, error) {
	if utf8.Valid(b) {
		return string(b), nil
	}
	switch how {
	case "backslashreplace":
		return backslashes(b), nil
	case "replace":
		return strings.ToValidUTF8(string(b), "\ufffd"), nil
	case "ignore":
		return strings.ToValidUTF8(string(b), ""), nil
	}
	return "", raise(classValue, "the file is no valid UTF-8")
}

// backslashes writes bytes that are no UTF-8 as \xNN.
func backslashes(b []byte) string {
	var s strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			const digits = "0123456789abcdef"
			s.WriteString(`\x`)
			s.WriteByte(digits[b[0]>>4])
			s.WriteByte(digits[b[0]&15])
		} else {
			s.Write(b[:n])
		}
		b = b[n:]
	}
	return s.String()
}

// bounded holds a body up to maxFile bytes.
type bounded struct {
	bytes.Buffer
	head http.Header
	over bool
}

// Header implements [http.ResponseWriter].
func (b *bounded) Header() http.Header {
	if b.head == nil {
		b.head = http.Header{}
	}
	return b.head
}

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

func writeFile(c *call) (any, error) {
	var in struct {
		Content string `json:"content"`
		Path    string `json:"path"`
	}
	if err := c.body(&in); err != nil {
		return nil, err
	}
	p, err := inside(in.Path)
	if err != nil {
		return nil, err
	}
	if err := c.sandbox(); err != nil {
		return nil, err
	}
	return struct{}{}, c.put(p, strings.NewReader(in.Content), int64(len(in.Content)))
}

func (c *call) put(p string, content io.Reader, size int64) error {
	r := c.Request(c.R.Context(), http.MethodPut, compat.Sandbox(c.box, "/files", p), nil, content)
	r.ContentLength = size
	r.Header.Set("Content-Type", "application/octet-stream")
	return fileError(c.Send(r, nil))
}

// upload writes one file, or what a zip archive holds into a folder.
func upload(c *call) (any, error) {
	c.R.Body = http.MaxBytesReader(c.W, c.R.Body, maxUpload)
	parts, err := c.R.MultipartReader()
	if err != nil {
		return nil, unprocessable("the body is no multipart form: " + err.Error())
	}
	var file []byte
	given, fields := false, map[string]string{}
	for {
		part, err := parts.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, formError(err)
		}
		if part.FormName() == "file" {
			if given {
				return nil, unprocessable("file: is there more than once")
			}
			given = true
			file, err = io.ReadAll(part)
		} else {
			err = field(part, fields)
		}
		if err != nil {
			return nil, formError(err)
		}
	}
	target, ok := fields["target_path"]
	if !given || !ok {
		return nil, unprocessable("file and target_path are needed")
	}
	p, err := inside(target)
	if err != nil {
		return nil, err
	}
	unzip := false
	switch strings.ToLower(fields["unzip"]) {
	case "", "false", "0", "no", "off":
	case "true", "1", "yes", "on":
		unzip = true
	default:
		return nil, unprocessable("unzip: is neither true nor false")
	}
	if err := c.sandbox(); err != nil {
		return nil, err
	}
	if !unzip {
		return struct{}{}, c.put(p, bytes.NewReader(file), int64(len(file)))
	}
	z, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, raise(classValue, "file: is no zip archive: "+err.Error())
	}
	if len(z.File) > maxEntries {
		return nil, raise(classValue, "file: the archive has more than 100000 entries")
	}
	return struct{}{}, c.unpack(p, z)
}

// formError is the error of a form that cannot be read.
func formError(err error) error {
	if strings.Contains(err.Error(), "request body too large") {
		return &compat.Fault{Status: http.StatusRequestEntityTooLarge, Message: "at most 64 MiB are uploaded at once"}
	}
	return unprocessable("the form cannot be read: " + err.Error())
}

// field reads a field that is text.
func field(part *multipart.Part, into map[string]string) error {
	b, err := io.ReadAll(io.LimitReader(part, 4097))
	if err != nil {
		return err
	}
	into[part.FormName()] = string(b)
	return nil
}

// unpack writes the files of an archive into a folder.
func (c *call) unpack(folder string, z *zip.Reader) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(asTar(w, z)) }()
	defer r.Close()
	q := c.Request(c.R.Context(), http.MethodPut, compat.Sandbox(c.box, "/archive"), url.Values{"path": {folder}}, r)
	q.Header.Set("Content-Type", "application/x-tar")
	var out struct {
		Left []struct{ Name, Reason string } `json:"left"`
	}
	if err := c.Send(q, &out); err != nil {
		return fileError(err)
	}
	if len(out.Left) > 0 {
		return raise(classDenied, "an entry of the archive was left out: "+out.Left[0].Name+": "+out.Left[0].Reason)
	}
	return nil
}

// asTar writes the folders and files of an archive as another one.
func asTar(to io.Writer, z *zip.Reader) error {
	t, left := tar.NewWriter(to), int64(maxUnpacked)
	for _, f := range z.File {
		h := &tar.Header{Name: f.Name, Mode: 0o644 | int64(f.Mode().Perm()&0o111), ModTime: f.Modified, Typeflag: tar.TypeReg}
		if strings.HasSuffix(f.Name, "/") {
			h.Mode, h.Typeflag = 0o755, tar.TypeDir
			if err := t.WriteHeader(h); err != nil {
				return err
			}
			continue
		}
		content, err := f.Open()
		if err != nil {
			return err
		}
		// The size that the archive says may be wrong, so it is what is read.
		b, err := io.ReadAll(io.LimitReader(content, left+1))
		content.Close()
		if err != nil {
			return err
		}
		if left -= int64(len(b)); left < 0 {
			return raise(classValue, "the archive holds more than 512 MiB")
		}
		h.Size = int64(len(b))
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(b); err != nil {
			return err
		}
	}
	return t.Close()
}
