//go:build linux

package hostpath

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxMounts bounds in bytes the mountinfo of this process.
	maxMounts = 4 << 20
	// firstMounts is about its size on a machine with a few containers.
	firstMounts = 16 << 10
)

// errMounts reports that mountinfo cannot be read, so that the location of
// folders is unknown.
var errMounts = errors.New("what is mounted cannot be read")

// mounts checks whether watched folders still lie where they did when the watch
// began. Only mounts at the watched places count, because a container engine
// mounts file systems for every command in a container.
type mounts struct {
	fd     int    // of mountinfo, which supports poll
	text   []byte // mountinfo as it was read last; nothing was mounted or unmounted since, or nil
	room   int    // bytes that it took last
	known  []byte
	is     bool            // known is what was mounted since before the first watch
	above  map[string]bool // watched folders, and those that they lie in
	counts func(point string) bool
}

func openMounts(counts func(point string) bool) (*mounts, error) {
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &mounts{fd: fd, above: map[string]bool{}, counts: counts}, nil
}

// forget discards the known mounts after a new watch. What was mounted over the
// new folder is unknown until mountinfo has not changed for one call. The text
// stays: while nothing is mounted or unmounted it holds for every folder, so that a
// new watch costs no further read of it.
func (m *mounts) forget() { m.known, m.is = nil, false }

// watched records one more folder.
func (m *mounts) watched(p string) {
	m.forget()
	for ; !m.above[p]; p = path.Dir(p) {
		m.above[p] = true
	}
}

// same reports whether watched folders still lie where they did; stirred says
// that something was mounted or unmounted since the last call. A mount that
// appeared and disappeared in between has hidden no change below it.
func (m *mounts) same(stirred bool) bool {
	switch {
	case stirred && !m.is:
		m.text = nil
		return false // a watch may have been set on a folder under a short-lived mount
	case !stirred && m.is:
		return true
	}
	if stirred {
		m.text = nil
	}
	if m.text == nil {
		text, err := m.read()
		if err != nil {
			return false
		}
		m.text = text
		if !m.is {
			again := []unix.PollFd{{Fd: int32(m.fd), Events: unix.POLLPRI}}
			if n, err := unix.Poll(again, 0); err != nil || n != 0 {
				m.text = nil
				return false
			}
		}
	}
	now, err := m.filter(m.text)
	if err != nil {
		m.text = nil
		return false
	}
	if m.is {
		return bytes.Equal(now, m.known)
	}
	m.known, m.is = now, true
	return true
}

// read returns mountinfo. Its lines contain device numbers, which the kernel reuses
// only after the last watch on the device has reported its end.
func (m *mounts) read() ([]byte, error) {
	text := make([]byte, 0, max(firstMounts, m.room))
	defer func() { m.room = cap(text) }()
	for {
		if len(text) == cap(text) {
			if len(text) >= maxMounts {
				return nil, errMounts
			}
			text = append(make([]byte, 0, 2*cap(text)), text...)
		}
		n, err := unix.Pread(m.fd, text[len(text):cap(text)], int64(len(text)))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, os.NewSyscallError("pread", err)
		case n == 0:
			return text, nil
		}
		text = text[:len(text)+n]
	}
}

// filter removes the mountinfo lines that do not count.
func (m *mounts) filter(text []byte) ([]byte, error) {
	var kept []byte
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) < 5 || line[len(line)-1] != '\n' {
			return nil, io.ErrUnexpectedEOF
		}
		point := plain(string(fields[4]))
		if m.above[point] || m.counts(point) {
			kept = append(kept, line...)
		}
	}
	return kept, nil
}

// plain decodes the octal escapes of mountinfo: blanks and the backslash.
func plain(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`, `\043`, "#").Replace(s)
}

func (m *mounts) close() { unix.Close(m.fd) }
