package copy

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// Why [Pack] leaves out what is below its root.
const (
	leftIrregular = "it is a pipe, a socket or a device"
	leftRemoved   = "it was removed while the tree was packed"
	leftClosed    = "it is closed: "

	// LeftDeep is why a folder is left out whose path is longer than [MaxPath].
	leftDeep = "its path is longer than 4095 bytes"
)

// Pack writes the file or tree at root to w as a tar archive. The names in
// it are relative: "." for root itself when it is a folder, else the file's
// name. Links are packed as links and not followed. Owners are not kept.
//
// PackTree leaves out pipes, sockets and devices, which have no content, and
// what a rule closes (see [fsbridge.Rule]). It also leaves out a file that is
// removed after its folder was listed, such as the temporary file of a writer
// that replaces another: the archive is as if the removal had come first.
// PackTree calls left, which may be nil, for each of these with the reason. If
// root itself or the sandbox disappears, PackTree returns an error.
func PackTree(ctx context.Context, f sandbox.Files, root string, w io.Writer, limits Limits, left func(path, reason string)) error {
	if left == nil {
		left = func(string, string) {}
	}
	p := &packer{ctx: ctx, files: f, root: root, out: tar.NewWriter(w), count: count{limits: limits.orDefaults()}, left: left}
	if err := fsbridge.Walk(ctx, f, root, p.visit); err != nil {
		return err
	}
	return p.out.Close()
}

type packer struct {
	ctx   context.Context // of the one Pack that it belongs to
	files sandbox.Files
	root  string
	out   *tar.Writer
	count count
	left  func(path, reason string)
}

// visit packs one entry of the tree.
func (p *packer) visit(name string, d fs.DirEntry, err error) error {
	if len(name) > maxPath {
		p.left(briefTarstream(name), leftDeep)
		if d != nil && d.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	if err != nil {
		return p.unlessRemoved(name, err)
	}
	info, err := d.Info()
	if err != nil {
		return p.unlessRemoved(name, err)
	}
	inner := strings.TrimPrefix(strings.TrimPrefix(name, p.root), "/")
	if inner == "" {
		inner = "."
		if !d.IsDir() {
			inner = path.Base(p.root)
		}
	}
	return p.add(name, inner, info)
}

// Brief cuts a path to a length that a person can read: its beginning and its
// last name.
func briefTarstream(name string) string {
	const most = 120
	base := path.Base(name)
	if len(name) <= most+len(base) {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "…/" + base
}

// unlessRemoved returns err, which says why name could not be read, unless
// that is only because it has been removed or is closed. What says so is not believed
// alone: of a sandbox that is gone nothing is there.
func (p *packer) unlessRemoved(name string, err error) error {
	if name != p.root && fsbridge.IsClosed(err) {
		p.left(name, leftClosed+message(err))
		return nil
	}
	if name == p.root || !sandbox.IsNotFound(err) {
		return err
	}
	if _, err := p.files.Stat(p.ctx, p.root); err != nil {
		return err
	}
	p.left(name, leftRemoved)
	return nil
}

// message is what err says, without what stands around it.
func message(err error) string {
	if e, is := errors.AsType[*sandbox.Error](err); is {
		return e.Message
	}
	return err.Error()
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
			return p.unlessRemoved(name, err)
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, target
	default:
		p.left(name, leftIrregular)
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
		return "", fsbridge.Irregular("pack", name)
	}
	return l.ReadLink(p.ctx, name)
}

// file packs a regular file at the size that its header tells: what it has
// grown by since then is left out, and one that has shrunk is an error.
func (p *packer) file(name string, h *tar.Header) error {
	r, err := p.files.Read(p.ctx, name, 0, h.Size)
	if err != nil {
		return p.unlessRemoved(name, err)
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
