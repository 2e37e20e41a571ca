package tools

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

// maxLooked is how much of a file read goes through to find and count lines.
const maxLooked = 256 << 20

// sniffed is how many bytes say what a file is.
const sniffed = 8 << 10

// read shows lines of a file, or a picture.
func (c *call) read(ctx context.Context, in schema.Read) (a Answer, err error) {
	err = c.files(ctx, func(f *fsbridge.Bridge) error {
		r, err := c.open(ctx, f, in.Path)
		if err != nil {
			return err
		}
		defer r.Close()
		head, err := r.Peek(sniffed)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if mime := pictureShow(head); mime != "" {
			a, err = pictured(in.Path, mime, r)
			return err
		}
		a, err = numbered(in, r)
		return err
	})
	return a, err
}

// image shows a picture, and nothing else.
func (c *call) image(ctx context.Context, in schema.Image) (a Answer, err error) {
	err = c.files(ctx, func(f *fsbridge.Bridge) error {
		r, err := c.open(ctx, f, in.Path)
		if err != nil {
			return err
		}
		defer r.Close()
		head, err := r.Peek(sniffed)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		mime := pictureShow(head)
		if mime == "" {
			e := &sandbox.Error{Code: sandbox.CodeValidation, Op: "image", Field: "path", Resource: termsafe.Line(in.Path),
				Message: "the file is no picture: PNG, JPEG, GIF and WebP are", Hint: "use read"}
			if kind := kindShow(head); kind != "" {
				e.Message, e.Hint = "the file is "+kind+", and a picture is PNG, JPEG, GIF or WebP", ""
			}
			return e
		}
		a, err = pictured(in.Path, mime, r)
		return err
	})
	return a, err
}

// An opened is a file that is read, with its size when it was opened.
type opened struct {
	*bufio.Reader
	io.Closer
	size int64
}

// open opens a regular file.
func (c *call) open(ctx context.Context, f *fsbridge.Bridge, path string) (*opened, error) {
	info, err := f.Stat(ctx, path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: c.tool, Field: "path", Resource: termsafe.Line(path),
			Message: termsafe.Line(path) + " is a folder", Hint: "list it with ls, or name a file"}
	}
	r, err := f.Read(ctx, path, 0, maxLooked)
	if err != nil {
		return nil, err
	}
	return &opened{bufio.NewReaderSize(r, 64<<10), r, info.Size()}, nil
}

// pictured is the answer with the picture r.
func pictured(path, mime string, r *opened) (Answer, error) {
	data, err := io.ReadAll(io.LimitReader(r, pictureMaxBytes+1))
	if err != nil {
		return Answer{}, err
	}
	size, err := measurePicture(mime, data)
	if err != nil {
		var e *sandbox.Error
		if errors.As(err, &e) {
			e.Field, e.Resource = "path", termsafe.Line(path)
			e.Hint = "make a smaller one of it with a command"
		}
		return Answer{}, err
	}
	return Answer{
		Text:     fmt.Sprintf("%s: %s, %d by %d pixels, %d bytes", nameShow(path), kindShow(data[:min(len(data), sniffed)]), size.Width, size.Height, len(data)),
		Pictures: []Picture{{MIME: mime, Data: data}},
		Data:     schema.ReadResult{Path: path, Kind: "picture", Size: int64(len(data)), MIME: mime, Width: size.Width, Height: size.Height},
	}, nil
}

// numbered is the answer with the lines of the text r.
func numbered(in schema.Read, r *opened) (Answer, error) {
	l, err := linesShow(r, showSpan{Offset: in.Offset, Limit: in.Limit})
	if err != nil {
		return Answer{}, err
	}
	d := schema.ReadResult{
		Path: in.Path, Kind: "text", Size: max(l.Size, r.size), Text: l.Text, First: l.First, Last: l.Last, Lines: l.Total,
		More: l.More, Hint: l.Hint, Notes: l.Notes, Part: l.Size >= maxLooked,
	}
	if d.Part {
		d.Notes = append(d.Notes, fmt.Sprintf("only the first %d bytes of %d were looked at, so there may be more lines; take a part of the file with a command", int64(maxLooked), d.Size))
	}
	if l.Binary != "" {
		d.Kind, d.Hint = "binary", fmt.Sprintf("this is %s of %d bytes, not text; look at it with a command", l.Binary, d.Size)
	}
	return Answer{Text: lines(l.Text, remarks(append([]string{d.Hint}, d.Notes...)...)), Data: d}, nil
}
