package hostscan

import (
	"errors"
	"path"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"golang.org/x/sys/unix"
)

// fail has the look end with err. Code inside can keep us from a file, by a
// lease on it or the mode of a folder, and must not gain by that.
func (l *protectLook) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// file reads a small file. An error other than that it is missing, odd or
// closed to us ends the look.
func (l *protectLook) file(p string, limit int64) ([]byte, error) {
	data, err := hostpath.File(p, limit)
	switch {
	case err == nil, hostpath.Gone(err), odd(err), errors.Is(err, unix.ENAMETOOLONG):
	case errors.Is(err, unix.EACCES) && (!l.ours(p) || l.kind(p) != unix.S_IFREG): // a stub is a socket, which only root is not kept from
	default:
		l.fail(unread(p, err))
	}
	return data, err
}

// odd reports whether err says that a file is no file, or too long.
func odd(err error) bool { return errors.Is(err, hostpath.ErrOdd) }

func unread(p string, err error) error {
	e := &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "look for what to protect", Resource: p, Err: err, Retryable: true,
		Message: "it cannot be told what git runs, because a file or folder cannot be read",
	}
	if errors.Is(err, unix.EACCES) {
		e.Code, e.Retryable, e.Hint = sandbox.CodeCapabilityBlocked, false, "make it readable, and passable what it lies in, or remove it"
	}
	return e
}

// ours reports whether it is a file or folder of our own that keeps us from
// p, which code inside could have closed, and could open again.
func (l *protectLook) ours(p string) bool {
	for ; ; p = path.Dir(p) {
		var st unix.Stat_t
		err := hostpath.Retry(func() error { return unix.Stat(p, &st) })
		switch {
		case errors.Is(err, unix.EACCES) && p != "/":
		default:
			return err != nil || int(st.Uid) == unix.Geteuid()
		}
	}
}

// kind returns the kind of file at p, an S_IF constant, links not followed,
// and 0 where there is nothing that we, or git, could reach.
func (l *protectLook) kind(p string) uint32 {
	var st unix.Stat_t
	err := hostpath.Retry(func() error { return unix.Lstat(p, &st) })
	if err == nil {
		return uint32(st.Mode) & unix.S_IFMT
	}
	if errors.Is(err, unix.EACCES) && l.ours(path.Dir(p)) {
		l.fail(unread(p, err))
	}
	return 0
}

// canonical returns where the path p leads to, taken from base unless it is
// absolute.
func (l *protectLook) canonical(p, base string) (string, bool) {
	if !strings.HasPrefix(p, "/") {
		p = base + "/" + p
	}
	c, err := hostpath.Canonical(p)
	l.lost(p, err)
	return c, err == nil
}

// trace returns where the absolute path p leads to, and the links on the way
// there that code inside could exchange. Of a path that leads nowhere it is
// the links alone.
func (l *protectLook) trace(p string) (to string, links []string, ok bool) {
	to, via, err := hostpath.Trace(p)
	if err != nil {
		l.lost(p, err)
		link := l.detour(path.Clean(p))
		return "", []string{link}, link != "" && l.writable(link)
	}
	for _, v := range via {
		if v != to && l.writable(v) && l.kind(v) == unix.S_IFLNK {
			links = append(links, v)
		}
	}
	return to, links, true
}

// lost ends the look where a path cannot be followed for a reason that code
// inside could have made, and could undo.
func (l *protectLook) lost(p string, err error) {
	if sandbox.CodeOf(err) != sandbox.CodeUnavailable || errors.Is(err, unix.ENAMETOOLONG) {
		return
	}
	if !errors.Is(err, unix.EACCES) || l.ours(path.Dir(p)) {
		l.fail(unread(p, err))
	}
}
