package statedir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bulkhead-dev/sandbox"
	"golang.org/x/sys/unix"
)

// socketKey is the name of a sandbox's socket folder. It is short because
// the address of a Unix socket holds 107 bytes at most.
func socketKey(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:8])
}

// SocketPath returns where the socket folder of the sandbox name lies,
// whether it exists or not.
func (d *Dir) SocketPath(name string) string {
	return filepath.Join(d.path, runDir, socketKey(name))
}

// SocketDir makes the folder in which the guest of the sandbox name listens,
// or takes the one that is there, and returns its path. It has mode 0700 and
// belongs to uid and gid, the sandbox's own; only root can give it to
// another user than itself. The folders around it are ours, so the sandbox
// can fill it and cannot exchange it. What lies in it is untrusted.
func (d *Dir) SocketDir(name string, uid, gid int) (string, error) {
	if uid < 1 || gid < 1 {
		return "", sandbox.Errorf(sandbox.CodeValidation, "make socket folder", "uid %d and gid %d must be above 0", uid, gid)
	}
	return d.setSocketDir(name, uid, gid, 0o700)
}

// SealSocketDir takes the write permission on the socket folder from the
// sandbox: it gives the folder to root with mode 0711, so that the socket
// stays reachable and no file can be added next to it. Without it, code
// inside could fill the host's disk through the folder. It is called after
// the guest listens and before user code runs; [Dir.SocketDir] undoes it for
// the next start. Without root the sandbox runs as ourselves and nothing can
// be taken from it: that is [sandbox.CodeUnsupported].
func (d *Dir) SealSocketDir(name string) error {
	if os.Geteuid() != 0 {
		return &sandbox.Error{
			Code: sandbox.CodeUnsupported, Op: "seal socket folder", Resource: name,
			Message: "only root can take a folder from the user it runs as",
		}
	}
	_, err := d.setSocketDir(name, 0, 0, 0o711)
	return err
}

func (d *Dir) setSocketDir(name string, uid, gid int, mode fs.FileMode) (string, error) {
	const op = "make socket folder"
	if err := CheckName(name); err != nil {
		return "", err
	}
	path := d.SocketPath(name)
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", Unavailable(op, path, err)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", Unavailable(op, path, err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", Unavailable(op, path, err)
	}
	if int(st.Uid) != uid || int(st.Gid) != gid {
		if err := f.Chown(uid, gid); err != nil {
			return "", &sandbox.Error{
				Code: sandbox.CodeUnavailable, Op: op, Resource: path, Err: err,
				Message: fmt.Sprintf("cannot give %s to uid %d", path, uid),
				Hint:    "run as root, or let the sandbox run as the user of the orchestrator",
			}
		}
	}
	if fs.FileMode(st.Mode).Perm() != mode {
		if err := f.Chmod(mode); err != nil {
			return "", Unavailable(op, path, err)
		}
	}
	return path, nil
}

// RemoveSocketDir removes the socket folder of the sandbox name with what it
// holds, following no link, and its file of hosts. Removing what is gone is not
// an error.
func (d *Dir) RemoveSocketDir(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	root, err := os.OpenRoot(d.Run())
	if err != nil {
		return Unavailable("remove socket folder", d.Run(), err)
	}
	defer root.Close()
	return errors.Join(
		Unavailable("remove socket folder", d.SocketPath(name), root.RemoveAll(socketKey(name))),
		d.removeHosts(name))
}
