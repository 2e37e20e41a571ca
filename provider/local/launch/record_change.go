package launch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// NewID returns an identifier that no sandbox had before.
func NewID() string { return randomHex() }

// Claim reserves the name of a sandbox that is to be made and gives the slot
// of its first instance. It ends with [Dir.Commit] or [Dir.Abandon]. A sandbox of
// that name that exists, or that another process is just making, is
// [sandbox.CodeBusy].
func (d *Records) Claim(ctx context.Context, name string) (*Slot, error) {
	if err := statedir.CheckName(name); err != nil {
		return nil, err
	}
	release, err := d.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := d.vacant(name); err != nil {
		return nil, err
	}
	folder := d.folder(name)
	if err := os.MkdirAll(filepath.Join(folder, instancesDir), 0o700); err != nil {
		return nil, statedir.Unavailable("create", folder, err)
	}
	s, err := d.newSlot(name)
	if err != nil {
		_ = os.RemoveAll(folder)
		return nil, statedir.Unavailable("create", folder, err)
	}
	return s, nil
}

// vacant returns nil when the name is free, after removing what a crash may
// have left under it.
func (d *Records) vacant(name string) error {
	folder := d.folder(name)
	if _, err := os.Lstat(filepath.Join(folder, definitionFile)); err == nil {
		return busy(name, "a sandbox of that name exists")
	}
	instances, err := d.instances(name)
	if err != nil {
		return err
	}
	if len(instances) > 0 {
		e := busy(name, "a sandbox of that name is being made")
		e.Retryable = true
		return e
	}
	return statedir.Unavailable("create", folder, os.RemoveAll(folder))
}

func busy(name, message string) *sandbox.Error {
	return &sandbox.Error{Code: sandbox.CodeBusy, Op: "create", Resource: name, Message: message, Hint: "open it, or remove it first"}
}

// Commit makes the claimed sandbox exist. A process that removed it meanwhile
// makes that [sandbox.CodeUnavailable].
func (d *Records) Commit(ctx context.Context, s *Slot, def Definition) error {
	release, err := d.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	if s.Gone() {
		return removed("create", def.Name)
	}
	folder := d.folder(def.Name)
	return statedir.Unavailable("create", folder, writeDefinition(folder, def))
}

func removed(op, name string) error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Resource: name, Message: "the sandbox was removed meanwhile", Retryable: true}
}

// Abandon takes a claim back. The instance must have ended.
func (d *Records) Abandon(name string, s *Slot) error {
	ctx, done := context.WithTimeout(context.Background(), lockWithin)
	defer done()
	release, err := d.lock(ctx)
	if err != nil {
		s.Release()
		return err
	}
	defer release()
	gone := s.Gone()
	s.Release()
	if gone {
		return nil
	}
	return statedir.Unavailable("create", d.folder(name), d.discard(name))
}

// discard takes the folder of name away, at once for everybody who looks. The
// caller holds the lock.
func (d *Records) discard(name string) error {
	aside := filepath.Join(d.path, goingPrefix+randomHex())
	if err := os.Rename(d.folder(name), aside); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return os.RemoveAll(aside)
}

// Slot gives a place for one more instance of the sandbox with that name and ID.
func (d *Records) Slot(ctx context.Context, name, id string) (*Slot, error) {
	release, err := d.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	def, err := d.definition(name)
	if err != nil {
		return nil, err
	}
	if def.ID != id {
		return nil, NotFound("open", name)
	}
	if s := usedSlot(d.sweepInstances(ctx, name)); s != nil {
		return s, nil
	}
	s, err := d.newSlot(name)
	return s, statedir.Unavailable("open", d.folder(name), err)
}

// sweepInstances deletes the files of sandboxes that no process has any more but one, whose
// path it returns, and ends what still runs of them. The caller holds the lock.
func (d *Records) sweepInstances(ctx context.Context, name string) (free string) {
	folder := filepath.Join(d.folder(name), instancesDir)
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		w, up, err := lookRecord(path)
		switch {
		case err != nil || up || w.kill(ctx) != nil:
		case free == "":
			free = path
		default:
			_ = os.Remove(path)
		}
	}
	return free
}

// rounds bounds how often Remove ends instances that others put up meanwhile.
const rounds = 8

// Remove ends every instance of the sandbox name, whichever process has it, and
// removes the definition. What is not there is no error.
func (d *Records) Remove(ctx context.Context, name string) error {
	if err := statedir.CheckName(name); err != nil {
		return err
	}
	if _, err := os.Lstat(d.folder(name)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for range rounds {
		done, err := d.removeOnce(ctx, name)
		if done || err != nil {
			return err
		}
	}
	e := busy(name, "others start it again and again while it is being removed")
	e.Op, e.Hint, e.Retryable = "remove", "", true
	return e
}

func (d *Records) removeOnce(ctx context.Context, name string) (done bool, err error) {
	instances, err := d.instances(name)
	if err != nil {
		return false, err
	}
	for _, w := range instances {
		if err := w.kill(ctx); err != nil {
			return false, cannotEnd(name, err)
		}
	}
	release, err := d.lock(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	if instances, err = d.instances(name); err != nil {
		return false, err
	}
	for _, w := range instances {
		// One whose first process is not known yet ends by itself: whoever
		// puts it up finds its slot gone.
		if w.Process != (recordProcess{}) {
			return false, nil
		}
	}
	return true, statedir.Unavailable("remove", d.folder(name), d.discard(name))
}

func cannotEnd(name string, cause error) error {
	code := sandbox.CodeUnavailable
	if errors.Is(cause, context.DeadlineExceeded) || errors.Is(cause, context.Canceled) {
		code = sandbox.CodeTimeout
	}
	return &sandbox.Error{Code: code, Op: "remove", Resource: name, Message: "an instance of the sandbox does not end", Err: cause, Retryable: true}
}

// sweepAge is how old a folder without a definition must be to be swept: a
// younger one may belong to a call that has not locked its slot yet.
const sweepAge = time.Minute

// Sweep removes what crashes have left: folders that were to be removed or
// never became a sandbox. What cannot be removed is left for the next time.
func (d *Records) Sweep(ctx context.Context) error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return statedir.Unavailable("sweep", d.path, err)
	}
	for _, e := range entries {
		path := filepath.Join(d.path, e.Name())
		if strings.HasPrefix(e.Name(), goingPrefix) {
			_ = os.RemoveAll(path)
			continue
		}
		if _, err := os.Lstat(filepath.Join(path, definitionFile)); !errors.Is(err, fs.ErrNotExist) || statedir.CheckName(e.Name()) != nil {
			continue
		}
		if err := d.sweepOne(ctx, e.Name()); err != nil {
			return err
		}
	}
	return nil
}

// sweepOne removes the folder of a sandbox that was never finished.
func (d *Records) sweepOne(ctx context.Context, name string) error {
	release, err := d.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	st, err := os.Lstat(d.folder(name))
	if err != nil || time.Since(st.ModTime()) < sweepAge {
		return nil
	}
	if _, err := d.definition(name); !sandbox.IsNotFound(err) {
		return nil
	}
	if instances, err := d.instances(name); err != nil || len(instances) > 0 {
		return nil
	}
	_ = d.discard(name)
	return nil
}
