package hostscan

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Guard calls a function whenever the mounts of a [MountWatch] may have
// changed. It waits in the runtime's poller, so it takes two goroutines and two
// descriptors, and no thread.
type Guard struct {
	files []*os.File
	gone  sync.WaitGroup

	mu     sync.Mutex
	enough bool
	look   func() (enough bool)
}

// Guard calls look once soon, and then each time that a file system is mounted,
// unmounted or changed in the namespace, or that one of the paths is renamed on
// the host: a rename moves the mount on the path without an event in the
// namespace. It ends when look returns true or when the caller calls Close,
// which look must not call. Calls of look do not overlap.
//
// If Guard returns both a Guard and an error, it misses some renames. Without a
// Guard, the error is [os.ErrProcessDone] if the process has ended.
func (w *MountWatch) Guard(paths []string, look func() (enough bool)) (*Guard, error) {
	mounts, err := w.again()
	if err != nil {
		return nil, err
	}
	g := &Guard{look: look, files: []*os.File{mounts}}
	moves, missed := movesOf(paths)
	if moves != nil {
		g.files = append(g.files, moves)
		g.gone.Go(func() { await(moves, func(fd int) bool { return drain(fd) && g.ask() }) })
	}
	// The poller registers the file before the first call of look, so that this
	// call sees all earlier changes. The file is always readable, and the
	// poller wakes up only when the kernel signals the file again, which
	// mountinfo does at each change.
	g.gone.Go(func() { await(mounts, func(int) bool { return g.ask() }) })
	return g, missed
}

// again opens the namespace's mountinfo once more: the kernel reports each
// change once to each open file.
func (w *MountWatch) again() (*os.File, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", w.f.Fd()), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, unix.EINVAL): // mounts_open_common of fs/proc_namespace.c
		return nil, os.ErrProcessDone
	case err != nil:
		return nil, &os.PathError{Op: "open", Path: w.f.Name(), Err: err}
	}
	return waitable(fd, w.f.Name())
}

// waitable returns a file for the descriptor that uses the runtime's poller.
func waitable(fd int, name string) (*os.File, error) {
	f := os.NewFile(uintptr(fd), name)
	if err := f.SetReadDeadline(time.Time{}); err != nil {
		f.Close()
		return nil, &os.PathError{Op: "wait for", Path: name, Err: err}
	}
	return f, nil
}

// ask calls look, unless it has already returned true.
func (g *Guard) ask() (enough bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.enough {
		g.enough = g.look()
	}
	return g.enough
}

// Close ends the guard. After it returns, look is not called any more.
func (g *Guard) Close() {
	for _, f := range g.files {
		f.Close()
	}
	g.gone.Wait()
}

// await calls woken at once and each time that f becomes readable, until woken
// returns true or f is closed.
func await(f *os.File, woken func(fd int) (enough bool)) {
	raw, err := f.SyscallConn()
	if err == nil {
		_ = raw.Read(func(fd uintptr) bool { return woken(int(fd)) })
	}
}

// movesOf returns a file that becomes readable when one of the paths is
// renamed. It ignores missing paths.
func movesOf(paths []string) (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch for renames: %w", err)
	}
	var missed error
	for _, p := range paths {
		if err := watchMove(fd, p); err != nil && missed == nil {
			missed = &os.PathError{Op: "watch for renames", Path: p, Err: err}
		}
	}
	f, err := waitable(fd, "renames")
	if err != nil {
		return nil, err
	}
	return f, missed
}

// watchMove adds an inotify watch to fd for a rename of p. It ignores a missing
// path. For a path without read permission it watches the parent folder, which
// also reports the renames of the neighbours.
func watchMove(fd int, p string) error {
	_, err := unix.InotifyAddWatch(fd, p, unix.IN_MOVE_SELF|unix.IN_DONT_FOLLOW|unix.IN_MASK_ADD)
	if errors.Is(err, unix.EACCES) {
		_, err = unix.InotifyAddWatch(fd, path.Dir(p), unix.IN_MOVED_FROM|unix.IN_ONLYDIR|unix.IN_MASK_ADD)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// drain reads all pending data and reports whether there was any.
func drain(fd int) (some bool) {
	var buf [4096]byte
	for {
		n, err := unix.Read(fd, buf[:])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || n <= 0:
			return some
		default:
			some = true
		}
	}
}
