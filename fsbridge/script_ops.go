package fsbridge

import (
	"context"
	"io/fs"
	"strconv"
	"strings"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
)

// Mkdir makes one folder; its parent must exist. Zero perm is 0755.
func (f *scriptFiles) Mkdir(ctx context.Context, path string, perm fs.FileMode) error {
	if perm.Perm() == 0 {
		perm = 0o755
	}
	return f.at(ctx, "mkdir", path, mkdirScript, nil, octal(perm))
}

// Remove removes a file, a link or an empty folder, and with recursive a
// folder with all that is in it. What is not there is
// [sandbox.CodeNotFound] in both cases.
func (f *scriptFiles) Remove(ctx context.Context, path string, recursive bool) error {
	return f.at(ctx, "remove", path, removeScript, nil, flag(recursive))
}

// Clear implements [sandbox.Clearer]: it makes the folders of the tree
// accessible to their owner, the user of the sandbox, one after the other.
func (f *scriptFiles) Clear(ctx context.Context, path string) error {
	return f.at(ctx, "clear", path, clearScript, nil)
}

// Rename gives a file or folder of one mount another name in the same
// mount. A file replaces a file, a folder an empty folder. Links are renamed,
// not followed.
func (f *scriptFiles) Rename(ctx context.Context, from, to string) error {
	a, err := f.table.Inside(from)
	if err != nil {
		return err
	}
	b, err := f.table.Inside(to)
	if err != nil {
		return err
	}
	if a.Root != b.Root {
		return NewError("rename", to, syscall.EXDEV)
	}
	fromDir, fromBase := a.Split()
	toDir, toBase := b.Split()
	return f.run(ctx, call{
		op: "rename", path: from, script: placeScript + renameScript,
		args: []string{a.Root.Target, fromDir, fromBase, toDir, toBase},
	})
}

// ReadLink returns what the link at path points to.
func (f *scriptFiles) ReadLink(ctx context.Context, path string) (string, error) {
	out := &boundedBuffer{max: 8 << 10}
	if err := f.at(ctx, "readlink", path, readlinkScript, out); err != nil {
		return "", err
	}
	target, ok := strings.CutSuffix(out.String(), "\n")
	if !ok || target == "" || strings.IndexByte(target, 0) >= 0 {
		return "", confused("readlink", path, "readlink gave no complete answer")
	}
	return target, nil
}

// Symlink makes a link at path. Where it points to is not looked at: what
// follows it later decides.
func (f *scriptFiles) Symlink(ctx context.Context, target, path string) error {
	if target == "" || strings.IndexByte(target, 0) >= 0 {
		return NewError("symlink", path, syscall.EINVAL)
	}
	return f.at(ctx, "symlink", path, symlinkScript, nil, target)
}

// at runs a script on one path: mount, parent folder and name come first.
func (f *scriptFiles) at(ctx context.Context, op, path, script string, out *boundedBuffer, args ...string) error {
	p, err := f.table.Inside(path)
	if err != nil {
		return err
	}
	dir, base := p.Split()
	c := call{op: op, path: path, script: script, args: append([]string{p.Root.Target, dir, base}, args...)}
	if out != nil {
		c.stdout = out
	}
	if err := f.run(ctx, c); err != nil {
		return err
	}
	if out != nil && out.exceeded() {
		return &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: op, Resource: path, Message: "the answer is too large", Err: errTooMuch}
	}
	return nil
}

func octal(m fs.FileMode) string { return strconv.FormatUint(uint64(m.Perm()), 8) }

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
