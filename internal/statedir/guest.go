package statedir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

const (
	// GuestBinary is the file name of the guest.
	GuestBinary = "sandbox-guest"

	maxGuestSize = 64 << 20 // bytes

	// guestPiece is how many bytes of the guest are written at once. What is
	// written in large pieces the kernel keeps in large ones (folios), and a
	// program that lies in few of them takes less time to start and to end:
	// that is a part of each sandbox's start.
	guestPiece = 4 << 20
)

// InstallGuest puts a copy of the guest binary at path into a folder named
// after its SHA-256 and returns a reference to that folder, which holds
// nothing else and is meant to be mounted read-only. Installing the same
// binary again is cheap (file times and inode numbers tell that neither side
// has changed) and an installed copy that is not what its name says is
// replaced. Many processes may do it at once.
//
// It refuses what could not run inside: a file that is not an ELF program
// for this machine's architecture, or one that is linked dynamically.
func (d *Dir) InstallGuest(path string) (sandbox.GuestRef, error) {
	src, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return sandbox.GuestRef{}, guestError(path, "cannot be read", err)
	}
	defer src.Close()
	id, err := identify(src)
	if err != nil {
		return sandbox.GuestRef{}, guestError(path, "cannot be read", err)
	}
	id.Path = path
	if ref, ok := d.cachedGuest(id); ok {
		return ref, nil
	}
	if !id.regular || id.Size > maxGuestSize {
		return sandbox.GuestRef{}, guestError(path, fmt.Sprintf("is not a regular file of at most %d bytes", maxGuestSize), nil)
	}
	if err := checkELF(src); err != nil {
		return sandbox.GuestRef{}, guestError(path, err.Error(), nil)
	}
	digest, err := digestOf(src)
	if err != nil {
		return sandbox.GuestRef{}, guestError(path, "cannot be read", err)
	}
	ref := sandbox.GuestRef{Dir: filepath.Join(d.Guest(), digest), Digest: digest}
	if err := installGuest(src, ref); err != nil {
		return sandbox.GuestRef{}, Unavailable("install guest", ref.Dir, err)
	}
	d.cacheGuest(id, ref)
	return ref, nil
}

// installGuest copies src into the folder of ref unless a good copy is there.
func installGuest(src *os.File, ref sandbox.GuestRef) error {
	target := filepath.Join(ref.Dir, GuestBinary)
	if have, err := digestFile(target); err == nil && have == ref.Digest {
		return errors.Join(ensureMode(ref.Dir), ensureMode(target))
	}
	if err := os.MkdirAll(ref.Dir, 0o755); err != nil {
		return err
	}
	if err := ensureMode(ref.Dir); err != nil { // whatever the umask is
		return err
	}
	// The temporary file lies outside the folder: that one holds exactly
	// the binary at all times.
	tmp, err := renameio.NewPendingFile(target,
		renameio.WithTempDir(filepath.Dir(ref.Dir)), renameio.WithStaticPermissions(0o755))
	if err != nil {
		return err
	}
	defer tmp.Cleanup()
	if _, err := src.Seek(0, io.SeekStart); err != nil {
		return err
	}
	h := sha256.New()
	if _, err := io.CopyBuffer(io.MultiWriter(tmp, h), io.LimitReader(src, maxGuestSize+1), make([]byte, guestPiece)); err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != ref.Digest {
		return errors.New("the guest binary changed while it was copied; try again")
	}
	if err := tmp.CloseAtomicallyReplace(); err != nil {
		return err
	}
	return SyncDir(ref.Dir)
}

// ensureMode makes path readable and executable for the uids of all
// sandboxes. It leaves a right mode alone, because chmod moves the change
// time that the cache relies on.
func ensureMode(path string) error {
	fi, err := os.Lstat(path)
	if err != nil || fi.Mode().Perm() == 0o755 {
		return err
	}
	return os.Chmod(path, 0o755)
}

func digestFile(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return digestOf(f)
}

func digestOf(f *os.File) (string, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, maxGuestSize+1))
	if err == nil && n > maxGuestSize {
		err = errors.New("file is too large")
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// FindGuest returns the path of the guest binary. $SANDBOX_GUEST, when set,
// is the only candidate: an explicit wish that cannot be met is an error.
// Otherwise it is looked for beside the running program, then in the
// absolute folders of PATH. The error lists every place.
func FindGuest() (string, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		self = ""
	}
	return findGuest(os.Getenv("SANDBOX_GUEST"), self, os.Getenv("PATH"))
}

func findGuest(explicit, self, pathList string) (string, error) {
	var candidates []string
	switch {
	case explicit != "":
		abs, err := filepath.Abs(explicit)
		if err != nil {
			return "", guestError(explicit, "cannot be found", err)
		}
		candidates = []string{abs}
	default:
		if self != "" {
			candidates = append(candidates, filepath.Join(filepath.Dir(self), GuestBinary))
		}
		for _, dir := range filepath.SplitList(pathList) {
			if filepath.IsAbs(dir) {
				candidates = append(candidates, filepath.Join(dir, GuestBinary))
			}
		}
	}
	for _, c := range candidates {
		if fi, err := os.Stat(c); err == nil && fi.Mode().IsRegular() {
			return c, nil
		}
	}
	e := guestError(GuestBinary, "was not found; looked for "+strings.Join(candidates, ", "), fs.ErrNotExist)
	if explicit != "" {
		e.Message += " (from SANDBOX_GUEST)"
	}
	return "", e
}

func guestError(path, message string, cause error) *sandbox.Error {
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "install guest", Resource: path,
		Message: path + " " + message, Err: cause,
		Hint: "build it: CGO_ENABLED=0 go install github.com/bulkhead-dev/sandbox/cmd/..., or name it in SANDBOX_GUEST",
	}
}

// A fileID distinguishes one content of a file from another without reading it:
// every change of the content changes the file's change time, which no program
// can set.
type fileID struct {
	Path    string `json:"path"`
	Dev     uint64 `json:"dev"`
	Inode   uint64 `json:"inode"`
	Size    int64  `json:"size"`
	Mtime   int64  `json:"mtime"` // nanoseconds
	Ctime   int64  `json:"ctime"` // nanoseconds
	regular bool
}

func identify(f *os.File) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fileID{}, err
	}
	return fileID{
		Dev: uint64(st.Dev), Inode: st.Ino, Size: st.Size,
		Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano(),
		regular: st.Mode&unix.S_IFMT == unix.S_IFREG,
	}, nil
}

// settled reports whether the file's last change is long enough ago that a
// later one cannot carry the same time. File systems that keep parts of a
// second take the time from the kernel's clock tick, which is at most 10 ms
// long; the others keep seconds, or two of them.
func (id fileID) settled(now time.Time) bool {
	granularity := 50 * time.Millisecond
	if id.Ctime%int64(time.Second) == 0 {
		granularity = 2 * time.Second
	}
	return now.UnixNano()-id.Ctime > int64(granularity)
}
