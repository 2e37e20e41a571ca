package fsbridge

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// Walk calls fn for root and everything below it, folders before what is in
// them and entries in the order of their names. It works as [fs.WalkDir]
// does, with the same meaning of [fs.SkipDir], [fs.SkipAll] and of a second
// call for a folder that cannot be read. Links are reported and not followed.
// Paths are root joined with names and stay as root was given.
//
// A branch whose folders hold entries of more than 64 MiB together, all of
// which would be in memory at once, is [sandbox.CodeBudgetExceeded]. That is
// 550,000 entries with names of usual length, and 190,000 with the longest.
func Walk(ctx context.Context, f sandbox.Files, root string, fn fs.WalkDirFunc) error {
	info, err := f.Stat(ctx, root)
	if err != nil {
		err = fn(root, nil, err)
	} else {
		w := &walker{ctx: ctx, files: f, fn: fn}
		err = w.walk(root, fs.FileInfoToDirEntry(info))
	}
	if errors.Is(err, fs.SkipDir) || errors.Is(err, fs.SkipAll) {
		return nil
	}
	return err
}

const (
	// maxHeld bounds the bytes of the entries that a walk holds: those of the
	// folder that it is in, and of all folders above. Any one folder with names
	// of the greatest length that a guest can list (its listing is of at most
	// 32 MiB) fits.
	maxHeld = 64 << 20
	// entrySize is what an entry of a guest takes in memory beside its name, in
	// bytes: its place in the list, what that refers to, and a [fsinfo.Info].
	entrySize = 16 + 16 + 64
)

// A walker is one walk.
type walker struct {
	ctx   context.Context // of the Walk that it belongs to
	files sandbox.Files
	fn    fs.WalkDirFunc
	held  int // bytes
}

func (w *walker) walk(name string, d fs.DirEntry) error {
	if err := w.fn(name, d, nil); err != nil || !d.IsDir() {
		if errors.Is(err, fs.SkipDir) && d.IsDir() {
			return nil
		}
		return err
	}
	above := w.held
	defer func() { w.held = above }()
	entries, err := w.list(name)
	if err != nil {
		if err = w.fn(name, d, err); err != nil {
			if errors.Is(err, fs.SkipDir) {
				return nil
			}
			return err
		}
	}
	for _, e := range entries {
		if err := w.walk(join(name, e.Name()), e); err != nil {
			if errors.Is(err, fs.SkipDir) {
				break
			}
			return err
		}
	}
	return nil
}

// list returns what is in the folder name, which counts as held then.
func (w *walker) list(name string) ([]fs.DirEntry, error) {
	entries, err := w.files.ReadDir(w.ctx, name)
	size := len(entries) * entrySize
	for _, e := range entries {
		size += len(e.Name())
	}
	if w.held+size > maxHeld {
		return nil, &sandbox.Error{
			Code: sandbox.CodeBudgetExceeded, Op: "walk", Field: "path", Resource: termsafe.Line(name),
			Message: termsafe.Line(name) + " and the folders above it have too many entries", Hint: "walk a part of the tree",
		}
	}
	w.held += size
	return entries, err
}

// join appends a name to a folder's path without cleaning, because ".." in
// the path is for the sandbox to resolve.
func join(dir, name string) string {
	if strings.HasSuffix(dir, "/") {
		return dir + name
	}
	return dir + "/" + name
}

// MkdirAll makes the folder name and its missing parents. A folder that
// exists is fine; anything else of that name is an error.
func MkdirAll(ctx context.Context, f sandbox.Files, name string, perm fs.FileMode) error {
	err := f.Mkdir(ctx, name, perm)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrExist):
		info, statErr := f.Stat(ctx, name)
		if statErr != nil {
			return statErr
		}
		if info.IsDir() {
			return nil
		}
		return err
	case !sandbox.IsNotFound(err):
		// A read-only mount refuses before it looks.
		if info, statErr := f.Stat(ctx, name); statErr == nil && info.IsDir() {
			return nil
		}
		return err
	}
	parent := path.Dir(strings.TrimRight(name, "/"))
	if parent == name || parent == "." || parent == "/" || path.Base(name) == ".." {
		return err
	}
	if err := MkdirAll(ctx, f, parent, perm); err != nil {
		return err
	}
	if err := f.Mkdir(ctx, name, perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
