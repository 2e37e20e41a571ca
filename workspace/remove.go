package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// trashPrefix begins the names of folders that are being removed. Their
// number is how many seconds after 1970 the removal began.
const trashPrefix = ".trash-"

// staleTrash is the age at which the trash of a killed process is taken over.
const staleTrash = time.Hour

// Remove removes the workspace at path with all it holds, and its file system
// if it has a quota. Removing what is gone is not an error.
//
// It refuses, with [sandbox.CodeCapabilityBlocked], every path that is not a
// workspace made by [Store.Ensure] of this store, and so every agent's
// folder. The sandbox must be gone. The folder loses its name and its notes
// at once and is emptied afterwards, so a workspace of the same name that is
// made meanwhile stays whole; a removal that is killed half-way is finished
// by a later one.
func (s *Store) Remove(ctx context.Context, path string) error {
	const op = "remove workspace"
	name := filepath.Base(path)
	clean := filepath.Clean(path) == path && filepath.Dir(path) == s.path
	if !clean || statedir.CheckName(name) != nil {
		return refuseRemoval(path, "is not a workspace below "+s.path)
	}
	m, err := s.readMeta(name)
	if err != nil {
		return err
	}
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return statedir.Unavailable(op, path, err)
	case !fi.IsDir():
		return refuseRemoval(path, "is not a folder")
	case m.MadeAt.IsZero():
		return refuseRemoval(path, "was not made by this program")
	}
	if err := s.removeQuota(ctx, name); err != nil {
		return err
	}
	root, err := os.OpenRoot(s.path)
	if err != nil {
		return statedir.Unavailable(op, s.path, err)
	}
	defer root.Close()
	var trash string
	if fi != nil {
		trash = trashPrefix + strconv.FormatInt(time.Now().Unix(), 10) + "-" + rand.Text()
		if err := root.Mkdir(trash, 0o700); err != nil {
			return statedir.Unavailable(op, path, err)
		}
		if err := moveDir(root, name, trash+"/0"); err != nil {
			return errors.Join(statedir.Unavailable(op, path, err), root.Remove(trash))
		}
	}
	if err := s.forget(name, m); err != nil {
		return err
	}
	if trash != "" {
		if err := empty(ctx, root, trash); err != nil {
			return statedir.Unavailable(op, filepath.Join(s.path, trash), err)
		}
	}
	s.emptyStaleTrash(ctx, root)
	return nil
}

// forget removes the notes about a workspace unless they are about another one
// than was, made under the same name since.
func (s *Store) forget(name string, was meta) error {
	now, err := s.readMeta(name)
	if err != nil {
		return err
	}
	if !now.MadeAt.Equal(was.MadeAt) {
		return nil
	}
	path := s.metaPath(name)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return statedir.Unavailable("remove workspace", path, err)
	}
	return nil
}

func refuseRemoval(path, message string) error {
	return &sandbox.Error{
		Code: sandbox.CodeCapabilityBlocked, Op: "remove workspace", Resource: path,
		Message: path + " " + message,
		Hint:    "remove it by hand if it is not needed",
	}
}

// emptyStaleTrash finishes removals that were killed. Its failures are left
// to the next one.
func (s *Store) emptyStaleTrash(ctx context.Context, root *os.Root) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), trashPrefix)
		seconds, _, _ := strings.Cut(rest, "-")
		began, err := strconv.ParseInt(seconds, 10, 64)
		if ok && err == nil && time.Since(time.Unix(began, 0)) > staleTrash {
			_ = empty(ctx, root, e.Name())
		}
	}
}

// RemoveTree removes the folder name of root with all it holds, whatever
// untrusted code has made in it: folders may be nested to any depth and deny
// their owner access. Nothing may use the folder meanwhile.
func RemoveTree(ctx context.Context, root *os.Root, name string) error {
	if _, err := root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return empty(ctx, root, name)
}

// empty removes the folder trash with all it holds. Folders found on the way
// are first moved up into trash under a number, so that a tree of any depth
// needs two open folders at a time and no recursion: a sandbox can nest
// deeper than descriptors, stack or the length of a path allow.
func empty(ctx context.Context, root *os.Root, trash string) error {
	bin, err := root.OpenRoot(trash)
	if err != nil {
		return err
	}
	defer bin.Close()
	numbers, err := fs.ReadDir(bin.FS(), ".")
	if err != nil {
		return err
	}
	var queue []string
	next := 0
	for _, e := range numbers {
		queue = append(queue, e.Name())
		if n, err := strconv.Atoi(e.Name()); err == nil && n >= next {
			next = n + 1
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		dir := queue[0]
		err := drain(ctx, bin, dir, func(sub string) error {
			name := strconv.Itoa(next)
			if err := moveDir(bin, dir+"/"+sub, name); err != nil {
				return err
			}
			next++
			queue = append(queue, name)
			return nil
		})
		if err != nil {
			return err
		}
		if err := bin.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return root.Remove(trash)
}

// drain unlinks what is in the folder dir and hands its folders to move.
func drain(ctx context.Context, bin *os.Root, dir string, move func(sub string) error) error {
	unlock(bin, dir)
	sub, err := Dir(bin, dir)
	if errors.Is(err, ErrChanged) {
		return nil // not a folder: Remove unlinks it
	}
	if err != nil {
		return err
	}
	defer sub.Close()
	for {
		// Entries go while we read, so each round begins anew.
		f, err := sub.Open(".")
		if err != nil {
			return err
		}
		entries, err := f.ReadDir(readBatch)
		f.Close()
		if len(entries) == 0 {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				return err
			}
			if e.IsDir() {
				err = move(e.Name())
			} else {
				err = sub.Remove(e.Name())
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
}

// moveDir renames a folder. One that denies its owner to write is unlocked
// first, as a folder that changes its parent has to be written to.
func moveDir(root *os.Root, from, to string) error {
	err := root.Rename(from, to)
	if errors.Is(err, fs.ErrPermission) {
		unlock(root, from)
		err = root.Rename(from, to)
	}
	return err
}

// unlock gives the owner back the access to a folder that the sandbox may
// have taken away. Root needs none, and a failure shows later.
func unlock(root *os.Root, dir string) {
	fi, err := root.Lstat(dir)
	if err != nil || !fi.IsDir() || fi.Mode().Perm()&0o700 == 0o700 || os.Geteuid() == 0 {
		return
	}
	_ = root.Chmod(dir, 0o700)
}
