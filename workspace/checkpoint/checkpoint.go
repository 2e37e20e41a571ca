// Package checkpoint keeps states of workspaces. A checkpoint is a kept state;
// a workspace can be rolled back to it, and further workspaces can begin from
// it.
//
// The store lies in the folder .layers of the root of the workspaces, on the
// same file system:
//
//	.layers/data/ID/      a layer: fs/ has the files, layer.json what is known of it
//	.layers/heads/NAME.json   what the workspace NAME is made of
//	.layers/records/ID.json   the checkpoints
//	.layers/bases/NAME/   files of the host folder of a private workspace, as they were
//	.layers/tmp/, trash/  what is being made and removed
//	.layers/locks/        one lock for each workspace, one for all references
//
// A layer never changes after a record refers to it. How a workspace shares
// the layers' files is its means. With [Overlay] an overlay file system is
// mounted at the workspace: the layers are its lower folders, and a folder of
// .layers is its upper one. With [Reflink] and [Copy] the workspace is an
// ordinary folder and a layer is a full tree, in which files that did not
// change since the layer before are hard links.
//
// The files of a workspace were made by untrusted code, which may run at the
// same time. So the package opens them by descriptors, follows no link,
// reads only regular files, and bounds each walk.
//
// Each operation is a sequence of steps after each of which a process may be
// killed: the next operation on the workspace, or [Open], finds the state
// before the operation or the one after it. It is the one after from the moment
// on in which a sandbox may write to the new file system; see [Switch].
package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/google/renameio/v2"
)

// Means is how a workspace shares the files of its layers.
type Means string

// The means, the best one first.
const (
	Overlay Means = "overlay" // an overlay file system shows the layers
	Reflink Means = "reflink" // files are copied, and copies share blocks until one changes
	Copy    Means = "copy"    // files are copied
)

// DefaultMaxDepth is how many lower folders an overlay has at most when the
// options name no other number.
const DefaultMaxDepth = 16

// layersDir is the folder of the store below the root of the workspaces.
const layersDir = ".layers"

// Options are the settings of a store. Zero values are the defaults.
type Options struct {
	Means          Means // default: the best one that works here
	MaxDepth       int   // lower folders of an overlay, at least 4; default DefaultMaxDepth
	MaxBytes       int64 // of the disk that the kept layers take together; 0 is no bound
	MaxCheckpoints int   // 0 is no bound
	Now            func() time.Time
	Log            *slog.Logger

	// step is called between any two steps of an operation; tests end the
	// process there.
	step func(string)
}

// A Store keeps the checkpoints of the workspaces below one root. It is safe
// for concurrent use by many processes. Errors are of type *[sandbox.Error].
type Store struct {
	root, dir   string
	o           Options
	names, refs *keylock.Dir

	mu      sync.Mutex // guards what follows
	pending int        // removals and unmounts that no caller waits for; see later
	ended   *sync.Cond // one of them has ended
	probed  bool
	means   Means
	reason  string
}

// Open returns the store below root, the folder of the workspaces, and settles
// what killed processes have left there. It makes nothing before there is
// something to keep.
func Open(root string, o Options) (*Store, error) {
	canonical, err := statedir.MakePrivate(root)
	if err != nil {
		return nil, err
	}
	switch o.Means {
	case "", Overlay, Reflink, Copy:
	default:
		return nil, &sandbox.Error{
			Code: sandbox.CodeValidation, Op: "open checkpoints", Field: "checkpoint.means",
			Message: fmt.Sprintf("there are no means called %q", o.Means), Hint: "use overlay, reflink or copy, or leave it empty",
		}
	}
	if o.MaxDepth == 0 {
		o.MaxDepth = DefaultMaxDepth
	}
	o.MaxDepth = max(o.MaxDepth, 4)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.step == nil {
		o.step = func(string) {}
	}
	dir := filepath.Join(canonical, layersDir)
	s := &Store{
		root: canonical, dir: dir, o: o,
		names: keylock.Open(filepath.Join(dir, "locks", "names")),
		refs:  keylock.Open(filepath.Join(dir, "locks", "refs")),
	}
	s.ended = sync.NewCond(&s.mu)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	return s, s.settle()
}

// Close waits until what operations have left to do in the background is done:
// files of layers that nothing refers to are removed, and file systems that are
// used no more are written to the disk. A process that ends without it leaves
// the removals to the next operation.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.pending > 0 {
		s.ended.Wait()
	}
	return nil
}

// later runs do, for which no caller but Close waits.
func (s *Store) later(do func()) {
	s.mu.Lock()
	s.pending++
	s.mu.Unlock()
	go func() {
		defer func() {
			s.mu.Lock()
			s.pending--
			s.mu.Unlock()
			s.ended.Broadcast()
		}()
		do()
	}()
}

// Root returns the canonical path below which the workspaces lie.
func (s *Store) Root() string { return s.root }

// Path returns where the workspace of that name lies.
func (s *Store) Path(name string) string { return filepath.Join(s.root, name) }

// prepare makes the folders of the store.
func (s *Store) prepare() error {
	if _, err := os.Lstat(s.path("locks", "refs")); err == nil {
		return nil
	}
	for _, sub := range []string{"", "data", "heads", "records", "bases", "tmp", "trash", "locks", "locks/names", "locks/refs"} {
		p := s.path(sub)
		if err := os.Mkdir(p, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return statedir.Unavailable("open checkpoints", p, err)
		}
	}
	return nil
}

func (s *Store) path(sub ...string) string {
	return filepath.Join(append([]string{s.dir}, sub...)...)
}

// lock takes the lock of a workspace and settles what a killed process has
// left of it.
func (s *Store) lock(ctx context.Context, name string) (*keylock.Lock, error) {
	if err := statedir.CheckName(name); err != nil {
		return nil, err
	}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	l, err := s.names.Ensure(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := s.recover(name); err != nil {
		_ = l.Release()
		return nil, err
	}
	return l, nil
}

// lockRefs takes the lock that is held while references to layers are written,
// and while layers without references are looked for. It is taken after the
// lock of a workspace.
func (s *Store) lockRefs(ctx context.Context) (*keylock.Lock, error) {
	return s.refs.Ensure(ctx, "all")
}

// Means returns the means of this store, and why no better one is used. The
// first call tries them out.
func (s *Store) Means(ctx context.Context) (Means, string, error) {
	if err := ctx.Err(); err != nil {
		return "", "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.probed {
		return s.means, s.reason, nil
	}
	if err := s.prepare(); err != nil {
		return "", "", err
	}
	means, reason, err := s.probe()
	if err != nil {
		return "", "", err
	}
	s.probed, s.means, s.reason = true, means, reason
	return means, reason, nil
}

// probe finds the best means, or checks that those of the options work.
func (s *Store) probe() (Means, string, error) {
	dir, done, err := s.scratch("probe")
	if err != nil {
		return "", "", err
	}
	defer done()
	var why []string
	for _, m := range []Means{Overlay, Reflink, Copy} {
		if s.o.Means != "" && s.o.Means != m {
			continue
		}
		sub := filepath.Join(dir, string(m))
		err := os.Mkdir(sub, 0o700)
		if err == nil {
			switch m {
			case Overlay:
				err = probeOverlay(sub)
			case Reflink:
				err = probeReflink(sub)
			}
		}
		if err == nil {
			if s.o.Means != "" {
				why = []string{"the settings name it"}
			}
			return m, strings.Join(why, "; "), nil
		}
		why = append(why, fmt.Sprintf("no %s: %v", m, err))
	}
	return "", "", &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "open checkpoints", Field: "checkpoint.means", Resource: s.root,
		Message: strings.Join(why, "; "), Hint: "leave the setting empty to use the best means that work here",
	}
}

// canReflink reports whether files below the root can share blocks.
func (s *Store) canReflink() bool {
	dir, done, err := s.scratch("probe")
	if err != nil {
		return false
	}
	defer done()
	return probeReflink(dir) == nil
}

// MeansOf returns the means for the workspace of that name, which are worse
// than those of the store where the workspace is a file system of its own.
func (s *Store) MeansOf(ctx context.Context, name string) (Means, string, error) {
	m, reason, err := s.Means(ctx)
	if err != nil || m == Copy {
		return m, reason, err
	}
	if h, ok, err := s.readHead(name); err != nil {
		return "", "", err
	} else if ok {
		return h.Means, h.Reason, nil
	}
	if s.bounded(name) {
		return Copy, "the workspace has a quota: it is a file system of its own, which can neither be renamed nor hold the layers", nil
	}
	return m, reason, nil
}

// bounded reports whether the workspace is a mounted file system of its own.
func (s *Store) bounded(name string) bool {
	own, err := os.Stat(s.Path(name))
	if err != nil {
		return false
	}
	above, err := os.Stat(s.root)
	return err == nil && deviceOf(own) != deviceOf(above)
}

// writeJSON writes a file in one step, on the disk when it returns.
func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return sandbox.Errorf(sandbox.CodeInternal, "write checkpoints", "cannot encode %s: %w", filepath.Base(path), err)
	}
	err = renameio.WriteFile(path, append(data, '\n'), 0o600, renameio.WithTempDir(filepath.Dir(path)))
	return statedir.Unavailable("write checkpoints", path, err)
}

// replaceJSON writes a file in one step. When it returns, the file may not be on
// the disk; after a failure of the machine it has the old content or the new one.
// One caller at a time writes the file.
//
// ext4 and btrfs write the content of a file before they write the name that it
// takes from another, so nothing has to be waited for. Elsewhere, and where
// there is no old content, replaceJSON does what writeJSON does.
func replaceJSON(path string, v any) error {
	if _, err := os.Lstat(path); err != nil || !ordersRenames(path) {
		return writeJSON(path, v)
	}
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return sandbox.Errorf(sandbox.CodeInternal, "write checkpoints", "cannot encode %s: %w", filepath.Base(path), err)
	}
	if err = os.WriteFile(path+".new", append(data, '\n'), 0o600); err == nil {
		err = os.Rename(path+".new", path)
	}
	return statedir.Unavailable("write checkpoints", path, err)
}

// maxJSON is the largest head or record in bytes.
const maxJSON = 16 << 20

// readJSON reads a file of the store. ok is false when there is none. One that
// cannot be parsed is an error: its layers may not be removed.
func readJSON(path string, v any) (ok bool, err error) {
	const op = "read checkpoints"
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, statedir.Unavailable(op, path, err)
	}
	var data []byte
	if fi.Size() <= maxJSON {
		if data, err = os.ReadFile(path); errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err == nil {
			err = json.Unmarshal(data, v)
		}
	} else {
		err = fmt.Errorf("it has %d bytes", fi.Size())
	}
	if err != nil {
		return false, &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: op, Resource: path, Err: err,
			Message: path + " cannot be read", Hint: "restore it, or remove the workspace",
		}
	}
	return true, nil
}

// fail returns err as an error of the operation op on the workspace or
// checkpoint called resource. A full disk and a missing permission are said.
func fail(op, resource string, err error) error {
	if err == nil {
		return nil
	}
	var known *sandbox.Error
	if errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	e := statedir.Unavailable(op, resource, err).(*sandbox.Error)
	e.Message = "cannot " + op + " of " + resource
	return e
}

func invalid(op, field, resource, message, hint string) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: field, Resource: resource, Message: message, Hint: hint}
}

// also returns err, with what went wrong while its effects were undone.
func also(err, undo error) error {
	if undo == nil {
		return err
	}
	return errors.Join(err, undo)
}

// opMount is the operation of errors that a mount causes.
const opMount = "mount workspace"
