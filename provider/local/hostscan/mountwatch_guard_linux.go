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

// A Guard looks at the mounts of a [Watch] whenever they may have changed. It
// waits in the program's own poller, so it takes two goroutines and two
// descriptors, and no thread.
type Guard struct {
	files []*os.File
	gone  sync.WaitGroup

	mu     sync.Mutex
	enough bool
	look   func() (enough bool)
}

// Guard has look be called once soon, and then each time that something is
// mounted, unmounted or changed in the namespace, or that one of the paths is
// renamed on the host: the mount on it goes along, of which the namespace hears
// nothing. It ends when look says that it has seen enough, or with Close, which
// look must not call. Calls of look do not overlap.
//
// An error beside a Guard says that renames are not all seen. Without a Guard
// it is [os.ErrProcessDone] when the process has ended.
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
	// The poller is told of changes before it has asked, so that the first look
	// has them all. It hears of a file that can always be read when the file says
	// so anew, which this one does with each change.
	g.gone.Go(func() { await(mounts, func(int) bool { return g.ask() }) })
	return g, missed
}

// again opens the namespace's mounts once more: each change is told once to
// each opening.
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

// waitable makes a file of a descriptor for which the program's poller waits.
func waitable(fd int, name string) (*os.File, error) {
	f := os.NewFile(uintptr(fd), name)
	if err := f.SetReadDeadline(time.Time{}); err != nil {
		f.Close()
		return nil, &os.PathError{Op: "wait for", Path: name, Err: err}
	}
	return f, nil
}

// ask looks, unless enough was seen.
func (g *Guard) ask() (enough bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.enough {
		g.enough = g.look()
	}
	return g.enough
}

// Close ends the guard, and returns when look is called no more.
func (g *Guard) Close() {
	for _, f := range g.files {
		f.Close()
	}
	g.gone.Wait()
}

// await calls woken at once and each time that there is news of f, until it
// says true or f is closed.
func await(f *os.File, woken func(fd int) (enough bool)) {
	raw, err := f.SyscallConn()
	if err == nil {
		_ = raw.Read(func(fd uintptr) bool { return woken(int(fd)) })
	}
}

// movesOf returns a file that has something to read when one of the paths was
// renamed. What is not there is left out.
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

// watchMove has fd told when what is at p is renamed. What is not there is left
// out, and what we may not read is watched by the folder that it is in, as are
// its neighbours then.
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

// drain reads all that there is, and reports whether that was something.
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
