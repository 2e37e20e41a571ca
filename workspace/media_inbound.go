package workspace

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

const (
	tmpPrefix = ".sandbox-media-"
	maxTries  = numbered + 8
	chunk     = 128 << 10 // bytes
)

// An inbound is the open folder that files are staged in.
type inbound struct {
	work, dir *os.Root
	owner     Owner
}

func (in *inbound) close() {
	in.dir.Close()
	in.work.Close()
}

// openInbound opens the folder of the workspace and makes what is missing of
// it, for the sandbox's user. A link, or anything else that is no folder, is
// refused and left where it is: the sandbox put it there, and what it meant
// by that is not ours to undo.
func openInbound(where string, o Owner) (*inbound, error) {
	work, err := openWorkspace(where)
	if err != nil {
		return nil, err
	}
	dir, err := work.OpenRoot(".")
	at := sandbox.WorkspaceDir
	for _, part := range []string{mediaDir, inboundDir} {
		if err != nil {
			break
		}
		at = path.Join(at, part)
		var next *os.Root
		next, err = subfolder(dir, part, o)
		dir.Close()
		dir = next
	}
	if err != nil {
		work.Close()
		return nil, inside(at, err)
	}
	return &inbound{work: work, dir: dir, owner: o}, nil
}

// openWorkspace opens the workspace. The folders around it are the
// orchestrator's alone, so that looking for links in them before is enough.
func openWorkspace(where string) (*os.Root, error) {
	work, err := openCanonical(where)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &sandbox.Error{
			Code: sandbox.CodeNotFound, Op: opStage, Resource: where,
			Message: "the sandbox has no workspace yet", Hint: "make it first: workspace.Store.Ensure does", Err: cause(err),
		}
	}
	if err != nil {
		return nil, &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: opStage, Resource: where,
			Message: "cannot open the workspace without following links", Err: cause(err),
		}
	}
	return work, nil
}

// openCanonical opens the folder at an absolute path of which no part is a
// link.
func openCanonical(where string) (*os.Root, error) {
	before, err := os.Lstat(where)
	if err != nil {
		return nil, err
	}
	if canonical, err := filepath.EvalSymlinks(where); err != nil || canonical != where || !before.IsDir() {
		return nil, errors.Join(ErrChanged, err)
	}
	dir, err := os.OpenRoot(where)
	if err != nil {
		return nil, err
	}
	if after, err := dir.Stat("."); err != nil || !os.SameFile(before, after) {
		dir.Close()
		return nil, errors.Join(ErrChanged, err)
	}
	return dir, nil
}

// subfolder opens the folder name in dir, or makes it and gives it to o.
func subfolder(dir *os.Root, name string, o Owner) (*os.Root, error) {
	err := dir.Mkdir(name, 0o755)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	made := err == nil
	sub, err := Dir(dir, name)
	if err != nil || !made {
		return sub, err
	}
	f, err := sub.Open(".")
	if err == nil {
		err = errors.Join(f.Chmod(0o755), f.Chown(o.UID, o.GID), f.Close())
	}
	if err != nil {
		sub.Close()
		return nil, err
	}
	return sub, nil
}

// receive copies r to a temporary file, at most one byte beyond limit, and
// notes in a what came. The file is the orchestrator's alone until all is in
// it, then the sandbox's.
func (in *inbound) receive(ctx context.Context, a *arrival, r io.Reader, info Info, limit int64) error {
	tmp := tmpPrefix + rand.Text()
	f, err := in.dir.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return inside(InboundDir, err)
	}
	a.tmp = tmp
	defer f.Close()
	if info.Size >= 0 {
		limit = min(limit, info.Size)
	}
	head, err := pour(ctx, f, io.LimitReader(r, limit+1), a)
	if err != nil {
		return err
	}
	if info.Size >= 0 && a.staged.Size != info.Size {
		return &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: opStage, Resource: a.staged.Ref, Retryable: true,
			Message: fmt.Sprintf("%q changed while it was copied", a.staged.Ref), Hint: "stage it when it is complete",
		}
	}
	a.staged.MIME = sniff(head)
	if a.file, err = f.Stat(); err == nil {
		err = errors.Join(f.Chown(in.owner.UID, in.owner.GID), f.Chmod(0o644), f.Sync())
	}
	return inside(InboundDir, err)
}

// pour copies r to f, and returns the beginning of the content.
func pour(ctx context.Context, f *os.File, r io.Reader, a *arrival) (head []byte, err error) {
	sum := sha256.New()
	buf := make([]byte, chunk)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, err := r.Read(buf)
		if len(head) < sniffed {
			head = append(head, bytes.Clone(buf[:min(n, sniffed-len(head))])...)
		}
		sum.Write(buf[:n])
		a.staged.Size += int64(n)
		if _, err := f.Write(buf[:n]); err != nil {
			return nil, inside(InboundDir, err)
		}
		if errors.Is(err, io.EOF) {
			a.staged.SHA256 = hex.EncodeToString(sum.Sum(nil))
			return head, nil
		}
		if err != nil {
			return nil, reading(a.staged.Ref, err)
		}
	}
}

// reading says that the source failed. Errors of a source are its own.
func reading(ref string, err error) error {
	var ours *sandbox.Error
	if errors.As(err, &ours) {
		return err
	}
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: opStage, Resource: ref, Retryable: true,
		Message: fmt.Sprintf("cannot read %q", ref), Err: cause(err),
	}
}

// place gives a its name and returns it. A name that is taken, by whatever,
// stays what it is, and the next one is tried.
func (in *inbound) place(a *arrival) (base string, err error) {
	name := cleanName(a.staged.Original)
	for i := range maxTries {
		base = name.try(i, strings.ToLower(rand.Text()[:10]))
		if err = in.dir.Link(a.tmp, base); err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", inside(InboundDir, err)
		}
	}
	if err != nil {
		return "", &sandbox.Error{
			Code: sandbox.CodeBusy, Op: opStage, Resource: InboundDir, Retryable: true,
			Message: fmt.Sprintf("%d names for the file are all taken", maxTries),
		}
	}
	if err := in.dir.Remove(a.tmp); err == nil {
		a.tmp = ""
	}
	return base, nil
}

// confirm checks once more, starting at the workspace: each name that the
// result reports must be the file that was written, whatever the sandbox has
// moved meanwhile.
func (in *inbound) confirm(list []Staged, got []*arrival) error {
	dir, err := Descend(in.work, path.Join(mediaDir, inboundDir))
	if err != nil {
		return inside(InboundDir, err)
	}
	defer dir.Close()
	for i, s := range list {
		fi, err := dir.Lstat(path.Base(s.Path))
		if err != nil || !os.SameFile(fi, got[i].file) {
			return refused(s.Ref, "%s was exchanged by the sandbox while the file was staged", s.Path)
		}
	}
	return nil
}
