package registry

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// watch calls changed after each claim that appears in one of the folders, and
// each attempt. An error says that the kernel does not tell of them.
func watch(ctx context.Context, folders []string, changed func()) error {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "inotify")
	defer f.Close()
	for _, folder := range folders {
		if _, err := unix.InotifyAddWatch(fd, folder, unix.IN_CREATE|unix.IN_MODIFY|unix.IN_ONLYDIR); err != nil {
			return err
		}
	}
	defer context.AfterFunc(ctx, func() { f.Close() })()
	changed()
	buf := make([]byte, 4096)
	for {
		n, err := f.Read(buf)
		if err != nil {
			return err
		}
		if counts(buf[:n]) {
			changed()
		}
	}
}

// counts reports whether events are about a claim or an attempt, and not about
// files that become one.
func counts(events []byte) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		size := int(binary.NativeEndian.Uint32(events[12:]))
		end := unix.SizeofInotifyEvent + size
		if size < 0 || end > len(events) {
			return true
		}
		name, _, _ := bytes.Cut(events[unix.SizeofInotifyEvent:end], []byte{0})
		mask := binary.NativeEndian.Uint32(events[4:])
		if mask&unix.IN_Q_OVERFLOW != 0 || string(name) == attemptsFile || strings.HasSuffix(string(name), ".json") && !strings.HasPrefix(string(name), ".") {
			return true
		}
		events = events[end:]
	}
	return false
}
