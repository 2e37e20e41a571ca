// The mountwatch files report whether the mounts of a sandbox are still those
// that it was built with.
//
// When a host process replaces or removes a file, the kernel removes the mounts
// on that file in other mount namespaces, because mounts that a process cannot
// see must not block it. So "git config" on the host, or an editor that saves
// by renaming, opens a closed file in every running sandbox, while the plan for
// the next sandbox is the same as before. The kernel counts the changes of each
// mount namespace; reading that counter costs a microsecond.
//
// When a host process renames such a file, or a folder above it, the mount
// moves along with the file. The namespace counts no change, and a new file
// under the old name is open. A [Guard] detects this with watches on the files
// that the mounts lie on.
//
// A caller that is about to start a command calls [MountWatch.Changed]. For
// commands that already run, a [Guard] waits for events of the kernel and
// checks the mounts at once. Between the change on the host and the end of the
// sandbox a few milliseconds pass, in which a waiting program can do what the
// mount prevented. This gap cannot be closed with Landlock: it has no
// exceptions below an allowed folder, and the replacing file is another file
// than the closed one.

package hostscan

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// maxText bounds the mountinfo of one namespace in bytes: a sandbox has at most
// some thousand mounts.
const maxText = 16 << 20

// A MountWatch watches the mount namespace of one process, even after the
// process has ended. It is safe for concurrent use.
type MountWatch struct {
	mu      sync.Mutex
	f       *os.File
	changed bool
}

// OpenMountWatch watches the mount namespace of the process pid, a process id
// of the host. Changes count from this call on, so Changed refers to a text
// that [MountWatch.Text] returns afterwards.
func OpenMountWatch(pid int) (*MountWatch, error) {
	path := fmt.Sprintf("/proc/%d/mountinfo", pid)
	// os.Open would register a pollable file with the runtime's poller, and the
	// kernel reports each change only to the first poll.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	w := &MountWatch{f: f}
	if _, err := w.poll(); err != nil { // earlier changes do not count
		f.Close()
		return nil, err
	}
	return w, nil
}

// Text returns the mountinfo, see proc(5), of the namespace.
func (w *MountWatch) Text() (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return read(int(w.f.Fd()))
}

// MountTable returns the mountinfo, see proc(5), of this process.
func MountTable() (string, error) {
	const path = "/proc/self/mountinfo"
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	return read(fd)
}

// firstText is about the size of one namespace's mountinfo.
const firstText = 16 << 10

// read reads the open mountinfo fd from its beginning. It offers a large buffer
// to each call, because the kernel searches for the read position at every
// call.
func read(fd int) (string, error) {
	text := make([]byte, 0, firstText)
	for {
		if cap(text)-len(text) < firstText/4 {
			if len(text) > maxText {
				return "", errors.New("there are too many mounts")
			}
			text = append(make([]byte, 0, 2*cap(text)), text...)
		}
		n, err := unix.Pread(fd, text[len(text):cap(text)], int64(len(text)))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return "", os.NewSyscallError("pread", err)
		case n == 0:
			return string(text), nil
		}
		text = text[:len(text)+n]
	}
}

// Changed reports whether a file system was mounted, unmounted or changed since
// OpenMountWatch. Once true it stays true; it is also true after an error.
func (w *MountWatch) Changed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.changed {
		changed, err := w.poll()
		w.changed = changed || err != nil
	}
	return w.changed
}

// Close ends the watch. Afterwards Changed returns true.
func (w *MountWatch) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed = true
	return w.f.Close()
}

// poll reports whether the namespace changed since the last call.
func (w *MountWatch) poll() (bool, error) {
	fds := []unix.PollFd{{Fd: int32(w.f.Fd()), Events: unix.POLLPRI}}
	for {
		if _, err := unix.Poll(fds, 0); !errors.Is(err, unix.EINTR) {
			return fds[0].Revents&(unix.POLLPRI|unix.POLLERR|unix.POLLNVAL) != 0, err
		}
	}
}
