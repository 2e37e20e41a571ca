//go:build linux

package hostscan

import (
	"bytes"
	"encoding/binary"
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A State is what has happened since a Watch was asked last.
type dirwatchState int

// Each counts more than the one before.
const (
	Quiet         dirwatchState = iota // nothing that counts
	dirwatchStirs                      // something has changed
	// Lost is a change by which folders may lie elsewhere than they did when
	// they were watched, or more of them than could be told. The Watch is of
	// no more use.
	Lost
)

// Now returns what has happened since the last call, or since New.
func (w *DirWatch) Now() dirwatchState {
	fds := [2]unix.PollFd{{Fd: int32(w.events), Events: unix.POLLIN}, {Fd: int32(w.mounts.fd), Events: unix.POLLPRI}}
	n, err := unix.Poll(fds[:], 0)
	switch {
	case err != nil || !w.mounts.same(fds[1].Revents != 0):
		return Lost
	case n == 0 || fds[0].Revents == 0:
		return Quiet
	}
	state := Quiet
	for range maxReads {
		n, err := unix.Read(w.events, w.buf)
		if errors.Is(err, unix.EAGAIN) {
			return state
		}
		if err != nil {
			return Lost
		}
		if state = max(state, w.sort(w.buf[:n])); state == Lost {
			return Lost
		}
	}
	return Lost
}

// sort returns what a row of events comes to.
func (w *DirWatch) sort(b []byte) dirwatchState {
	state := Quiet
	for len(b) > 0 {
		if len(b) < unix.SizeofInotifyEvent {
			return Lost
		}
		wd := int(int32(binary.NativeEndian.Uint32(b)))
		mask := binary.NativeEndian.Uint32(b[unsafe.Offsetof(unix.InotifyEvent{}.Mask):])
		size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[unsafe.Offsetof(unix.InotifyEvent{}.Len):]))
		if size > len(b) {
			return Lost
		}
		name, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:size], []byte{0})
		b = b[size:]
		state = max(state, w.means(wd, mask, string(name)))
	}
	return state
}

// means returns what one event comes to.
func (w *DirWatch) means(wd int, mask uint32, name string) dirwatchState {
	const (
		elsewhere = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_IGNORED | unix.IN_UNMOUNT | unix.IN_Q_OVERFLOW
		left      = unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO
	)
	n, known := w.names[wd]
	folder := mask&unix.IN_ISDIR != 0
	switch {
	case mask&elsewhere != 0 || !known:
		return Lost
	case name != "" && !n.count(name):
		return Quiet
	case mask&unix.IN_ATTRIB != 0 && !folder:
		return Quiet // times, owner and mode of a file
	case folder && mask&left != 0:
		return Lost
	}
	return dirwatchStirs
}
