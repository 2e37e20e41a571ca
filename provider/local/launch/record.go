// Record: this part of the package keeps the definitions of local sandboxes on disk, and who
// has an instance of which one up.
//
// An instance lives no longer than the process that made it; what outlives both is
// the definition: that there is such a sandbox, whose, and made from which
// Spec. So any process can tell what exists and what runs, without a daemon.
//
// Every sandbox has a folder:
//
//	NAME/definition.json   the definition; without it there is no such sandbox
//	NAME/instances/ID          one file per instance, locked by the process that has it
//
// The kernel drops the lock with its process, however that ends, so what a
// crash leaves behind counts as nothing and is swept later. Changes are made
// under one lock for all sandboxes, each for a few system calls only.

package launch

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

const (
	definitionFile = "definition.json"
	instancesDir   = "walls"
	// goingPrefix begins the names of folders that are being removed. No
	// sandbox has such a name.
	goingPrefix = ".going-"

	// lockWithin bounds how long the lock is waited for. It is never held
	// for more than a few system calls, unless a disk hangs.
	lockWithin = time.Minute
	retryDelay = time.Millisecond

	maxFile = 64 << 10 // bytes of a definition or the file of an instance
)

// A Definition is a sandbox that exists.
type Definition struct {
	Format     string        `json:"format"`
	ID         string        `json:"id"`
	Name       string        `json:"name"`
	Kind       sandbox.Kind  `json:"kind"`
	Owner      sandbox.Owner `json:"owner"`
	ConfigHash string        `json:"configHash"`
	CreatedAt  time.Time     `json:"createdAt"`
}

// A Dir is the folder of all definitions. It is safe for concurrent use, also
// by several processes.
type Records struct{ path string }

// Open makes the folder at path when there is none, for its owner alone.
func OpenRecords(path string) (*Records, error) {
	canonical, err := statedir.MakePrivate(path)
	if err != nil {
		return nil, err
	}
	return &Records{path: canonical}, nil
}

func (d *Records) folder(name string) string { return filepath.Join(d.path, name) }

// Get returns the definition of the sandbox name and its instances that are up;
// [sandbox.CodeNotFound] when there is no such sandbox.
func (d *Records) Get(name string) (Definition, []Record, error) {
	if err := statedir.CheckName(name); err != nil {
		return Definition{}, nil, err
	}
	def, err := d.definition(name)
	if err != nil {
		return Definition{}, nil, err
	}
	instances, err := d.instances(name)
	return def, instances, err
}

func (d *Records) definition(name string) (Definition, error) {
	var def Definition
	path := filepath.Join(d.folder(name), definitionFile)
	b, err := readBounded(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return def, NotFound("inspect", name)
	case err != nil:
		return def, statedir.Unavailable("inspect", path, err)
	}
	if err := json.Unmarshal(b, &def); err != nil || def.Name != name || def.ID == "" {
		return def, &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: "inspect", Resource: path, Message: "the definition of the sandbox cannot be read", Err: err,
			Hint: "remove it with: sandbox recreate --force, or delete the folder",
		}
	}
	return def, nil
}

// NotFound says that there is no sandbox name.
func NotFound(op, name string) error {
	return &sandbox.Error{Code: sandbox.CodeNotFound, Op: op, Resource: name, Message: "there is no such sandbox"}
}

// Names returns the names of all sandboxes that may exist.
func (d *Records) Names() ([]string, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, statedir.Unavailable("list", d.path, err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && statedir.CheckName(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// lock takes the lock of all changes. Readers do without.
func (d *Records) lock(ctx context.Context) (release func(), err error) {
	ctx, done := context.WithTimeout(ctx, lockWithin)
	defer done()
	if err := ctx.Err(); err != nil {
		return nil, locked(d.path, err)
	}
	f, err := os.Open(d.path)
	if err != nil {
		return nil, statedir.Unavailable("lock", d.path, err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { unlock(f) }, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			f.Close()
			return nil, statedir.Unavailable("lock", d.path, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, locked(d.path, ctx.Err())
		case <-time.After(retryDelay):
		}
	}
}

// unlock gives up the lock of f and closes it. To close it alone would leave
// the lock to a child that has been forked and not yet executed its program.
func unlock(f *os.File) {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	f.Close()
}

func locked(path string, cause error) error {
	return &sandbox.Error{Code: sandbox.CodeTimeout, Op: "lock", Resource: path, Message: "another process changes the local sandboxes", Err: cause, Retryable: true}
}

func readBounded(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > maxFile {
		return nil, fs.ErrInvalid
	}
	b := make([]byte, st.Size())
	n, err := f.ReadAt(b, 0)
	if n < len(b) {
		return nil, err
	}
	return b, nil
}

func writeDefinition(folder string, def Definition) error {
	b, err := json.Marshal(def)
	if err != nil {
		return err
	}
	if len(b) > maxFile {
		return errors.New("the definition is too long")
	}
	return renameio.WriteFile(filepath.Join(folder, definitionFile), b, 0o600, renameio.WithTempDir(folder))
}
