package e2b

import (
	"compress/flate"
	"errors"
	"io"
	"mime"
	"mime/multipart"
)

// isFlate reports whether err says that packed data is damaged.
func isFlate(err error) bool {
	var corrupt flate.CorruptInputError
	return errors.As(err, &corrupt)
}

// writeParts writes the files of a multipart body. The path of a file is that of the
// query where there is one, and else the name of its part.
func (c *call) writeParts(body io.Reader, boundary string) ([]wroteFile, error) {
	if boundary == "" {
		return nil, bad("Content-Type", "names no boundary")
	}
	single := c.r.URL.Query().Get("path")
	parts := multipart.NewReader(body, boundary)
	out := []wroteFile{}
	for {
		part, err := parts.NextRawPart()
		switch {
		case errors.Is(err, io.EOF):
			if len(out) == 0 {
				return nil, bad("file", "the body has no part of this name")
			}
			return out, nil
		case err != nil:
			return nil, partError(err)
		case len(out) >= maxParts:
			return nil, bad("file", "the body has too many parts")
		case part.FormName() != "file":
			return nil, bad("file", "the body has a part of another name")
		}
		name := single
		if name == "" {
			name = fileName(part)
		}
		p, err := inside(name)
		if err != nil {
			return nil, err
		}
		if single != "" && len(out) > 0 {
			return nil, bad("path", "names one file, and the body has more")
		}
		content := &partReader{from: part}
		one, err := c.writeOne(c.r.Context(), p, content)
		if content.failed != nil {
			return nil, content.failed
		}
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
}

// fileName returns the whole name of a part: [multipart.Part.FileName] drops its
// folders.
func fileName(p *multipart.Part) string {
	_, params, err := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
	if err != nil {
		return ""
	}
	return params["filename"]
}

// A partReader keeps the error of a part.
type partReader struct {
	from   io.Reader
	failed error
}

func (p *partReader) Read(b []byte) (int, error) {
	n, err := p.from.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		p.failed = partError(err)
	}
	return n, err
}

// partError returns the error of a body whose parts cannot be read.
func partError(err error) error {
	var f *fault
	if errors.As(err, &f) {
		return f
	}
	return bad("", "the body is no multipart/form-data as a whole")
}
