package hostscan

import (
	"errors"
	"path"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"golang.org/x/sys/unix"
)

// fail ends the look with err. Code inside can block access to a file, with a
// lease or the mode of a folder, and must not gain from that.
func (l *protectLook) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// file reads a small file. Any error ends the look, except that the file is
// missing, odd or not accessible.
func (l *protectLook) file(p string, limit int64) ([]byte, error) {
	data, err := hostpath.File(p, limit)
	switch {
	case err == nil, hostpath.Gone(err), odd(err), errors.Is(err, unix.ENAMETOOLONG):
	case errors.Is(err, unix.EACCES) && (!l.ours(p) || l.kind(p) != unix.S_IFREG): // a stub is a socket, which only root can open
	default:
		l.fail(unread(p, err))
	}
	return data, err
}

// odd reports whether err says that the path is not a regular file, or that the
// file is too long.
func odd(err error) bool { return errors.Is(err, hostpath.ErrOdd) }

func unread(p string, err error) error {
	e := &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "look for what to protect", Resource: p, Err: err, Retryable: true,
		Message: "it is not known what git runs, because a file or folder cannot be read",
	}
	if errors.Is(err, unix.EACCES) {
		e.Code, e.Retryable, e.Hint = sandbox.CodeCapabilityBlocked, false, "make it readable, and passable what it lies in, or remove it"
	}
	return e
}

// ours reports whether p is inaccessible because of a file or folder of this
// user, which code inside could have closed and could open again.
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

// kind returns the kind of file at p, an S_IF constant, without following
// links. It returns 0 if neither this process nor git could reach a file there.
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

// canonical resolves the path p, relative to base unless it is absolute.
func (l *protectLook) canonical(p, base string) (string, bool) {
	if !strings.HasPrefix(p, "/") {
		p = base + "/" + p
	}
	c, err := hostpath.Canonical(p)
	l.lost(p, err)
	return c, err == nil
}

// trace resolves the absolute path p. It also returns the links on the path
// that code inside could replace. For a path that leads nowhere it returns only
// the links.
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

// lost ends the look if a path cannot be followed for a reason that code inside
// could have caused and could undo.
func (l *protectLook) lost(p string, err error) {
	if sandbox.CodeOf(err) != sandbox.CodeUnavailable || errors.Is(err, unix.ENAMETOOLONG) {
		return
	}
	if !errors.Is(err, unix.EACCES) || l.ours(path.Dir(p)) {
		l.fail(unread(p, err))
	}
}
