package tarstream

import (
	"archive/tar"
	"context"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/fsbridge/fserr"
	"github.com/bulkhead-dev/sandbox/termsafe"
)

// Pack writes the file or tree at root to w as a tar archive. The names in
// it are relative: "." for root itself when it is a folder, else the file's
// name. Links are packed as links and not followed. Pipes, sockets and
// devices have no content and are left out; skipped, which may be nil, is
// called for each. Owners are not kept.
func Pack(ctx context.Context, f sandbox.Files, root string, w io.Writer, limits Limits, skipped func(path string)) error {
	p := &packer{ctx: ctx, files: f, out: tar.NewWriter(w), count: count{limits: limits.orDefaults()}, skipped: skipped}
	err := fsbridge.Walk(ctx, f, root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		inner := strings.TrimPrefix(strings.TrimPrefix(name, root), "/")
		if inner == "" {
			inner = "."
			if !d.IsDir() {
				inner = path.Base(root)
			}
		}
		return p.add(name, inner, info)
	})
	if err != nil {
		return err
	}
	return p.out.Close()
}

type packer struct {
	ctx     context.Context // of the one Pack that it belongs to
	files   sandbox.Files
	out     *tar.Writer
	count   count
	skipped func(string)
}

func (p *packer) add(name, inner string, info fs.FileInfo) error {
	h := &tar.Header{Name: inner, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(), Format: tar.FormatPAX}
	switch info.Mode().Type() {
	case 0:
		h.Typeflag, h.Size = tar.TypeReg, info.Size()
	case fs.ModeDir:
		h.Typeflag, h.Name = tar.TypeDir, inner+"/"
	case fs.ModeSymlink:
		target, err := p.readLink(name)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, target
	default:
		if p.skipped != nil {
			p.skipped(name)
		}
		return nil
	}
	if err := p.count.add("pack", name, h.Size); err != nil {
		return err
	}
	if h.Typeflag != tar.TypeReg {
		return p.out.WriteHeader(h)
	}
	return p.file(name, h)
}

func (p *packer) readLink(name string) (string, error) {
	l, ok := p.files.(fsbridge.Linker)
	if !ok {
		return "", fserr.Irregular("pack", name)
	}
	return l.ReadLink(p.ctx, name)
}

// file packs a regular file at the size that its header tells: what it has
// grown by since then is left out, and one that has shrunk is an error.
func (p *packer) file(name string, h *tar.Header) error {
	r, err := p.files.Read(p.ctx, name, 0, h.Size)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := p.out.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.CopyN(p.out, r, h.Size)
	if err == io.EOF && n < h.Size {
		return &sandbox.Error{
			Code: sandbox.CodeBusy, Op: "pack", Resource: termsafe.Line(name), Retryable: true,
			Message: termsafe.Line(name) + " became shorter while it was packed", Err: io.ErrUnexpectedEOF,
		}
	}
	return err
}
