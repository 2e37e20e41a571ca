package checkpoint

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/workspace"
	"golang.org/x/sys/unix"
)

// A Layer is a folder of files that never changes again.
type Layer struct {
	ID     string          `json:"id"`
	Owner  workspace.Owner `json:"owner"`            // of most of the files
	Weight int             `json:"weight,omitempty"` // how many checkpoints' changes are in it; 0 for a full tree
}

// newID returns a name for a layer or a checkpoint.
func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// checkID reports whether id can be the name of a layer or a checkpoint.
func checkID(id string) bool {
	return len(id) == 16 && strings.Trim(id, "0123456789abcdef") == ""
}

// newFolder is the age from which on a folder in tmp is locked by the process
// that made it, if that lives.
const newFolder = 10 * time.Second

func (s *Store) layerDir(id string) string  { return s.path("data", id) }
func (s *Store) layerFS(id string) string   { return s.path("data", id, "fs") }
func (s *Store) layerWork(id string) string { return s.path("data", id, "work") }

// scratch makes a folder that the next sweep removes, unless this process lives
// and has not called done.
func (s *Store) scratch(kind string) (dir string, done func(), err error) {
	dir = s.path("tmp", kind+"-"+newID())
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", nil, statedir.Unavailable("open checkpoints", dir, err)
	}
	f, err := os.Open(dir)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		return "", nil, errors.Join(statedir.Unavailable("open checkpoints", dir, err), os.Remove(dir))
	}
	return dir, func() {
		unlock(f) // the removal locks it
		_ = s.discard(dir)
	}, nil
}

// unlock gives the lock of f up and closes it. To close it alone would leave the lock
// to a program that is being started, which has a copy of f until it runs.
func unlock(f *os.File) {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	f.Close()
}

// discard removes a folder with all it holds. It loses its name at once.
func (s *Store) discard(dir string) error {
	trash := newID()
	if err := os.Rename(dir, s.path("trash", trash)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return statedir.Unavailable("remove layer", dir, err)
	}
	return s.removeTree(context.Background(), trash)
}

// removeTree removes a folder of the trash, unless another process does so.
func (s *Store) removeTree(ctx context.Context, name string) error {
	f, err := openFolder(s.path("trash", name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return statedir.Unavailable("remove layer", s.path("trash", name), err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil //nolint:nilerr // the process that has it locked removes it
	}
	defer unlock(f)
	root, err := os.OpenRoot(s.path("trash"))
	if err != nil {
		return statedir.Unavailable("remove layer", s.path("trash"), err)
	}
	defer root.Close()
	err = workspace.RemoveTree(ctx, root, name)
	return statedir.Unavailable("remove layer", s.path("trash", name), err)
}

// newUpper makes an empty upper folder whose root has the mode and the owner
// of a workspace.
func (s *Store) newUpper(id string, mode fs.FileMode, o workspace.Owner) error {
	for _, p := range []string{s.layerDir(id), s.layerFS(id), s.layerWork(id)} {
		if err := os.Mkdir(p, 0o700); err != nil {
			return statedir.Unavailable("make layer", p, err)
		}
	}
	dir := s.layerFS(id)
	if os.Geteuid() == 0 {
		if err := os.Lchown(dir, o.UID, o.GID); err != nil {
			return statedir.Unavailable("make layer", dir, err)
		}
	}
	return statedir.Unavailable("make layer", dir, os.Chmod(dir, mode))
}

// references returns the layers and notes that heads and records refer to. It is called
// under the lock of the references.
func (s *Store) references() (map[string]bool, error) {
	refs := map[string]bool{}
	heads, err := s.heads()
	if err != nil {
		return nil, err
	}
	for _, h := range heads {
		h.refer(refs)
	}
	records, err := s.records()
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		r.refer(refs)
	}
	return refs, nil
}

// sweep removes the layers that nothing refers to, and what killed processes
// have left.
func (s *Store) sweep(ctx context.Context) error {
	lock, err := s.lockRefs(ctx)
	if err != nil {
		return err
	}
	err = s.unlink()
	if e := lock.Release(); err == nil && e != nil {
		err = statedir.Unavailable("remove layer", s.dir, e)
	}
	if err != nil {
		return err
	}
	// What has lost its name is removed without the lock.
	trash, err := os.ReadDir(s.path("trash"))
	if err != nil {
		return statedir.Unavailable("remove layer", s.path("trash"), err)
	}
	for _, e := range trash {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.removeTree(ctx, e.Name()); err != nil {
			return err
		}
	}
	return nil
}

// unlink moves to the trash what nothing refers to.
func (s *Store) unlink() error {
	refs, err := s.references()
	if err != nil {
		return err
	}
	layers, err := os.ReadDir(s.path("data"))
	if err != nil {
		return statedir.Unavailable("remove layer", s.path("data"), err)
	}
	for _, e := range layers {
		if refs[e.Name()] {
			continue
		}
		s.detachSpare(s.layerDir(e.Name()))
		if err := os.Rename(s.layerDir(e.Name()), s.path("trash", newID())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return statedir.Unavailable("remove layer", s.layerDir(e.Name()), err)
		}
	}
	if err := s.unlinkBases(refs); err != nil {
		return err
	}
	tmp, err := os.ReadDir(s.path("tmp"))
	if err != nil {
		return statedir.Unavailable("remove layer", s.path("tmp"), err)
	}
	for _, e := range tmp {
		p := s.path("tmp", e.Name())
		// A new folder may not be locked yet.
		if fi, err := e.Info(); err != nil || s.o.Now().Sub(fi.ModTime()) < newFolder || !abandoned(p) {
			continue
		}
		// A probe that was killed may have left its mount.
		for view := filepath.Join(p, string(Overlay), "view"); isMounted(view); {
			if detach(view) != nil {
				break
			}
		}
		s.detachSpare(p)
		if err := os.Rename(p, s.path("trash", newID())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return statedir.Unavailable("remove layer", p, err)
		}
	}
	return nil
}

// detachSpare unmounts what a killed process has left mounted in a folder.
func (s *Store) detachSpare(dir string) {
	names, _ := readNames(dir, 100)
	for _, n := range names {
		for p := filepath.Join(dir, n); strings.HasPrefix(n, sparePrefix) && isMounted(p) && detach(p) == nil; {
		}
	}
}

// unlinkBases moves to the trash the notes that nothing refers to.
func (s *Store) unlinkBases(refs map[string]bool) error {
	bases, err := os.ReadDir(s.path("bases"))
	if err != nil {
		return statedir.Unavailable("remove layer", s.path("bases"), err)
	}
	for _, e := range bases {
		if refs[e.Name()] {
			continue
		}
		p := s.basesDir(e.Name())
		if err := os.Rename(p, s.path("trash", newID())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return statedir.Unavailable("remove layer", p, err)
		}
	}
	return nil
}

// abandoned reports whether the process that made the folder p is gone.
func abandoned(p string) bool {
	f, err := os.Open(p)
	if err != nil {
		return false
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		f.Close()
		return false
	}
	unlock(f)
	return true
}

func isMounted(path string) bool {
	list, err := mountsAt(path)
	return err == nil && len(list) > 0
}

// A layerInfo is what is known of a layer, as layer.json.
type layerInfo struct {
	Files int64 `json:"files"` // entries, folders included
	Bytes int64 `json:"bytes"` // on the disk; a file that other layers have too counts in the first of them
}

func (s *Store) infoPath(id string) string { return filepath.Join(s.layerDir(id), "layer.json") }

// sizeOf measures a layer that does not change any more. The first call walks
// over it.
func (s *Store) sizeOf(ctx context.Context, id string) (layerInfo, error) {
	var info layerInfo
	if ok, err := readJSON(s.infoPath(id), &info); err != nil || ok {
		return info, err
	}
	dir := s.layerFS(id)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return info, nil
	}
	u, err := workspace.DiskUsage(ctx, dir)
	if err != nil {
		return info, err
	}
	info = layerInfo{Files: u.Files, Bytes: u.Bytes}
	return info, writeJSON(s.infoPath(id), info)
}

// copyLayer runs c into the folder fs of dir, which becomes a layer.
func (s *Store) copyLayer(ctx context.Context, c *copier, dir string, means Means) (copied, error) {
	tree := filepath.Join(dir, "fs")
	if err := os.Mkdir(tree, 0o700); err != nil {
		return copied{}, err
	}
	dst, err := openFolder(tree)
	if err != nil {
		return copied{}, err
	}
	defer dst.Close()
	c.dst, c.clone, c.hash = dst, means == Reflink, means != Reflink
	done, err := c.run(ctx)
	if err != nil {
		return copied{}, err
	}
	if err := writeManifest(filepath.Join(dir, "manifest"), "", done.entries); err != nil {
		return copied{}, err
	}
	return done, writeJSON(filepath.Join(dir, "layer.json"), layerInfo{Files: int64(len(done.entries)), Bytes: done.bytes})
}

func (s *Store) manifestPath(id string) string { return filepath.Join(s.layerDir(id), "manifest") }
