//go:build linux

package files

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxLinks bounds the links of one path, as the kernel does.
	maxLinks = 40
	// maxSteps bounds the names that one path is walked by.
	maxSteps = 100_000
	// maxTries bounds how often something is looked at again that changes
	// while it is looked at.
	maxTries = 16
)

// A walker follows a path name by name. It stands in a folder of the mount
// whose names, from the root on, are no links: ".." leads to the folder that
// was walked through, never to what is the parent by now.
type walker struct {
	root    *Root
	make    bool
	names   []string // of the folder
	fd      int      // of the folder, or -1 when it must be opened again
	pending []step   // the next one last
	links   int
	steps   int
}

// A step is a name that is still to be walked.
type step struct {
	name string
	own  bool // of the path itself, not of a link's target
}

// walk finds the place of rel, following all links. The name of the place is
// "." when rel ends with "." or "..".
func (r *Root) walk(rel string, make bool) (place, error) {
	w := &walker{root: r, make: make, fd: r.fd}
	w.push(rel, true)
	base, err := w.run()
	if err == nil && w.fd < 0 {
		err = w.reenter()
	}
	if err != nil {
		w.leave()
		return place{}, err
	}
	return place{dir: w.fd, owned: w.fd != r.fd, base: base}, nil
}

// push puts the names of p before what is pending. A trailing slash means
// that p is a folder, and so counts as ".".
func (w *walker) push(p string, own bool) {
	list := elements(p)
	if strings.HasSuffix(p, "/") || strings.HasSuffix(p, "/.") || len(list) == 0 {
		list = append(list, ".")
	}
	for _, name := range slices.Backward(list) {
		w.pending = append(w.pending, step{name, own})
	}
}

// run walks all steps and returns the name in the last folder.
func (w *walker) run() (base string, err error) {
	for len(w.pending) > 0 {
		if w.steps++; w.steps > maxSteps {
			return "", unix.ELOOP
		}
		s := w.pending[len(w.pending)-1]
		w.pending = w.pending[:len(w.pending)-1]
		done := false
		switch s.name {
		case ".":
		case "..":
			err = w.up()
		default:
			done, err = w.down(s)
		}
		if err != nil || done {
			return s.name, err
		}
	}
	return ".", nil
}

func (w *walker) up() error {
	if len(w.names) == 0 {
		return ErrEscape
	}
	w.names = w.names[:len(w.names)-1]
	w.leave()
	return nil
}

// leave closes the folder. The root stays open.
func (w *walker) leave() {
	if w.fd >= 0 && w.fd != w.root.fd {
		unix.Close(w.fd)
	}
	w.fd = -1
}

// enter makes fd the folder to stand in.
func (w *walker) enter(fd int) {
	w.leave()
	w.fd = fd
}

// reenter opens the folder of names again, without following any link.
func (w *walker) reenter() error {
	w.fd = w.root.fd
	for _, name := range w.names {
		if w.steps++; w.steps > maxSteps {
			return unix.ELOOP
		}
		fd, err := openat(w.fd, name, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		w.enter(fd)
	}
	return nil
}

// down takes one name. It is done when that is the last one, and no link.
func (w *walker) down(s step) (done bool, err error) {
	if w.fd < 0 {
		if err := w.reenter(); err != nil {
			return false, err
		}
	}
	last := len(w.pending) == 0
	for range maxTries {
		fd, err := openat(w.fd, s.name, unix.O_PATH)
		if err == unix.ENOENT && last {
			return true, nil
		}
		if err == unix.ENOENT && w.make && s.own {
			if err := w.root.k.mkdir(w.fd, s.name, 0o755); err != nil && err != unix.EEXIST {
				return false, err
			}
			continue
		}
		if err != nil {
			return false, err
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			unix.Close(fd)
			return false, err
		}
		if kind(&st) == unix.S_IFLNK {
			unix.Close(fd)
			if err := w.link(s.name); err != unix.EINVAL {
				return false, err
			}
			continue // it is no link any more
		}
		if last {
			unix.Close(fd)
			return true, nil
		}
		if kind(&st) != unix.S_IFDIR {
			unix.Close(fd)
			return false, unix.ENOTDIR
		}
		w.enter(fd)
		w.names = append(w.names, s.name)
		return false, nil
	}
	return false, unix.EAGAIN
}

// link puts the target of the link name before what is pending.
func (w *walker) link(name string) error {
	if w.root.plain {
		return ErrLink
	}
	if w.links++; w.links > maxLinks {
		return unix.ELOOP
	}
	target, err := readlink(w.fd, name)
	if err != nil {
		return err
	}
	if target != "" && target[0] == '/' {
		if target, err = w.root.below(target); err != nil {
			return err
		}
		w.names = nil
		w.leave()
	}
	w.push(target, false)
	return nil
}

// below returns the part of an absolute path that lies below the root, or
// ErrEscape when the path does not begin with the root's own.
func (r *Root) below(target string) (string, error) {
	list := elements(target)
	for _, root := range r.names {
		if len(list) >= len(root) && slices.Equal(list[:len(root)], root) {
			rest := strings.Join(list[len(root):], "/")
			if strings.HasSuffix(target, "/") || strings.HasSuffix(target, "/.") {
				rest += "/."
			}
			return strings.TrimPrefix(rest, "/"), nil
		}
	}
	return "", ErrEscape
}
