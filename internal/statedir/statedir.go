// Package statedir owns the state folder: the one place on the host where an
// orchestrator keeps what must outlive it.
//
// The folder belongs to one user and no other user may write to it: a process
// that could write there could swap the guest binary, take over a guest's
// socket or make a sandbox count as that of another owner. Its id, made once,
// distinguishes two orchestrators on one engine.
//
// Several processes of that user share one state folder at the same time;
// everything here is safe for that.
package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bulkhead-dev/sandbox"
	"golang.org/x/sys/unix"
)

// Names of the folders below the state folder.
const (
	registryDir   = "registry"
	locksDir      = "locks"
	workspacesDir = "workspaces"
	cachesDir     = "caches"
	guestDir      = "guest"
	egressDir     = "egress"
	runDir        = "run"
	identityDir   = "identity"
	uidsDir       = "uids"
	violationsDir = "violations"
	evidenceDir   = "evidence"
	evidenceKey   = "evidence.key"
	budgetDir     = "budget"
	revokedDir    = "revoked"
	decisionsDir  = "decisions"
	writersDir    = "writers"
	tokensDir     = "tokens"
	mappedDir     = "mapped"
)

// A Dir is an open state folder. It is safe for concurrent use.
type Dir struct {
	path     string
	instance string
	format   *os.File // keeps the format from being changed as long as the Dir is in use
}

// Default returns where the state folder lies when no flag says otherwise:
// $SANDBOX_STATE_DIR, else "sandbox" below $XDG_STATE_HOME, else below
// ~/.local/state. As the XDG Base Directory specification demands, a
// relative $XDG_STATE_HOME is ignored.
func Default() (string, error) {
	if p := os.Getenv("SANDBOX_STATE_DIR"); p != "" {
		return p, nil
	}
	if p := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(p) {
		return filepath.Join(p, "sandbox"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return "", &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: "find state folder",
			Message: "no home folder is known", Err: err,
			Hint: "set HOME, or name a folder with --state-dir or SANDBOX_STATE_DIR",
		}
	}
	return filepath.Join(home, ".local", "state", "sandbox"), nil
}

// Open makes the state folder at path with mode 0700 if there is none,
// checks that it is private (see [MakePrivate]), and reads its instance id
// or makes it. A folder of a lower format is migrated, see [Format]. One of a higher
// format is [sandbox.CodeUnsupported] and stays as it is.
//
// When everything is in place already, Open writes nothing, so that a
// read-only state folder can still be listed.
func Open(path string) (*Dir, error) {
	canonical, err := MakePrivate(path)
	if err != nil {
		return nil, err
	}
	d := &Dir{path: canonical}
	if d.format, err = ourFormats().settle(canonical); err != nil {
		return nil, err
	}
	for _, sub := range []string{registryDir, locksDir, workspacesDir, guestDir, runDir, identityDir, uidsDir} {
		p := filepath.Join(canonical, sub)
		if err := os.Mkdir(p, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, Unavailable("open state folder", p, err)
		}
		if err := checkPrivate(p); err != nil {
			return nil, err
		}
	}
	if d.instance, err = loadInstance(canonical); err != nil {
		return nil, err
	}
	return d, nil
}

// Path returns the canonical path of the state folder.
func (d *Dir) Path() string { return d.path }

// Instance returns the id of the state folder, 16 hex digits.
func (d *Dir) Instance() string { return d.instance }

// Registry returns the folder of the records.
func (d *Dir) Registry() string { return filepath.Join(d.path, registryDir) }

// Locks returns the folder of the lock files.
func (d *Dir) Locks() string { return filepath.Join(d.path, locksDir) }

// Workspaces returns the default root of the workspaces.
func (d *Dir) Workspaces() string { return filepath.Join(d.path, workspacesDir) }

// Caches returns the folder of the caches of package managers. It is made when a
// sandbox has some.
func (d *Dir) Caches() string { return filepath.Join(d.path, cachesDir) }

// Guest returns the folder of the installed guest binaries.
func (d *Dir) Guest() string { return filepath.Join(d.path, guestDir) }

// Egress returns the folder of the proxy's own certificate authority. It is
// made when a secret is bound to a host.
func (d *Dir) Egress() string { return filepath.Join(d.path, egressDir) }

// Run returns the folder of the socket folders.
func (d *Dir) Run() string { return filepath.Join(d.path, runDir) }

// Uids returns the folder of the claims on user ids.
func (d *Dir) Uids() string { return filepath.Join(d.path, uidsDir) }

// PrunedAt returns the file that tells when a sweep on use was begun last.
func (d *Dir) PrunedAt() string { return filepath.Join(d.path, "pruned-at") }

// Violations returns the folder of what was tried and stopped. It is made
// when something is recorded or asked for.
func (d *Dir) Violations() string { return filepath.Join(d.path, violationsDir) }

// Evidence returns the folder of what was done. It is made when something is
// recorded or asked for.
func (d *Dir) Evidence() string { return filepath.Join(d.path, evidenceDir) }

// EvidenceKey returns the file of the secret key that signs evidence. It is
// made before anything is recorded.
func (d *Dir) EvidenceKey() string { return filepath.Join(d.path, evidenceKey) }

// Budget returns the folder of what was used of budgets. It is made when
// something is drawn.
func (d *Dir) Budget() string { return filepath.Join(d.path, budgetDir) }

// Revoked returns the folder of the revoked grants. The folder is made at its
// first use.
func (d *Dir) Revoked() string { return filepath.Join(d.path, revokedDir) }

// Decisions returns the folder of the used decision keys. The folder is made at
// its first use.
func (d *Dir) Decisions() string { return filepath.Join(d.path, decisionsDir) }

// Writers returns the folder of the programs that write evidence. It is made
// when an operation begins.
func (d *Dir) Writers() string { return filepath.Join(d.path, writersDir) }

// Mapped returns the folder of the places at which folders of root are mounted for
// sandboxes. It is made when the first one is.
func (d *Dir) Mapped() string { return filepath.Join(d.path, mappedDir) }

// Tokens returns the folder of the bearer tokens. The folder is made at its
// first use.
func (d *Dir) Tokens() string { return filepath.Join(d.path, tokensDir) }

// MakePrivate makes the folder at path, with missing parents, mode 0700, and
// returns its canonical path. It refuses what others could tamper with: a
// folder that belongs to another user, that group or others may write to, or
// that lies below a folder in which everybody may rename things. An existing
// folder is never changed, because a path given by mistake ("/etc") must not
// lose its mode; the error says what to do instead.
func MakePrivate(path string) (string, error) {
	const op = "open state folder"
	if path == "" {
		return "", &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: "stateDir", Message: "the path is empty"}
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", Unavailable(op, path, err)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return "", Unavailable(op, abs, err)
	}
	canonical, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", Unavailable(op, abs, err)
	}
	if err := checkPrivate(canonical); err != nil {
		return "", err
	}
	return canonical, checkParents(canonical)
}

// checkPrivate refuses the folder p unless it is ours alone to write to.
func checkPrivate(p string) error {
	var st unix.Stat_t
	if err := unix.Lstat(p, &st); err != nil {
		return Unavailable("check state folder", p, err)
	}
	refuse := func(message, hint string) error {
		return &sandbox.Error{
			Code: sandbox.CodePermissionDeny, Op: "check state folder", Resource: p,
			Message: p + " " + message, Hint: hint,
		}
	}
	switch euid := os.Geteuid(); {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return refuse("is not a folder", "move it away or choose another folder with --state-dir")
	case int(st.Uid) != euid:
		return refuse(fmt.Sprintf("belongs to uid %d and we run as uid %d", st.Uid, euid),
			"run as its owner, or choose another folder with --state-dir")
	case st.Mode&0o022 != 0:
		return refuse(fmt.Sprintf("can be written by other users (mode %04o)", st.Mode&0o7777),
			"chmod go-w "+p)
	}
	return nil
}

// checkParents refuses a parent in which anybody may rename entries, that
// is, one that is world-writable without the sticky bit.
func checkParents(p string) error {
	for p != filepath.Dir(p) {
		p = filepath.Dir(p)
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return Unavailable("check state folder", p, err)
		}
		if st.Mode&unix.S_IWOTH != 0 && st.Mode&unix.S_ISVTX == 0 {
			return &sandbox.Error{
				Code: sandbox.CodePermissionDeny, Op: "check state folder", Resource: p,
				Message: p + ", above the state folder, can be written by everybody",
				Hint:    "chmod o-w " + p + ", or choose another folder with --state-dir",
			}
		}
	}
	return nil
}
