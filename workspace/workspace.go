// Package workspace keeps the host folders that sandboxes see: the scratch
// workspace of a scope, made, owned, bounded, seeded and removed here, and
// the agent's own folder.
//
// What lies in a workspace was put there by untrusted code, and that code may
// run while we look. So the host side opens the workspace as an [os.Root],
// follows no link in it, gives files away by descriptor and never by a path,
// and bounds every walk. The folders around the workspaces belong to the
// orchestrator alone: a sandbox can fill its workspace and cannot exchange it.
//
// Layout below the root: <name>/ is the workspace of the sandbox of that
// name; names begin with a letter or digit, so what begins with a dot is
// ours: .meta/ (what we made and seeded), .quota/ (images) and .trash-* (what
// is being removed).
package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	metaDir  = ".meta"
	quotaDir = ".quota"
)

// A Store is a root of workspaces. It is safe for concurrent use by many
// processes as long as one name is worked on by one of them at a time, which
// the ensure lock of that name provides. Errors are of type *[sandbox.Error].
type Store struct {
	path string
}

// Open makes the root at path if there is none and checks that no other user
// may write to it. It puts nothing into an existing folder until a workspace is
// made.
func Open(path string) (*Store, error) {
	canonical, err := statedir.MakePrivate(path)
	if err != nil {
		return nil, err
	}
	return &Store{path: canonical}, nil
}

// makeDir makes a folder of our own below the root and returns its path.
func (s *Store) makeDir(sub string) (string, error) {
	p := filepath.Join(s.path, sub)
	if err := os.Mkdir(p, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", statedir.Unavailable("make workspace", p, err)
	}
	return p, nil
}

// Root returns the canonical path below which the workspaces lie.
func (s *Store) Root() string { return s.path }

// Path returns where the workspace of the sandbox name lies, whether it
// exists or not.
func (s *Store) Path(name string) (string, error) {
	if err := statedir.CheckName(name); err != nil {
		return "", err
	}
	return filepath.Join(s.path, name), nil
}

// Ensure makes the workspace of the sandbox name, or takes the one that is
// there, and returns its path. It has mode 0700 and belongs to the sandbox's
// own uid and gid. A workspace that belonged to another uid (the claims in
// the state folder were lost) is given to the new one with all it holds.
//
// With quota above zero the workspace is a file system of that many bytes,
// see [Store.ensureQuota]; where that cannot be, it is an error and never an
// unbounded folder.
func (s *Store) Ensure(ctx context.Context, name string, o Owner, quota int64) (string, error) {
	path, err := s.Path(name)
	if err != nil {
		return "", err
	}
	if err := o.check(); err != nil {
		return "", err
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		// What we made is noted before it is made: only what is noted is
		// ever removed. Notes about an earlier folder are forgotten.
		if err := s.updateMeta(name, func(m *meta) { *m = meta{MadeAt: time.Now().UTC()} }); err != nil {
			return "", err
		}
	}
	if quota != 0 || s.hasImage(name) {
		return path, s.ensureQuota(ctx, name, o, quota)
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", statedir.Unavailable("make workspace", path, err)
	}
	return path, s.own(ctx, path, o)
}

// own gives the workspace at path to o.
func (s *Store) own(ctx context.Context, path string, o Owner) error {
	const op = "make workspace"
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return statedir.Unavailable(op, path, err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return statedir.Unavailable(op, path, err)
	}
	if int(st.Uid) != o.UID || int(st.Gid) != o.GID {
		if err := chownTree(ctx, path, o); err != nil {
			return chownError(path, o, err)
		}
		// The folder itself comes last: as long as it has the old owner,
		// the work is not done.
		if err := f.Chown(o.UID, o.GID); err != nil {
			return chownError(path, o, err)
		}
	}
	if st.Mode&0o7777 != 0o700 {
		return statedir.Unavailable(op, path, f.Chmod(0o700))
	}
	return nil
}

// chownTree gives everything below path to o, whatever owner it had:
// what a root process left there would be in the sandbox's way. Links are
// given, never followed.
func chownTree(ctx context.Context, path string, o Owner) error {
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer root.Close()
	complete, err := walk(ctx, root, func(rel string, fi fs.FileInfo) error {
		err := root.Lchown(rel, o.UID, o.GID)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err == nil && !complete {
		err = fmt.Errorf("it holds more than %d entries or is nested deeper than %d", maxEntries, maxDepth)
	}
	return err
}

// chownError returns why path could not be given to o. A failure that a chown
// by hand does not mend, such as a full disk or too many open files, is
// reported as anywhere else.
func chownError(path string, o Owner, err error) error {
	for _, other := range []error{unix.EMFILE, unix.ENFILE, unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO} {
		if errors.Is(err, other) {
			return statedir.Unavailable("make workspace", path, err)
		}
	}
	e := &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "make workspace", Resource: path, Err: err,
		Message: fmt.Sprintf("cannot give %s to uid %d", path, o.UID),
		Hint:    chownCommand(o, path),
	}
	if errors.Is(err, unix.EINVAL) {
		e.Hint = "this user namespace does not map that uid: run outside it, or not as root"
	}
	return e
}

// A meta is what is kept about a workspace that we made.
type meta struct {
	MadeAt time.Time         `json:"madeAt"`
	Seeded map[string]string `json:"seeded,omitempty"` // path → SHA-256 of what we put there
	About  map[string]string `json:"about,omitempty"`  // see [Store.Annotate]
	Skills string            `json:"skills,omitempty"` // stamp of the skills as they were copied; see SkillsStamp
}

const maxMeta = 4 << 20 // bytes

func (s *Store) metaPath(name string) string { return filepath.Join(s.path, metaDir, name+".json") }

// readMeta returns the zero meta when there is none.
func (s *Store) readMeta(name string) (m meta, err error) {
	path := s.metaPath(name)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return meta{}, nil
	}
	if err != nil {
		return meta{}, statedir.Unavailable("read workspace notes", path, err)
	}
	if len(data) > maxMeta || json.Unmarshal(data, &m) != nil {
		// Without notes nothing counts as ours: nothing is replaced or
		// removed, which is the safe side.
		return meta{}, nil
	}
	return m, nil
}

func (s *Store) updateMeta(name string, change func(*meta)) error {
	m, err := s.readMeta(name)
	if err != nil {
		return err
	}
	change(&m)
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return sandbox.Errorf(sandbox.CodeInternal, "write workspace notes", "cannot encode them: %w", err)
	}
	dir, err := s.makeDir(metaDir)
	if err != nil {
		return err
	}
	path := s.metaPath(name)
	return statedir.Unavailable("write workspace notes", path,
		renameio.WriteFile(path, data, 0o600, renameio.WithTempDir(dir)))
}
