// Mountwatch: this part of the package tells whether the mounts of a wall are still those that
// it was built with.
//
// Who replaces or removes a file on the host takes along what is mounted on it
// in other mount namespaces: the kernel does not let a mount in the way of
// somebody who does not see it. So "git config" on the host, or an editor that
// saves by renaming, opens a closed file in every wall that stands, and the
// plan for the next one looks the same as before. The kernel counts the
// changes of each mount namespace, and to ask for that costs a microsecond.
//
// Who renames such a file, or a folder above it, takes the mount along as well,
// but to where the file goes: the namespace counts no change, and what is made
// anew under the old name is open. That is seen by what the mounts lie on.
//
// Asking is for who is about to start something. What runs already does not
// ask, so a [Guard] is told by the kernel and looks at once. Between the change
// on the host and the end of a wall there are a few milliseconds, in which a
// program that has waited for that can do what the mount forbade. Nothing closes
// them: Landlock knows what is allowed below a folder and no exception from it,
// and the file that has taken the place is another than the one that was closed.

package hostscan

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// maxText bounds what the kernel says of one namespace: a wall has at most
// some thousand mounts.
const maxText = 16 << 20

// A Watch looks at the mount namespace of one process, also after the process
// has ended. It is safe for concurrent use.
type MountWatch struct {
	mu      sync.Mutex
	f       *os.File
	changed bool
}

// Open watches the mount namespace of the process pid, as the host numbers it.
// Changes count from now on, so what is read with [Watch.Text] afterwards is
// what Changed is about.
func OpenMountWatch(pid int) (*MountWatch, error) {
	path := fmt.Sprintf("/proc/%d/mountinfo", pid)
	// Not os.Open: the runtime would watch a file that can be polled, and the
	// kernel tells each change once, to whoever asks first.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	w := &MountWatch{f: f}
	if _, err := w.poll(); err != nil { // what was before counts as seen
		f.Close()
		return nil, err
	}
	return w, nil
}

// Text returns what is mounted, as in mountinfo of proc(5).
func (w *MountWatch) Text() (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return read(int(w.f.Fd()))
}

// Mounts returns what is mounted where this process is, as in mountinfo of
// proc(5).
func MountTable() (string, error) {
	const path = "/proc/self/mountinfo"
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	return read(fd)
}

// firstText is about what the kernel says of one namespace.
const firstText = 16 << 10

// read reads the open mountinfo fd from its beginning, with as much room for
// each call as the kernel can fill: it looks for where it was at every call.
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

// Changed reports whether anything was mounted, unmounted or changed since
// Open. Once true it stays true, and it is true when the question fails.
func (w *MountWatch) Changed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.changed {
		changed, err := w.poll()
		w.changed = changed || err != nil
	}
	return w.changed
}

// Close ends the watch. Changed is true from then on.
func (w *MountWatch) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed = true
	return w.f.Close()
}

// poll asks whether the namespace changed since the last time.
func (w *MountWatch) poll() (bool, error) {
	fds := []unix.PollFd{{Fd: int32(w.f.Fd()), Events: unix.POLLPRI}}
	for {
		if _, err := unix.Poll(fds, 0); !errors.Is(err, unix.EINTR) {
			return fds[0].Revents&(unix.POLLPRI|unix.POLLERR|unix.POLLNVAL) != 0, err
		}
	}
}
