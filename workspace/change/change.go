// Package change finds what differs between two trees of files, shows it, and
// carries it over to a folder of the host and back.
//
// [Compare] lists the differences between a base and a current [Tree]. A tree
// is a plain folder, or a stack of overlayfs layers; where the layers of the
// base are the lower ones of the current tree, Compare reads only the layers
// above them. [Render] writes the list as git does. [NewPlan] decides what a
// change of the list does to the host's folder, merges files that changed there
// meanwhile, and names conflicts and risks before anything is written.
// [Plan.Apply] writes, after a journal with which [Undo] restores what was
// there.
//
// Untrusted code may write in the current tree while this package reads it. So
// no link in a tree or in the host's folder is followed, every walk and every
// file read is bounded, and what is written to the host has the digest that
// the plan recorded. A change that can make the host run code is listed with
// its risk and needs a consent of its own; see [Risk].
package change

import (
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"golang.org/x/sys/unix"
)

// A Kind says how a path differs.
type Kind string

// The kinds of changes.
const (
	Added    Kind = "added"
	Removed  Kind = "removed"
	Modified Kind = "modified" // the content of a file, or the target of a link; the mode may have changed too
	Renamed  Kind = "renamed"  // a file has another path; content and mode may have changed too
	Mode     Kind = "mode"     // the permissions alone
	Type     Kind = "type"     // a file, link or folder took the place of one of another type
)

// An Entry is one difference. Paths are relative to the roots of the trees,
// separated by slashes, and hold the bytes that the file system has: they may
// not be UTF-8 and may hold control characters; see [Quote].
type Entry struct {
	Path       string      `json:"path"`
	Kind       Kind        `json:"kind"`
	From       string      `json:"from,omitempty"`       // old path of a renamed file
	Similarity int         `json:"similarity,omitempty"` // of a renamed file, in percent
	OldMode    fs.FileMode `json:"oldMode,omitempty"`    // type and permissions; 0 for an added path
	Mode       fs.FileMode `json:"mode,omitempty"`       // 0 for a removed path
	OldSize    int64       `json:"oldSize,omitempty"`    // bytes
	Size       int64       `json:"size,omitempty"`
	OldLink    string      `json:"oldLink,omitempty"` // target of a symbolic link
	Link       string      `json:"link,omitempty"`
	OldDigest  string      `json:"oldDigest,omitempty"` // SHA-256 of a file's content in hexadecimal; empty if Unread
	Digest     string      `json:"digest,omitempty"`
	Binary     bool        `json:"binary,omitempty"`  // the old or the new content is no text
	OldType    string      `json:"oldType,omitempty"` // MIME type by content, of binary files
	Type       string      `json:"type,omitempty"`
	Unread     bool        `json:"unread,omitempty"` // a file is longer than Options.MaxFile or not readable; such a change is never applied
	Findings   []Finding   `json:"findings,omitempty"`

	shared   bool // the file has several names in the topmost layer
	vanished bool // the current side was gone when it was read
}

// IsDir reports whether the entry concerns a folder alone: one that was added
// or removed, or whose mode changed.
func (e *Entry) IsDir() bool {
	return (!e.hasOld() || e.OldMode.IsDir()) && (!e.hasNow() || e.Mode.IsDir())
}

// hasOld and hasNow report whether there was something before, and is now.
func (e *Entry) hasOld() bool { return e.Kind != Added }
func (e *Entry) hasNow() bool { return e.Kind != Removed }

// paths returns the paths that the entry changes.
func (e *Entry) paths() []string {
	if e.From != "" {
		return []string{e.Path, e.From}
	}
	return []string{e.Path}
}

// An Info describes one path of a tree.
type Info struct {
	Mode     fs.FileMode // type, permissions, and the bits setuid, setgid and sticky
	Size     int64       // bytes of a file
	ModTime  time.Time
	Changed  time.Time // of the inode, which programs cannot set
	Dev, Ino uint64
	Links    uint64 // number of hard links
	UID, GID int
	rdev     uint64
	layer    int // the tree's layer that holds it
}

func infoOf(st *unix.Stat_t) Info {
	return Info{
		Mode: modeOf(uint32(st.Mode)), Size: st.Size,
		ModTime: time.Unix(st.Mtim.Unix()), Changed: time.Unix(st.Ctim.Unix()),
		Dev: uint64(st.Dev), Ino: st.Ino, Links: uint64(st.Nlink), UID: int(st.Uid), GID: int(st.Gid), rdev: uint64(st.Rdev),
	}
}

// modeOf translates the mode of a system call.
func modeOf(m uint32) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	switch m & unix.S_IFMT {
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	case unix.S_IFREG:
	default:
		mode |= fs.ModeIrregular
	}
	if m&unix.S_ISUID != 0 {
		mode |= fs.ModeSetuid
	}
	if m&unix.S_ISGID != 0 {
		mode |= fs.ModeSetgid
	}
	if m&unix.S_ISVTX != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}

// unixMode translates the permissions of mode for a system call.
func unixMode(mode fs.FileMode) uint32 {
	m := uint32(mode.Perm())
	if mode&fs.ModeSetuid != 0 {
		m |= unix.S_ISUID
	}
	if mode&fs.ModeSetgid != 0 {
		m |= unix.S_ISGID
	}
	if mode&fs.ModeSticky != 0 {
		m |= unix.S_ISVTX
	}
	return m
}

// maxPath bounds the paths that are compared and applied, in bytes.
const maxPath = 4000

// checkPath returns an error unless rel is a path in its plain form that does
// not leave its root.
func checkPath(op, rel string) error {
	if rel == "." || fs.ValidPath(strings.ToValidUTF8(rel, "?")) && !strings.ContainsRune(rel, 0) && len(rel) <= maxPath {
		return nil
	}
	e := sandbox.Errorf(sandbox.CodeValidation, op, "%s is no relative path in its plain form", Quote(rel))
	e.Field, e.Resource = "path", rel
	return e
}

// failed converts the system error err at path into a *sandbox.Error. An error
// that is one already is returned as it is.
func failed(op, path string, err error) error {
	var known *sandbox.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	e := &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Resource: path, Message: "cannot use " + Quote(path), Err: err}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Code = sandbox.CodeNotFound
	case errors.Is(err, fs.ErrPermission):
		e.Hint = "run as the owner of the folder"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		e.Hint, e.Retryable = "its file system is full: make room", true
	case errors.Is(err, unix.EROFS):
		e.Hint = "its file system is read-only: mount it writable"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		e.Hint, e.Retryable = "too many open files: raise the limit (ulimit -n)", true
	}
	return e
}
