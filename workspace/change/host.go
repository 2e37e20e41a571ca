package change

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"golang.org/x/sys/unix"
)

// A host is the open folder of the host to which changes are applied. Every
// path below it is opened name by name, none of them a link, so that a process
// that exchanges files and folders meanwhile cannot lead a write elsewhere.
type host struct {
	path     string
	fd       int
	dev, ino uint64
	uid, gid int
}

func openHost(op, folder string) (*host, error) {
	canonical, err := hostpath.Canonical(folder)
	if err != nil {
		return nil, failed(op, folder, err)
	}
	fd, err := hostpath.Folder(canonical, unix.O_RDONLY)
	if err != nil {
		return nil, failed(op, folder, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, failed(op, folder, err)
	}
	return &host{path: canonical, fd: fd, dev: uint64(st.Dev), ino: st.Ino, uid: int(st.Uid), gid: int(st.Gid)}, nil
}

// close gives the lock up, too. To close the descriptor alone would leave the lock to
// a program that is being started, which has a copy until it runs.
func (h *host) close() {
	_ = unix.Flock(h.fd, unix.LOCK_UN)
	unix.Close(h.fd)
}

// lock lets one process at a time apply changes to the folder or undo them.
func (h *host) lock(op string) error {
	err := hostpath.Retry(func() error { return unix.Flock(h.fd, unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return &sandbox.Error{
			Code: sandbox.CodeBusy, Op: op, Resource: h.path, Message: "changes are being applied to " + Quote(h.path) + ", or undone, by another process",
			Hint: "try again when it has ended", Retryable: true,
		}
	}
	return failed(op, h.path, err)
}

// dir opens the folder rel. The error is EXDEV where another file system is
// mounted on the way: what lies there is not the folder's.
func (h *host) dir(rel string) (int, error) {
	fd, err := beneath(h.fd, rel, true)
	if err == nil || errors.Is(err, unix.EXDEV) {
		return fd, err
	}
	if fd, err = hostpath.At(h.fd, ".", unix.O_RDONLY); err != nil || rel == "." {
		return fd, err
	}
	for name := range strings.SplitSeq(rel, "/") {
		next, err := hostpath.At(fd, name, unix.O_RDONLY)
		unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || uint64(st.Dev) != h.dev {
		unix.Close(fd)
		return -1, errors.Join(err, unix.EXDEV)
	}
	return fd, nil
}

// parent opens the folder in which rel lies.
func (h *host) parent(rel string) (int, string, error) {
	fd, err := h.dir(path.Dir(rel))
	return fd, path.Base(rel), err
}

// What a state describes.
const (
	absent     = ""
	regular    = "file"
	symlink    = "link"
	folder     = "folder"
	irregular  = "special"
	unreadable = "unreadable" // or too long
)

// A state is what lies at a path.
type state struct {
	Kind   string  `json:"kind,omitempty"`
	Mode   uint32  `json:"mode,omitempty"` // permissions and the bits setuid, setgid and sticky
	Size   int64   `json:"size,omitempty"`
	Digest string  `json:"digest,omitempty"`
	Link   rawName `json:"link,omitempty"`
	// For the restoration of a file; no part of its identity.
	UID   int   `json:"uid,omitempty"`
	GID   int   `json:"gid,omitempty"`
	MTime int64 `json:"mtime,omitempty"` // nanoseconds since 1970
}

// same reports whether two states are the same but for owner and times.
func (s state) same(o state) bool {
	return s.Kind == o.Kind && (s.Kind == symlink || s.Mode == o.Mode) && s.Digest == o.Digest && s.Link == o.Link
}

// stateAt returns what lies at a name of an open folder.
func stateAt(ctx context.Context, dir int, name string, limit int64) (state, error) {
	var st unix.Stat_t
	err := hostpath.Stat(dir, name, &st)
	if errors.Is(err, unix.ENOENT) {
		return state{}, nil
	}
	if err != nil {
		return state{}, err
	}
	s := state{Mode: uint32(st.Mode) & 0o7777, UID: int(st.Uid), GID: int(st.Gid), MTime: unix.TimespecToNsec(st.Mtim)}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		s.Kind = folder
	case unix.S_IFLNK:
		s.Kind, s.Mode = symlink, 0
		to, err := readlinkAt(dir, name)
		s.Link = rawName(to)
		return s, err
	case unix.S_IFREG:
		s.Kind, s.Size = regular, st.Size
		if st.Size > limit {
			s.Kind = unreadable
			return s, nil
		}
		f, _, err := openFile(dir, name)
		if errors.Is(err, fs.ErrPermission) {
			s.Kind = unreadable
			return s, nil
		}
		if err != nil {
			return s, err
		}
		defer f.Close()
		sum, err := digestOf(ctx, f, limit, make([]byte, 64<<10))
		if sum.unread {
			s.Kind = unreadable
		}
		s.Size, s.Digest = sum.size, sum.digest
		return s, err
	default:
		s.Kind = irregular
	}
	return s, nil
}

// state returns what lies at rel, and when the inode changed last. A missing
// folder on the way makes it absent; a link or a file on the way is an error.
func (h *host) state(ctx context.Context, rel string, limit int64) (state, time.Time, error) {
	fd, name, err := h.parent(rel)
	if errors.Is(err, unix.ENOENT) {
		return state{}, time.Time{}, nil
	}
	if err != nil {
		return state{}, time.Time{}, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	changed := time.Time{}
	if hostpath.Stat(fd, name, &st) == nil {
		changed = time.Unix(st.Ctim.Unix())
	}
	s, err := stateAt(ctx, fd, name, limit)
	return s, changed, err
}

// names lists the folder rel.
func (h *host) names(rel string) ([]string, error) {
	fd, err := h.dir(rel)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), rel)
	defer f.Close()
	return f.Readdirnames(-1)
}

// copyTo copies src into the new file name of the folder dir, with mode 0600.
// It returns the digest of what it wrote.
func copyTo(ctx context.Context, dir int, name string, src io.Reader, limit int64, sync bool, finish func(fd int) error) (string, error) {
	fd := -1
	err := hostpath.Retry(func() (err error) {
		fd, err = unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	hash := sha256.New()
	buffer := make([]byte, 256<<10)
	for size := int64(0); ; {
		n, err := src.Read(buffer)
		hash.Write(buffer[:n])
		if _, err := f.Write(buffer[:n]); err != nil {
			return "", err
		}
		if size += int64(n); size > limit {
			return "", errLong
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
		if err := ctx.Err(); err != nil {
			return "", err
		}
	}
	if finish != nil {
		if err := finish(fd); err != nil {
			return "", err
		}
	}
	if sync {
		if err := f.Sync(); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(hash.Sum(nil)), f.Close()
}
