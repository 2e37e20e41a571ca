// Stub: this part of the package makes what a wall needs to exist on the host for a while:
// an empty file or folder where a denied path is missing, since a mount can
// close only what is there.
//
// Each stub is recorded in a folder of ours before it is made, and removed
// when the last wall that needs it lets go, if it is still the same thing,
// empty and untouched. What a person or program put in its place, or into it,
// stays. Users in several processes count by locks that die with them, so
// after a kill -9 nothing is held any more; [Dir.Sweep] then removes what was
// left behind, whatever step the process was at:
//
//	record the name · make the thing under a random name · record its inode ·
//	rename it, replacing nothing · (use) · rename it back · remove it ·
//	remove the record
//
// The stubs in one folder go through these steps together, and one file holds
// their records: to make and remove a file costs more than all else here. Each
// stub has a lock of its own all the same, at a place of one file that its path
// decides.
//
// Records are not flushed to the disk: that costs more than the start of a
// wall. A stub may be left over when the power fails right after it was made.

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

	// retryDelay is how often a call that waits for another process looks
	// again. Nobody holds the lock for longer than a few file operations.
	retryDelay = 2 * time.Millisecond
	// patience bounds the waiting of calls that have no context of their own.
	patience = time.Minute
)

// A Dir keeps the records of stubs. It is safe for concurrent use, by several
// processes of one user too.
type Placeholders struct {
	path string
	// Owned has what root makes belong to the owner of the folder that it lies
	// in, so that nothing of root's is in a person's folder.
	Owned bool
	step  func() // called between the steps, for tests that end the process there
}

// Open returns the records in the folder at path, which is made private.
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
	locks int // the open file that the locks are on, -1 when nothing is held
	once  sync.Once
	uses  []use
	error error
}

// A use is the use of one stub.
type use struct {
	path   string
	record record
	old    *flock.Flock // shared, of a stub that an earlier version has on record; mostly nil
}

// Make makes the stubs that are missing, in the order given, and holds them
// and those that others have made. Their parents must be there, as folders
// and not behind links.
//
// When something else is at the path of a stub by now, the error is
// [sandbox.CodeBusy]: the plan that asked for it is out of date. After an error
// nothing is held.
func (d *Placeholders) Make(ctx context.Context, stubs []plan.Stub) (*Held, error) {
	h := &Held{d: d, locks: -1}
	if len(stubs) == 0 {
		return h, nil
	}
	all, err := groups(stubs)
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

// Release gives the stubs up, and removes those that nobody else holds.
// Further calls return what the first returned.
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

// Leave gives the stubs up without removing them: they are needed by something
// that outlives this process. Whoever knows of its end calls [Dir.Drop].
func (h *Held) Leave() error {
	h.once.Do(func() {
		if h.locks >= 0 {
			h.error = h.unlock()
		}
	})
	return h.error
}

// Drop removes the stubs at paths that nothing holds, the last first.
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

// dropAll removes the stubs at paths that another than locks does not hold, the
// last folder first: stubs lie in stubs. With old, some may be on record as
// earlier versions had it.
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

// Intact reports whether every stub is still the one that was there when it
// was taken. One that somebody has removed or replaced takes the mount over it
// along, in every wall: these have to be built anew.
func (h *Held) Intact() bool {
	for _, u := range h.uses {
		if !u.record.there() {
			return false
		}
	}
	return true
}

// Is reports whether there is a stub of ours at path, untouched. It costs a
// few microseconds where there is none.
func (d *Placeholders) Is(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	l, err := d.list(key(folderOf(path)))
	r, ok := l.find(path)
	if err != nil || !ok {
		r, err = d.readOld(key(path))
	}
	return err == nil && r.Path == path && r.Ino != 0 && r.there()
}

// there reports whether the stub is in its place, untouched.
func (r record) there() bool {
	dir, name, err := parent(r.Path)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	return r.isAt(dir, name)
}

// Sweep removes the stubs that no process holds any more, and returns their
// paths. It goes on after errors and joins them.
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
		} else if strings.HasSuffix(e.Name(), newSuffix) { // never came to replace its list
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
	slices.SortFunc(items, func(a, b item) int { return strings.Compare(b.folder, a.folder) }) // stubs lie in stubs
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

// lock keeps every other process and goroutine from making and removing.
func (d *Placeholders) lock(ctx context.Context) (unlock func(), err error) {
	l := flock.New(filepath.Join(d.path, "lock"), flock.SetPermissions(0o600))
	if ok, err := l.TryLockContext(ctx, retryDelay); err != nil || !ok {
		e := sandbox.Errorf(sandbox.CodeUnavailable, op, "the records of stubs are locked")
		e.Resource, e.Err, e.Retryable = d.path, err, true
		return nil, e
	}
	return func() { l.Unlock() }, nil
}

// drop gives the stubs up and removes those that nobody else holds. The caller
// has locked the folder of records.
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

// unlock gives up every lock of h. It does so before it closes the file, of
// which a program that is being started may have a copy for a moment.
func (h *Held) unlock() error {
	var errs []error
	for _, u := range h.uses {
		if u.old != nil { // unlocked twice does no harm
			errs = append(errs, u.old.Unlock())
		}
	}
	errs = append(errs, letGo(h.locks), unix.Close(h.locks))
	h.locks = -1
	return errors.Join(errs...)
}

// openFolder opens the folder at path, to look at and change names in it.
func openFolder(path string) (int, error) { return hostpath.Folder(path, hostpath.PathOnly) }

// parent opens the folder that path lies in.
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
