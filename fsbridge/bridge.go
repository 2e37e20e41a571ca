package fsbridge

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
)

// A Linker knows symbolic links. A transport that does not is asked in vain:
// the [Bridge] answers [sandbox.CodeUnsupported] for it.
type Linker interface {
	// Lstat describes path itself, also when it is a link.
	Lstat(ctx context.Context, path string) (fs.FileInfo, error)
	// ReadLink returns what the link at path points to, as it is stored.
	ReadLink(ctx context.Context, path string) (string, error)
	// Symlink makes a link at path, which must not exist. The target is
	// not looked at; whatever follows the link later decides.
	Symlink(ctx context.Context, target, path string) error
}

// A Bridge does file operations by any of the names that a file has. It is
// safe for concurrent use when its transport is, and needs no closing.
type Bridge struct {
	table     *MountTable
	files     sandbox.Files
	transport Transport
	inside    bool  // paths of the host are not recognised
	meter     Meter // or nil
	watch     Watch // or nil
	shared    func(host string) bool
	refusal   error // of every change; nil where changes are made
}

// A Meter is paid for what is done through a [Bridge]. It is safe for concurrent
// use. Errors of it, and of what its readers return, end the operation.
type Meter interface {
	// Open is asked before each operation.
	Open() error
	// File is asked before a file is written.
	File() error
	// Names counts the bytes of paths that go in, and of names that come out.
	Names(out, in int64) error
	// In counts the content of files that are read, Out of those written.
	In(r io.Reader) io.Reader
	Out(r io.Reader) io.Reader
}

var (
	_ sandbox.Files       = (*Bridge)(nil)
	_ sandbox.LinkRefuser = (*Bridge)(nil)
	_ sandbox.Clearer     = (*Bridge)(nil)
	_ Linker              = (*Bridge)(nil)
)

// New returns a bridge over files, which takes absolute paths inside and must
// confine each to its mount of table.
func New(table *MountTable, files sandbox.Files, t Transport) *Bridge {
	return &Bridge{table: table, files: files, transport: t}
}

// Transport says how operations reach the sandbox.
func (b *Bridge) Transport() Transport { return b.transport }

// Locate tells which place inside a path names.
func (b *Bridge) Locate(path string) (Place, error) {
	if b.inside {
		return b.table.Inside(path)
	}
	return b.table.Locate(path)
}

// Inside returns a view that takes paths inside alone: a path of the host
// names nothing there. It is for callers that must not learn the paths of
// their folders on the host.
func (b *Bridge) Inside() *Bridge {
	inside := *b
	inside.inside = true
	return &inside
}

// Paying returns a view of which everything is paid for, and so is every view
// of that.
func (b *Bridge) Paying(t Meter) *Bridge {
	paying := *b
	paying.meter = t
	return &paying
}

// OnDisk returns a view whose errors distinguish the machine's full disk from
// a bound of the sandbox; so do all views derived from it. shared reports
// whether a mounted folder of the host lies on a disk with others, which no
// quota bounds. It is called when there is no room.
func (b *Bridge) OnDisk(shared func(host string) bool) *Bridge {
	telling := *b
	telling.shared = shared
	return &telling
}

// Refusing returns a view, and so is every view of that, that returns refusal for
// every change of files or folders, whatever the path, and reads no content for
// it. With nil it returns b.
func (b *Bridge) Refusing(refusal error) *Bridge {
	if refusal == nil {
		return b
	}
	refusing := *b
	refusing.refusal = refusal
	return &refusing
}

// room returns err, or a more precise error if it is the machine that has no
// room at p.
func (b *Bridge) room(p Place, err error) error {
	var known *sandbox.Error
	if b.shared == nil || p.Root.Source == "" || !errors.As(err, &known) || known.Code != sandbox.CodeBudgetExceeded || !errors.Is(known.Err, syscall.ENOSPC) {
		return err
	}
	if !b.shared(p.Root.Source) {
		return err
	}
	return fullFserr(known.Op, p.Path())
}

// place is the place of an operation, which may be done.
func (b *Bridge) place(path string) (Place, error) {
	if b.meter != nil {
		if err := b.meter.Open(); err != nil {
			return Place{}, err
		}
		if err := b.meter.Names(int64(len(path)), 0); err != nil {
			return Place{}, err
		}
	}
	return b.Locate(path)
}

// WithoutLinks implements [sandbox.LinkRefuser]. The view is a Bridge, too,
// which takes paths inside alone: what was judged as a path inside must not be
// one of the host as well.
func (b *Bridge) WithoutLinks() (sandbox.Files, error) {
	r, ok := b.files.(sandbox.LinkRefuser)
	if !ok {
		return nil, lacks("open files without links", "cannot refuse links")
	}
	files, err := r.WithoutLinks()
	if err != nil {
		return nil, err
	}
	plain := b.Inside()
	plain.files = files
	return plain, nil
}

// Clear implements [sandbox.Clearer].
func (b *Bridge) Clear(ctx context.Context, path string) error {
	return b.heard(ctx, OpClear, path, "", func(Hearing) error { return b.clear(ctx, path) })
}

func (b *Bridge) clear(ctx context.Context, path string) error {
	p, err := b.movable("clear", path)
	if err != nil {
		return err
	}
	c, ok := b.files.(sandbox.Clearer)
	if !ok {
		return lacks("clear", "cannot open closed folders")
	}
	return c.Clear(ctx, p.Path())
}

// Read implements [sandbox.Files].
func (b *Bridge) Read(ctx context.Context, path string, offset, limit int64) (io.ReadCloser, error) {
	if b.watch == nil {
		return b.read(ctx, path, offset, limit)
	}
	h, err := b.watch.Begin(ctx, OpRead, b.named(path), "")
	if err != nil {
		return nil, err
	}
	r, err := b.read(ctx, path, offset, limit)
	switch {
	case h == nil:
		return r, err
	case err != nil:
		h.End(ctx, err)
		return nil, err
	}
	return &content{Reader: passing(r, h), file: r, ctx: ctx, h: h}, nil
}

func (b *Bridge) read(ctx context.Context, path string, offset, limit int64) (io.ReadCloser, error) {
	p, err := b.place(path)
	if err != nil {
		return nil, err
	}
	r, err := b.files.Read(ctx, p.Path(), offset, limit)
	if err != nil || b.meter == nil {
		return r, err
	}
	return paid{b.meter.In(r), r}, nil
}

// paid is content that is counted when it is read.
type paid struct {
	io.Reader
	io.ReadCloser
}

func (p paid) Read(b []byte) (int, error) { return p.Reader.Read(b) }

// Stat describes the file, see [sandbox.StatOf].
func (p paid) Stat() (fs.FileInfo, error) { return sandbox.StatOf(p.ReadCloser) }

// Write implements [sandbox.Files].
func (b *Bridge) Write(ctx context.Context, path string, r io.Reader, o sandbox.WriteOptions) error {
	return b.heard(ctx, OpWrite, path, "", func(h Hearing) error { return b.write(ctx, path, passing(r, h), o) })
}

func (b *Bridge) write(ctx context.Context, path string, r io.Reader, o sandbox.WriteOptions) error {
	p, err := b.writable("write", path)
	if err != nil {
		return err
	}
	if b.meter != nil {
		if err := b.meter.File(); err != nil {
			return err
		}
		r = b.meter.Out(r)
	}
	return b.room(p, b.files.Write(ctx, p.Path(), r, o))
}

// CreateExclusive makes the file path with the content of r, and fails with
// fs.ErrExist when something of that name exists.
func (b *Bridge) CreateExclusive(ctx context.Context, path string, r io.Reader, perm fs.FileMode) error {
	return b.Write(ctx, path, r, sandbox.WriteOptions{Perm: perm, Exclusive: true})
}

// Mkdir implements [sandbox.Files]. The parent must exist; see [MkdirAll].
func (b *Bridge) Mkdir(ctx context.Context, path string, perm fs.FileMode) error {
	return b.heard(ctx, OpMkdir, path, "", func(Hearing) error { return b.mkdir(ctx, path, perm) })
}

func (b *Bridge) mkdir(ctx context.Context, path string, perm fs.FileMode) error {
	p, err := b.place(path)
	if err != nil {
		return err
	}
	if p.Rel == "" {
		return NewError("mkdir", p.Path(), syscall.EEXIST)
	}
	if p.Root.ReadOnly {
		return NewError("mkdir", p.Path(), syscall.EROFS)
	}
	return b.room(p, b.files.Mkdir(ctx, p.Path(), perm))
}

// Remove implements [sandbox.Files].
func (b *Bridge) Remove(ctx context.Context, path string, recursive bool) error {
	return b.heard(ctx, OpRemove, path, "", func(Hearing) error { return b.remove(ctx, path, recursive) })
}

func (b *Bridge) remove(ctx context.Context, path string, recursive bool) error {
	p, err := b.movable("remove", path)
	if err != nil {
		return err
	}
	return b.files.Remove(ctx, p.Path(), recursive)
}

// Rename implements [sandbox.Files]. Both names must be in one mount.
func (b *Bridge) Rename(ctx context.Context, from, to string) error {
	return b.heard(ctx, OpRename, from, to, func(Hearing) error { return b.rename(ctx, from, to) })
}

func (b *Bridge) rename(ctx context.Context, from, to string) error {
	p, err := b.movable("rename", from)
	if err != nil {
		return err
	}
	q, err := b.movable("rename", to)
	if err != nil {
		return err
	}
	if p.Root != q.Root {
		return NewError("rename", q.Path(), syscall.EXDEV)
	}
	return b.room(q, b.files.Rename(ctx, p.Path(), q.Path()))
}

// Stat implements [sandbox.Files]. Links are followed within their mount.
func (b *Bridge) Stat(ctx context.Context, path string) (out fs.FileInfo, err error) {
	err = b.heard(ctx, OpStat, path, "", func(Hearing) (err error) {
		out, err = b.stat(ctx, path)
		return err
	})
	return out, err
}

func (b *Bridge) stat(ctx context.Context, path string) (fs.FileInfo, error) {
	p, err := b.place(path)
	if err != nil {
		return nil, err
	}
	return b.files.Stat(ctx, p.Path())
}

// ReadDir implements [sandbox.Files].
func (b *Bridge) ReadDir(ctx context.Context, path string) (out []fs.DirEntry, err error) {
	err = b.heard(ctx, OpList, path, "", func(Hearing) (err error) {
		out, err = b.readDir(ctx, path)
		return err
	})
	return out, err
}

func (b *Bridge) readDir(ctx context.Context, path string) ([]fs.DirEntry, error) {
	p, err := b.place(path)
	if err != nil {
		return nil, err
	}
	list, err := b.files.ReadDir(ctx, p.Path())
	if err != nil || b.meter == nil {
		return list, err
	}
	n := 0
	for _, d := range list {
		n += len(d.Name())
	}
	if err := b.meter.Names(0, int64(n)); err != nil {
		return nil, err
	}
	return list, nil
}

// Lstat implements [Linker].
func (b *Bridge) Lstat(ctx context.Context, path string) (out fs.FileInfo, err error) {
	err = b.heard(ctx, OpStat, path, "", func(Hearing) (err error) {
		out, err = b.lstat(ctx, path)
		return err
	})
	return out, err
}

func (b *Bridge) lstat(ctx context.Context, path string) (fs.FileInfo, error) {
	p, err := b.place(path)
	if err != nil {
		return nil, err
	}
	l, err := b.linker("lstat")
	if err != nil {
		return nil, err
	}
	return l.Lstat(ctx, p.Path())
}

// ReadLink implements [Linker].
func (b *Bridge) ReadLink(ctx context.Context, path string) (out string, err error) {
	err = b.heard(ctx, OpStat, path, "", func(Hearing) (err error) {
		out, err = b.readLink(ctx, path)
		return err
	})
	return out, err
}

func (b *Bridge) readLink(ctx context.Context, path string) (string, error) {
	p, err := b.place(path)
	if err != nil {
		return "", err
	}
	l, err := b.linker("readlink")
	if err != nil {
		return "", err
	}
	target, err := l.ReadLink(ctx, p.Path())
	if err != nil || b.meter == nil {
		return target, err
	}
	if err := b.meter.Names(0, int64(len(target))); err != nil {
		return "", err
	}
	return target, nil
}

// Symlink implements [Linker].
func (b *Bridge) Symlink(ctx context.Context, target, path string) error {
	return b.heard(ctx, OpLink, path, "", func(Hearing) error { return b.symlink(ctx, target, path) })
}

func (b *Bridge) symlink(ctx context.Context, target, path string) error {
	p, err := b.writable("symlink", path)
	if err != nil {
		return err
	}
	l, err := b.linker("symlink")
	if err != nil {
		return err
	}
	if b.meter != nil {
		if err := b.meter.Names(int64(len(target)), 0); err != nil {
			return err
		}
	}
	return b.room(p, l.Symlink(ctx, target, p.Path()))
}

func (b *Bridge) linker(op string) (Linker, error) { return linkerOf(op, b.files) }

func linkerOf(op string, f sandbox.Files) (Linker, error) {
	if l, ok := f.(Linker); ok {
		return l, nil
	}
	return nil, lacks(op, "knows no links")
}

func lacks(op, what string) error {
	return &sandbox.Error{
		Code: sandbox.CodeUnsupported, Op: op, Message: "this sandbox's file transport " + what,
		Hint: `recreate the sandbox to get the current guest; with "fsTransport": "script", set it to "auto" or "guest"`,
	}
}

// writable locates a path that is going to be changed.
func (b *Bridge) writable(op, path string) (Place, error) {
	p, err := b.place(path)
	if err == nil && p.Root.ReadOnly {
		err = NewError(op, p.Path(), syscall.EROFS)
	}
	return p, err
}

// movable locates a path whose name is going to change: not the mount itself.
func (b *Bridge) movable(op, path string) (Place, error) {
	p, err := b.writable(op, path)
	if err == nil && p.Rel == "" {
		err = NewError(op, p.Path(), syscall.EBUSY)
	}
	return p, err
}

// Roots returns the folders in which operations are allowed.
func (b *Bridge) Roots() []mountpathRoot { return b.table.Roots() }
