// The placeholder files create the stubs of a sandbox: empty files or folders
// that exist on the host for a while at denied paths that are missing, since a
// mount can close only an existing path.
//
// A stub is recorded in the folder of records before it is created. It is removed
// when the last sandbox that needs it releases it, if it is still the same file,
// empty and unchanged; content that a person or program put in its place, or into
// it, stays. Processes count their use by locks that end with the process, so a
// kill -9 releases them; [Placeholders.Sweep] then removes the leftovers, whatever
// step the process had reached:
//
//	record the name · create it under a random name · record its inode ·
//	rename it, replacing nothing · (use) · rename it back · remove it ·
//	remove the record
//
// The stubs in one folder go through these steps together, and one file holds
// their records, because creating and removing files is the most expensive part.
// Each stub still has its own lock, at an offset of one file that is a digest of
// its path.
//
// Records are not flushed to the disk, which would cost more than the start of a
// sandbox. A power failure right after a stub was created may leave it behind.

package hostscan

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
)

const (
	op = "make place for a mount"

	// retryDelay is the interval at which a call that waits for another process
	// tries again. A process holds the lock only for a few file operations.
	retryDelay = 2 * time.Millisecond
	// patience bounds the waiting of calls without a context.
	patience = time.Minute
)

// Placeholders keeps the records of placeholders. It is safe for concurrent use, also
// by several processes of one user.
type Placeholders struct {
	path string
	// Owned makes stubs that root creates belong to the owner of their folder,
	// so that no files of root lie in a person's folder.
	Owned bool
	step  func() // called between the steps, for tests that end the process there
}

// OpenPlaceholders returns the records in the folder at path and makes the
// folder private.
func OpenPlaceholders(path string) (*Placeholders, error) {
	canonical, err := statedir.MakePrivate(path)
	if err != nil {
		return nil, err
	}
	return &Placeholders{path: canonical, step: func() {}}, nil
}

// A Held is the use of some stubs. It is safe for concurrent use.
type Held struct {
	d     *Placeholders
	locks int // the open lock file, or -1 when nothing is held
	once  sync.Once
	uses  []use
	error error
}

// A use is the use of one stub.
type use struct {
	path   string
	record record
	old    *flock.Flock // shared lock of a stub that an earlier version recorded; mostly nil
}

// Make creates the missing stubs in the given order and holds all of them,
// including those that other users created. Their parents must exist, as
// folders and not behind links.
//
// If another file has appeared at the path of a stub, Make returns an error
// with [sandbox.CodeBusy]: the plan is out of date. After an error nothing is
// held.
func (d *Placeholders) Make(ctx context.Context, placeholders []plan.Placeholder) (*Held, error) {
	h := &Held{d: d, locks: -1}
	if len(placeholders) == 0 {
		return h, nil
	}
	all, err := groups(placeholders)
	if err != nil {
		return nil, err
	}
	unlock, err := d.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if h.locks, err = d.openLocks(); err != nil {
		return nil, err
	}
	for _, g := range all {
		if err := h.take(g); err != nil {
			return nil, errors.Join(err, h.drop())
		}
	}
	return h, nil
}

// Release releases the stubs and removes those that have no other holder.
// Further calls return the result of the first.
func (h *Held) Release() error {
	h.once.Do(func() {
		if h.locks < 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		unlock, err := h.d.lock(ctx)
		if err != nil { // a sweep removes the stubs then
			h.error = errors.Join(err, h.unlock())
			return
		}
		defer unlock()
		h.error = h.drop()
	})
	return h.error
}

// Leave releases the stubs without removing them, because something that
// outlives this process needs them. The caller that learns of its end must call
// [Placeholders.Drop].
func (h *Held) Leave() error {
	h.once.Do(func() {
		if h.locks >= 0 {
			h.error = h.unlock()
		}
	})
	return h.error
}

// Drop removes the stubs at paths that have no holder, the last first.
func (d *Placeholders) Drop(ctx context.Context, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	unlock, err := d.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	locks, err := d.openLocks()
	if err != nil {
		return err
	}
	defer unix.Close(locks)
	return d.dropAll(locks, paths, true)
}

// dropAll removes the stubs at paths that no owner other than locks holds, the
// last folder first, because stubs lie in stubs. If old is true, some stubs may
// have records of earlier versions.
func (d *Placeholders) dropAll(locks int, paths []string, old bool) error {
	var folders []string
	in := map[string][]string{}
	for _, p := range paths {
		f := folderOf(p)
		if in[f] == nil {
			folders = append(folders, f)
		}
		in[f] = append(in[f], p)
	}
	var errs []error
	for _, f := range slices.Backward(folders) {
		_, err := d.clear(locks, key(f), in[f])
		errs = append(errs, err)
		for _, p := range in[f] {
			if old {
				_, err := d.clearOld(key(p))
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// Intact reports whether every stub is still the file that Make took. Removing
// or replacing a stub removes the mount over it in every sandbox: these must be
// rebuilt.
func (h *Held) Intact() bool {
	for _, u := range h.uses {
		if !u.record.there() {
			return false
		}
	}
	return true
}

// Is reports whether an unchanged stub is at path. It costs a few microseconds
// where there is none.
func (d *Placeholders) Is(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	r, ok, err := d.lookUp(path)
	if err != nil || !ok {
		r, err = d.readOld(key(path))
	}
	return err == nil && r.Path == path && r.Ino != 0 && r.there()
}

// there reports whether the stub is in its place and unchanged.
func (r record) there() bool {
	dir, name, err := parent(r.Path)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	return r.isAt(dir, name)
}

// Sweep removes the stubs that no process holds, and returns their paths. It
// continues after errors and joins them.
func (d *Placeholders) Sweep(ctx context.Context) ([]string, error) {
	unlock, err := d.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, statedir.Unavailable("sweep stubs", d.path, err)
	}
	type item struct {
		folder, key string
		old         bool
	}
	var items []item
	var errs []error
	for _, e := range entries {
		if k, ours := strings.CutSuffix(e.Name(), listSuffix); ours {
			i := item{key: k}
			if l, _ := d.list(k); len(l.records) > 0 {
				i.folder = folderOf(l.records[0].Path)
			}
			items = append(items, i)
		} else if k, ours := strings.CutSuffix(e.Name(), oldSuffix); ours {
			i := item{key: k, old: true}
			if r, _ := d.readOld(k); r.Path != "" {
				i.folder = folderOf(r.Path)
			}
			items = append(items, i)
		} else if strings.HasSuffix(e.Name(), newSuffix) { // a crash left it before it replaced its list
			errs = append(errs, os.Remove(filepath.Join(d.path, e.Name())))
		}
	}
	if len(items) == 0 {
		return nil, errors.Join(errs...)
	}
	locks, err := d.openLocks()
	if err != nil {
		return nil, errors.Join(append(errs, err)...)
	}
	defer unix.Close(locks)
	slices.SortFunc(items, func(a, b item) int { return strings.Compare(b.folder, a.folder) }) // placeholders lie in stubs
	var removed []string
	for _, i := range items {
		if i.old {
			path, err := d.clearOld(i.key)
			if path != "" {
				removed = append(removed, path)
			}
			errs = append(errs, err)
			continue
		}
		paths, err := d.clear(locks, i.key, nil)
		removed, errs = append(removed, paths...), append(errs, err)
	}
	return removed, errors.Join(errs...)
}

// lock prevents all other processes and goroutines from creating and removing
// stubs.
func (d *Placeholders) lock(ctx context.Context) (unlock func(), err error) {
	l := flock.New(filepath.Join(d.path, "lock"), flock.SetPermissions(0o600))
	if ok, err := l.TryLockContext(ctx, retryDelay); err != nil || !ok {
		e := sandbox.Errorf(sandbox.CodeUnavailable, op, "the records of placeholders are locked")
		e.Resource, e.Err, e.Retryable = d.path, err, true
		return nil, e
	}
	return func() { l.Unlock() }, nil
}

// drop releases the stubs and removes those that have no other holder. The
// caller has locked the folder of records.
func (h *Held) drop() error {
	paths := make([]string, len(h.uses))
	old := false
	var errs []error
	for i, u := range h.uses {
		paths[i] = u.path
		if u.old != nil {
			old = true
			errs = append(errs, u.old.Unlock())
		}
	}
	errs = append(errs, h.d.dropAll(h.locks, paths, old), h.unlock())
	return errors.Join(errs...)
}

// unlock releases every lock of h. It does so before it closes the file,
// because a process that is being started may briefly have a copy of the
// descriptor.
func (h *Held) unlock() error {
	var errs []error
	for _, u := range h.uses {
		if u.old != nil { // unlocking twice does no harm
			errs = append(errs, u.old.Unlock())
		}
	}
	errs = append(errs, letGo(h.locks), unix.Close(h.locks))
	h.locks = -1
	return errors.Join(errs...)
}

// openFolder opens the folder at path to stat and rename names in it.
func openFolder(path string) (int, error) { return hostpath.Folder(path, hostpath.PathOnly) }

// parent opens the parent folder of path.
func parent(path string) (dir int, name string, err error) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 || path[i+1:] == "" || path[i+1:] == ".." || path[i+1:] == "." {
		return -1, "", sandbox.Errorf(sandbox.CodeValidation, op, "the path %q is not absolute and clean", path)
	}
	dir, err = hostpath.Folder(path[:i]+"/", hostpath.PathOnly)
	return dir, path[i+1:], err
}

func placeholderFailed(path string, err error) error {
	if sandbox.CodeOf(err) != sandbox.CodeInternal {
		return err
	}
	e := sandbox.Errorf(sandbox.CodeUnavailable, op, "a closed path that is missing cannot be kept missing: %w", err)
	e.Resource = path
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EROFS) {
		e.Hint = "make " + filepath.Dir(path) + " writable for this user, or leave it out of what the sandbox may write"
	}
	return e
}
