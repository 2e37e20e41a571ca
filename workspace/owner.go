package workspace

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"golang.org/x/sys/unix"
)

// The uids that a root orchestrator gives to scopes lie above those that
// systemd and container engines hand out and below 2^31, where programs that
// take uids for signed numbers still read them.
const (
	firstUID  = 0x70000000
	uidCount  = 0x0FFFFFF0
	maxProbes = 64
)

// An Owner is the user a sandbox runs as. Neither number is ever 0.
type Owner struct {
	UID, GID int
}

func (o Owner) check() error {
	if o.UID < 1 || o.GID < 1 {
		return sandbox.Errorf(sandbox.CodeValidation, "make workspace", "uid %d and gid %d must be above 0: sandboxes never run as root", o.UID, o.GID)
	}
	return nil
}

// Owners says which uid a scope's sandbox runs as. An orchestrator that is
// not root can only use its own. Root gives every scope a uid of its own,
// because sandboxes of one uid share the kernel's budgets (inotify, pipes,
// keys) and could starve each other.
//
// A claimed uid is kept for good, as the scope's workspace may outlive its
// sandbox; a claim is a file <uids>/<uid> that holds the sandbox's name.
// Owners is safe for concurrent use by many processes.
type Owners struct {
	dir  string
	euid int
	egid int
}

// OwnerIn returns the owner for a scope among count uids from first on. It follows
// from the scope alone, so that programs that share no folder agree about it; two
// scopes may come to the same one. count is at least 1, and first above 0.
func OwnerIn(first, count int, o sandbox.Owner) Owner {
	uid := first + scopeNumber(o, count)
	return Owner{uid, uid}
}

// OpenOwners returns the owners whose claims lie in the folder dir, which
// must exist.
func OpenOwners(dir string) *Owners {
	return &Owners{dir: dir, euid: os.Geteuid(), egid: os.Getegid()}
}

// Claim returns the owner for the sandbox name of the scope o, the same one
// at every call. The cost does not depend on the number of claims.
func (w *Owners) Claim(name string, o sandbox.Owner) (Owner, error) { return w.find(name, o, true) }

// Lookup returns what Claim would return, and claims nothing.
func (w *Owners) Lookup(name string, o sandbox.Owner) (Owner, error) { return w.find(name, o, false) }

// ClaimsOf returns the files that Lookup reads for its answer.
func (w *Owners) ClaimsOf(name string, o sandbox.Owner) ([]string, error) {
	own, err := w.Lookup(name, o)
	if err != nil || w.euid != 0 {
		return nil, err
	}
	var out []string
	for i := range maxProbes {
		uid := firstUID + (scopeSlot(o)+i)%uidCount
		out = append(out, filepath.Join(w.dir, strconv.Itoa(uid)))
		if uid == own.UID {
			break
		}
	}
	return out, nil
}

func (w *Owners) find(name string, o sandbox.Owner, claim bool) (Owner, error) {
	const op = "claim uid"
	if err := statedir.CheckName(name); err != nil {
		return Owner{}, err
	}
	if w.euid != 0 {
		own := Owner{w.euid, w.egid}
		if own.GID == 0 {
			own.GID = own.UID
		}
		return own, nil
	}
	start := scopeSlot(o)
	for i := range maxProbes {
		uid := firstUID + (start+i)%uidCount
		path := filepath.Join(w.dir, strconv.Itoa(uid))
		holder, err := readClaim(path)
		if errors.Is(err, fs.ErrNotExist) {
			if !claim {
				return Owner{uid, uid}, nil
			}
			holder, err = makeClaim(w.dir, path, name)
		}
		if err != nil {
			return Owner{}, statedir.Unavailable(op, path, err)
		}
		if holder == name {
			return Owner{uid, uid}, nil
		}
	}
	return Owner{}, &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: op, Resource: w.dir,
		Message: fmt.Sprintf("the %d uids from %d on are all taken", maxProbes, firstUID+start),
		Hint:    "remove claims in " + w.dir + " whose sandboxes and workspaces are gone",
	}
}

// scopeSlot maps a scope to a number below uidCount. The parts are written
// with their lengths, so that no two scopes run together.
func scopeSlot(o sandbox.Owner) int { return scopeNumber(o, uidCount) }

// scopeNumber maps a scope to a number below count.
func scopeNumber(o sandbox.Owner, count int) int {
	h := sha256.New()
	for _, s := range []string{o.Instance, o.Tenant, string(o.Scope), o.ScopeKey} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return int(binary.BigEndian.Uint64(h.Sum(nil)) % uint64(count))
}

// readClaim returns the name that holds the claim at path. Content that is no
// name is returned as it is: it matches nothing and the slot counts as taken.
func readClaim(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 128))
	return strings.TrimSuffix(string(data), "\n"), err
}

// makeClaim claims path for name and returns who holds it then. A complete
// file is linked into place, so a claim is never seen half written.
func makeClaim(dir, path, name string) (string, error) {
	tmp, err := os.CreateTemp(dir, ".claim-")
	if err != nil {
		return "", err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(name + "\n")
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return "", err
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return readClaim(path)
}
