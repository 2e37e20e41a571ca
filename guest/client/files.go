package client

import (
	"context"
	"io/fs"
	"strings"
	"syscall"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

const (
	// maxListing bounds what one listing may send, in bytes: more than half
	// a million entries with names of usual length.
	maxListing = 32 << 20
	// maxTarget bounds the target of a link in bytes.
	maxTarget = 8 << 10
	// maxInline bounds the writes whose whole content is in the guest's
	// memory while they wait for their turn.
	maxInline = 64
)

// A Spot is where a path lies: the mount's own path inside, and the path
// below it. Nothing is changed in a read-only mount: the kernel holds that,
// too, but may name another reason first, such as who owns a file.
type Spot struct {
	Root, Rel string
	ReadOnly  bool
}

// A Locate tells where the absolute path inside lies. Its errors are returned
// as they are.
type Locate func(path string) (Spot, error)

// Files are the file operations of the guest. Beside those of
// [sandbox.Files] there are Lstat, ReadLink and Symlink. They are safe for
// concurrent use and end with their Client.
//
// Each operation is one round trip, except for content of more than 60 KiB.
// It is done by the guest as the sandbox's user, so that files and commands
// agree, and below the descriptor of the mount; see the package server/files
// of the guest for what that holds against.
//
// When ctx ends the operation is called off in the guest, too. Its error
// then has [sandbox.CodeTimeout] or [sandbox.CodeUnavailable]; a change may
// nevertheless have been made when the guest was too far. A guest that does
// not answer is given up in bounded time, as with commands. What a guest
// says is bounded and checked, and never a name with a slash.
type Files struct {
	c      *Client
	locate Locate
	inline chan struct{} // tokens of writes that are one frame
	plain  bool          // no link is followed
}

var (
	_ sandbox.Files       = (*Files)(nil)
	_ sandbox.LinkRefuser = (*Files)(nil)
	_ sandbox.Clearer     = (*Files)(nil)
)

// Files returns the file operations of the guest. A guest that has none is
// [sandbox.CodeUnsupported].
func (c *Client) Files(locate Locate) (*Files, error) {
	if !c.hello.Has(wire.FeatureFiles) {
		return nil, c.named(&sandbox.Error{
			Code: sandbox.CodeUnsupported, Op: "open files", Message: "the guest serves no files",
			Hint: "recreate the sandbox to get the current guest",
		})
	}
	return &Files{c: c, locate: locate, inline: make(chan struct{}, maxInline)}, nil
}

// WithoutLinks implements [sandbox.LinkRefuser]. A guest that cannot is
// [sandbox.CodeUnsupported].
func (f *Files) WithoutLinks() (sandbox.Files, error) {
	view, err := f.Plain()
	if err != nil {
		return nil, err
	}
	return view, nil
}

// Plain is WithoutLinks.
func (f *Files) Plain() (*Files, error) {
	if err := f.newer("open files without links"); err != nil {
		return nil, err
	}
	view := *f
	view.plain = true
	return &view, nil
}

// newer refuses a guest from before the flags that [wire.FeatureFilesNoLinks]
// names: it would end the connection.
func (f *Files) newer(op string) error {
	if f.c.hello.Has(wire.FeatureFilesNoLinks) {
		return nil
	}
	return f.c.named(&sandbox.Error{
		Code: sandbox.CodeUnsupported, Op: op, Message: "the guest is from before that",
		Hint: "recreate the sandbox to get the current guest",
	})
}

// Note tells people what is less than it could be, or is empty.
func (f *Files) Note() string {
	if f.c.hello.Has(wire.FeatureFilesWalk) {
		return "the kernel has no openat2: the guest follows each path name by name"
	}
	return ""
}

// Stat implements [sandbox.Files].
func (f *Files) Stat(ctx context.Context, path string) (fs.FileInfo, error) {
	return f.stat(ctx, "stat", wire.FileStat, path)
}

// Lstat is like Stat and describes a link itself.
func (f *Files) Lstat(ctx context.Context, path string) (fs.FileInfo, error) {
	return f.stat(ctx, "lstat", wire.FileLstat, path)
}

func (f *Files) stat(ctx context.Context, op string, what wire.FileOp, name string) (fs.FileInfo, error) {
	k, err := f.call(op, name, wire.File{Op: what})
	if err != nil {
		return nil, err
	}
	k.asks = true
	if err := k.do(ctx); err != nil {
		return nil, err
	}
	return k.info(), nil
}

func infoOf(name string, m wire.FileInfo) fsbridge.Info {
	return fsbridge.NewInfo(name, m.Mode, int64(m.Size), time.Unix(m.Seconds, int64(m.Nanos)))
}

// ReadLink returns what the link at path points to, as it is stored.
func (f *Files) ReadLink(ctx context.Context, path string) (string, error) {
	k, err := f.call("readlink", path, wire.File{Op: wire.FileReadLink})
	if err != nil {
		return "", err
	}
	k.asks, k.limit = true, maxTarget
	if err := k.do(ctx); err != nil {
		return "", err
	}
	target := string(k.answer.Content)
	if target == "" || strings.IndexByte(target, 0) >= 0 {
		return "", k.strange("the guest named no target of the link")
	}
	return target, nil
}

// Symlink makes a link at path, which must not exist. The target is not
// looked at; whatever follows the link later decides.
func (f *Files) Symlink(ctx context.Context, target, path string) error {
	if target == "" || strings.IndexByte(target, 0) >= 0 {
		return fsbridge.NewError("symlink", path, syscall.EINVAL)
	}
	if len(target) > maxTarget {
		return fsbridge.NewError("symlink", path, syscall.ENAMETOOLONG)
	}
	return f.change(ctx, "symlink", path, wire.File{Op: wire.FileSymlink, Other: target})
}

// Mkdir implements [sandbox.Files]. Zero perm is 0755.
func (f *Files) Mkdir(ctx context.Context, path string, perm fs.FileMode) error {
	if perm = perm.Perm(); perm == 0 {
		perm = 0o755
	}
	return f.change(ctx, "mkdir", path, wire.File{Op: wire.FileMkdir, Perm: uint32(perm)})
}

// Remove implements [sandbox.Files]. A tree is removed up to the first thing
// in it that cannot be.
func (f *Files) Remove(ctx context.Context, path string, recursive bool) error {
	m := wire.File{Op: wire.FileRemove}
	if recursive {
		m.Flags = wire.FileRecursive
	}
	return f.change(ctx, "remove", path, m)
}

// Clear implements [sandbox.Clearer]. A guest that cannot is
// [sandbox.CodeUnsupported].
func (f *Files) Clear(ctx context.Context, path string) error {
	if err := f.newer("clear"); err != nil {
		return err
	}
	return f.change(ctx, "clear", path, wire.File{Op: wire.FileRemove, Flags: wire.FileRecursive | wire.FileClear})
}

// Rename implements [sandbox.Files]. Both names must be in one mount.
func (f *Files) Rename(ctx context.Context, from, to string) error {
	at, err := f.locate(from)
	if err != nil {
		return err
	}
	goal, err := f.locate(to)
	switch {
	case err != nil:
		return err
	case at.ReadOnly:
		return fsbridge.NewError("rename", from, syscall.EROFS)
	case goal.ReadOnly:
		return fsbridge.NewError("rename", to, syscall.EROFS)
	case at.Root != goal.Root:
		return fsbridge.NewError("rename", to, syscall.EXDEV)
	}
	return f.change(ctx, "rename", from, wire.File{Op: wire.FileRename, Other: goal.Rel})
}

// change does an operation that returns nothing.
func (f *Files) change(ctx context.Context, op, path string, m wire.File) error {
	k, err := f.call(op, path, m)
	if err != nil {
		return err
	}
	return k.do(ctx)
}

// ReadDir implements [sandbox.Files]. Entries describe links themselves and
// need no further question for Info. A folder whose listing is larger than
// 32 MiB is [sandbox.CodeBudgetExceeded].
func (f *Files) ReadDir(ctx context.Context, path string) ([]fs.DirEntry, error) {
	k, err := f.call("readdir", path, wire.File{Op: wire.FileReadDir})
	if err != nil {
		return nil, err
	}
	k.asks, k.flows, k.limit = true, true, maxListing
	if err := k.do(ctx); err != nil {
		return nil, err
	}
	s := newFileStream(ctx, k)
	defer s.Close()
	content, err := s.all()
	if err != nil {
		return nil, err
	}
	list, err := wire.DecodeFileEntries(content)
	if err != nil {
		return nil, k.strange("the guest listed what can be no entry")
	}
	infos := make([]fsbridge.Info, len(list))
	for i, e := range list {
		infos[i] = infoOf(e.Name, e.Info)
	}
	return fsbridge.Entries(fsbridge.Sort(infos)), nil
}
