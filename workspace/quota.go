package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// MinQuota is the smallest workspaceQuota in bytes; a file system needs some
// of it for itself.
const MinQuota = 4 << 20

// CanBound returns why [Store.Ensure] cannot bound a folder here, or nil.
func CanBound() error { return quotaPossible() }

// BoundBy returns the paths that the answer of CanBound depends on.
func BoundBy() []string { return quotaSources() }

// Used returns how many bytes of the file system at path are taken, how many can be,
// and whether it is one of its own.
func Used(path string) (bytes, size int64, own bool) { return usedOf(path) }

const imageSuffix = ".img"

func (s *Store) imagePath(name string) string {
	return filepath.Join(s.path, quotaDir, name+imageSuffix)
}

func (s *Store) hasImage(name string) bool {
	_, err := os.Lstat(s.imagePath(name))
	return err == nil
}

// ensureQuota makes the workspace of name a file system of quota bytes: an
// ext4 image, sparse, so that it takes no more of the disk than what is in
// it, mounted at the workspace without set-uid programs and devices. The
// folder under the mount belongs to root with no permissions at all, so that
// when the mount is gone (a reboot) the sandbox can write nowhere rather than
// without bound; the next call mounts it again.
//
// An existing workspace without quota cannot get one while it holds files,
// and a quota cannot shrink: both are [sandbox.CodeValidation]. It can grow,
// also while the workspace is in use. Once made, the file system stays when
// the setting goes back to 0, since the files are in it.
//
// It needs root, mkfs.ext4 and loop devices; without them the error is
// [sandbox.CodeUnavailable].
func (s *Store) ensureQuota(ctx context.Context, name string, o Owner, quota int64) error {
	path, image := filepath.Join(s.path, name), s.imagePath(name)
	if quota < 0 || quota > 0 && quota < MinQuota {
		return &sandbox.Error{
			Code: sandbox.CodeValidation, Op: "make workspace", Field: "workspaceQuota", Resource: path,
			Message: fmt.Sprintf("a workspace of %d bytes is too small", quota),
			Hint:    fmt.Sprintf("use at least %d bytes, or 0 for no bound", MinQuota),
		}
	}
	if err := quotaPossible(); err != nil {
		return quotaError(path, err)
	}
	dir, err := s.makeDir(quotaDir)
	if err != nil {
		return err
	}
	// Two processes that mounted one image twice would destroy it, so this
	// does not rely on the caller's lock alone.
	lock, err := keylock.Open(dir).Ensure(ctx, name)
	if err != nil {
		return err
	}
	defer lock.Release()
	if !s.hasImage(name) {
		if err := refuseFilled(path); err != nil {
			return err
		}
		if err := makeImage(ctx, image, quota, o); err != nil {
			return quotaError(path, err)
		}
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return statedir.Unavailable("make workspace", path, err)
	}
	if err := mountImage(ctx, image, path); err != nil {
		return quotaError(path, err)
	}
	// A file system that a killed call left too small is seen here, too.
	if quota > 0 {
		if err := resize(ctx, image, path, quota); err != nil {
			return err
		}
	}
	return s.own(ctx, path, o)
}

// refuseFilled refuses to hide the files of an unbounded workspace under a
// mount.
func refuseFilled(path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return statedir.Unavailable("make workspace", path, err)
	}
	return &sandbox.Error{
		Code: sandbox.CodeValidation, Op: "make workspace", Field: "workspaceQuota", Resource: path,
		Message: path + " holds files already and has no quota",
		Hint:    "move its files away, then put them back; or remove the sandbox and its workspace with: sandbox prune --workspaces",
	}
}

// resize makes the mounted file system have the size quota.
func resize(ctx context.Context, image, path string, quota int64) error {
	have, err := mountedSize(path)
	if err != nil {
		return quotaError(path, err)
	}
	quota = roundQuota(quota)
	switch {
	case have == quota:
		return nil
	case have > quota:
		return &sandbox.Error{
			Code: sandbox.CodeValidation, Op: "make workspace", Field: "workspaceQuota", Resource: path,
			Message: fmt.Sprintf("the workspace was made with %d bytes and cannot shrink to %d", have, quota),
			Hint:    "set workspaceQuota back, or remove the sandbox and its workspace",
		}
	}
	return quotaError(path, growImage(ctx, image, path, quota))
}

// roundQuota rounds down to whole blocks of the file system.
func roundQuota(quota int64) int64 { return quota &^ 4095 }

func (s *Store) removeQuota(ctx context.Context, name string) error {
	if !s.hasImage(name) {
		return nil
	}
	path, image := filepath.Join(s.path, name), s.imagePath(name)
	lock, err := keylock.Open(filepath.Join(s.path, quotaDir)).Ensure(ctx, name)
	if err != nil {
		return err
	}
	defer lock.Release()
	if err := unmountImage(ctx, image, path); err != nil {
		return err
	}
	if err := os.Remove(image); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return statedir.Unavailable("remove workspace", image, err)
	}
	return nil
}

// quotaError says that a workspace cannot be bounded, unless err says more
// already.
func quotaError(path string, err error) error {
	if err == nil {
		return nil
	}
	var known *sandbox.Error
	if errors.As(err, &known) {
		return err
	}
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "make workspace", Field: "workspaceQuota", Resource: path, Err: err,
		Message: "the workspace cannot be given a quota",
		Hint:    "it needs root, mkfs.ext4 (package e2fsprogs) and loop devices; or set workspaceQuota to 0, which bounds nothing",
	}
}
