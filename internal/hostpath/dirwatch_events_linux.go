//go:build linux

package hostpath

import (
	"bytes"
	"encoding/binary"
	"errors"
	"path"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A dirwatchState summarizes the events since the last call of [DirWatch.Now].
type dirwatchState int

// The states, in increasing order of severity.
const (
	Quiet         dirwatchState = iota // no relevant event
	dirwatchStirs                      // a watched name has changed
	// Lost means that watched folders may have moved, or that events were lost.
	// The DirWatch is of no further use.
	Lost
)

// Now returns the most severe state since the last call, or since NewDirWatch.
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

// sort returns the state for a buffer of events.
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

// means returns the state for one event.
func (w *DirWatch) means(wd int, mask uint32, name string) dirwatchState {
	const (
		elsewhere = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_IGNORED | unix.IN_UNMOUNT | unix.IN_Q_OVERFLOW
		left      = unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO
	)
	if w.ofFile(wd, mask) {
		return dirwatchStirs
	}
	n, known := w.names[wd]
	folder := mask&unix.IN_ISDIR != 0
	switch {
	case mask&elsewhere != 0 || !known:
		return Lost
	case name != "" && !n.count(name):
		return Quiet
	case mask&unix.IN_ATTRIB != 0 && !folder:
		return Quiet // times, owner or mode of a file
	case folder && mask&left != 0 && w.within(n, name):
		return Lost
	}
	for _, dir := range n.at {
		w.tell(path.Join(dir, name))
	}
	return dirwatchStirs
}

// within reports whether the folder name of n is watched. Nothing below a folder
// is watched that is not watched itself.
func (w *DirWatch) within(n names, name string) bool {
	for _, dir := range n.at {
		if _, watched := w.paths[path.Join(dir, name)]; watched {
			return true
		}
	}
	return false
}

// tell reports a changed path. What a file watch of that path watches need not
// be there any more.
func (w *DirWatch) tell(p string) {
	w.forgetFile(p)
	if w.changed != nil {
		w.changed(p)
	}
}
