// Package stub makes what a wall needs to exist on the host for a while:
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
// Records are not flushed to the disk: that costs more than the start of a
// wall. A stub may be left over when the power fails right after it was made.
package stub

import (
	"context"
	"errors"
	"maps"
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
type Dir struct {
	path string
	// Owned has what root makes belong to the owner of the folder that it lies
	// in, so that nothing of root's is in a person's folder.
	Owned bool
	step  func() // called between the steps, for tests that end the process there
}

// Open returns the records in the folder at path, which is made private.
func Open(path string) (*Dir, error) {
	canonical, err := statedir.MakePrivate(path)
	if err != nil {
		return nil, err
	}
	return &Dir{path: canonical, step: func() {}}, nil
}

// A Held is the use of some stubs. It is safe for concurrent use.
type Held struct {
	d     *Dir
	once  sync.Once
	uses  []use
	error error
}

// A use is the use of one stub.
type use struct {
	path   string
	lock   *flock.Flock // shared
	record record
}

// Make makes the stubs that are missing, in the order given, and holds them
// and those that others have made. Their parents must be there, as folders
// and not behind links.
//
// When something else is at the path of a stub by now, the error is
// [sandbox.CodeBusy]: the plan that asked for it is out of date. After an error
// nothing is held.
func (d *Dir) Make(ctx context.Context, stubs []plan.Stub) (*Held, error) {
	h := &Held{d: d}
	if len(stubs) == 0 {
		return h, nil
	}
	unlock, err := d.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	for _, s := range stubs {
		u, err := d.take(s)
		if err != nil {
			return nil, errors.Join(err, d.drop(h.uses))
		}
		h.uses = append(h.uses, u)
	}
	return h, nil
}

// Release gives the stubs up, and removes those that nobody else holds.
// Further calls return what the first returned.
func (h *Held) Release() error {
	h.once.Do(func() {
		if len(h.uses) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		unlock, err := h.d.lock(ctx)
		if err != nil {
			for _, u := range h.uses { // a sweep removes the stubs then
				err = errors.Join(err, u.lock.Unlock())
			}
			h.error = err
			return
		}
		defer unlock()
		h.error = h.d.drop(h.uses)
	})
	return h.error
}

// Leave gives the stubs up without removing them: they are needed by something
// that outlives this process. Whoever knows of its end calls [Dir.Drop].
func (h *Held) Leave() error {
	h.once.Do(func() {
		for _, u := range h.uses {
			h.error = errors.Join(h.error, u.lock.Unlock())
		}
	})
	return h.error
}

// Drop removes the stubs at paths that nothing holds, the last first.
func (d *Dir) Drop(ctx context.Context, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	unlock, err := d.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	var errs []error
	for _, p := range slices.Backward(paths) {
		_, err := d.clear(key(p))
		errs = append(errs, err)
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
func (d *Dir) Is(path string) bool {
	r, err := d.read(key(path))
	if err != nil || r.Path != path || r.Ino == 0 {
		return false
	}
	return r.there()
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
func (d *Dir) Sweep(ctx context.Context) ([]string, error) {
	unlock, err := d.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, statedir.Unavailable("sweep stubs", d.path, err)
	}
	paths := map[string]string{} // by record
	for _, e := range entries {
		if k, ours := strings.CutSuffix(e.Name(), recordSuffix); ours {
			r, _ := d.read(k)
			paths[k] = r.Path
		}
	}
	keys := slices.Collect(maps.Keys(paths))
	slices.SortFunc(keys, func(a, b string) int { return strings.Compare(paths[b], paths[a]) }) // stubs lie in stubs
	var removed []string
	var errs []error
	for _, k := range keys {
		path, err := d.clear(k)
		if path != "" {
			removed = append(removed, path)
		}
		errs = append(errs, err)
	}
	return removed, errors.Join(errs...)
}

// lock keeps every other process and goroutine from making and removing.
func (d *Dir) lock(ctx context.Context) (unlock func(), err error) {
	l := flock.New(filepath.Join(d.path, "lock"), flock.SetPermissions(0o600))
	if ok, err := l.TryLockContext(ctx, retryDelay); err != nil || !ok {
		e := sandbox.Errorf(sandbox.CodeUnavailable, op, "the records of stubs are locked")
		e.Resource, e.Err, e.Retryable = d.path, err, true
		return nil, e
	}
	return func() { l.Unlock() }, nil
}

// drop gives uses up, the last first: stubs lie in stubs.
func (d *Dir) drop(uses []use) error {
	var errs []error
	for i := len(uses) - 1; i >= 0; i-- {
		errs = append(errs, uses[i].lock.Unlock())
		_, err := d.clear(key(uses[i].path))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// parent opens the folder that path lies in.
func parent(path string) (dir int, name string, err error) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 || path[i+1:] == "" || path[i+1:] == ".." || path[i+1:] == "." {
		return -1, "", sandbox.Errorf(sandbox.CodeValidation, op, "the path %q is not absolute and clean", path)
	}
	dir, err = hostpath.Folder(path[:i]+"/", hostpath.PathOnly)
	return dir, path[i+1:], err
}

func failed(path string, err error) error {
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
