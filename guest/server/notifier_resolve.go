//go:build linux

package server

import (
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	maxPath  = 4096
	maxLinks = 8 // that hang in the air, one behind the other
)

// A place is where a path leads.
type place struct {
	path   string // clean and absolute; without links as far as it exists
	exists bool
	closed bool // whether it exists cannot be known: it lies in a folder that may not be entered
	parent bool // the folder it would lie in exists
}

// find follows a path as the kernel would. follow says whether a link at its
// end counts. It reports false for what is no path: the files of processes
// that only look like links.
func findNotifier(p string, follow bool) (place, bool) {
	flags := unix.O_PATH
	if !follow {
		flags |= unix.O_NOFOLLOW
	}
	for range maxLinks {
		got, err := canonical(p, flags)
		switch err {
		case nil:
			return place{path: got, exists: true, parent: true}, true
		case unix.ENOENT, unix.ENOTDIR, unix.EACCES:
		default:
			return place{}, false
		}
		at, ok := approach(p)
		if !ok {
			return place{}, false
		}
		if at.parent && follow && err == unix.ENOENT {
			if to, is := readlink(at.path); is { // that hangs in the air: it would be made where it points
				p = join(path.Dir(at.path), to)
				continue
			}
		}
		at.closed = err == unix.EACCES
		return at, true
	}
	return place{}, false
}

// approach finds as much of a path as there is, its last name left out.
func approach(p string) (place, bool) {
	at := place{parent: true}
	rest := ""
	for dir := p; ; at.parent = false {
		dir = strings.TrimRight(dir, "/")
		cut := strings.LastIndexByte(dir, '/')
		if cut < 0 {
			return place{}, false
		}
		rest = dir[cut:] + rest
		if dir = dir[:cut+1]; len(dir) == 0 {
			return place{}, false
		}
		got, err := canonical(dir, unix.O_PATH)
		switch err {
		case nil:
			at.path = path.Join(got, rest) // ".." behind what is not there leads nowhere
			return at, true
		case unix.ENOENT, unix.ENOTDIR, unix.EACCES:
		default:
			return place{}, false
		}
	}
}

// canonical returns the one path of what is at p. Mostly p is that, and the
// kernel says so.
func canonical(p string, flags int) (string, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := openat2(p, &how)
	if err == nil {
		unix.Close(fd)
		return path.Clean(p), nil
	}
	if err != unix.ELOOP {
		return "", err
	}
	how.Resolve = unix.RESOLVE_NO_MAGICLINKS
	if fd, err = openat2(p, &how); err != nil {
		return "", err
	}
	defer unix.Close(fd)
	got, ok := readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if !ok || got == "" || got[0] != '/' {
		return "", unix.ELOOP
	}
	return got, nil
}

func openat2(p string, how *unix.OpenHow) (fd int, err error) {
	for {
		if fd, err = unix.Openat2(unix.AT_FDCWD, p, how); err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

func readlink(p string) (string, bool) {
	var b [maxPath]byte
	n, err := unix.Readlink(p, b[:])
	if err != nil || n <= 0 || n == len(b) {
		return "", false
	}
	return string(b[:n]), true
}

// join puts a path behind the folder it starts at. It does not shorten it:
// ".." behind a link is not the folder before.
func join(folder, p string) string {
	if strings.HasPrefix(p, "/") {
		return p
	}
	return folder + "/" + p
}
