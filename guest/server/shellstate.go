//go:build linux

package server

import (
	"io"
	"os"
)

// maxState bounds the state that is kept of a shell in bytes. Of a larger
// one nothing is kept: the state before it stays.
const maxState = 16 << 20

// A shellState is what a new process of a shell starts from: what the last
// one said of itself after a line, as a script that only a shell reads. The
// next state goes to a second file, so that there is always a whole one.
type shellState struct {
	files [2]*os.File
	next  int   // the file that is written
	size  int64 // of it, or beyond maxState
	err   error
	good  *os.File // nil: there is none yet
}

func newShellState() (*shellState, error) {
	s := &shellState{}
	for i := range s.files {
		f, err := memoryFile()
		if err != nil {
			s.close()
			return nil, err
		}
		s.files[i] = f
	}
	return s, nil
}

// begin starts a new state.
func (s *shellState) begin() {
	s.size, s.err = 0, s.files[s.next].Truncate(0)
}

// write adds to the new state.
func (s *shellState) write(p []byte) {
	if s.size += int64(len(p)); s.size > maxState || s.err != nil || len(p) == 0 {
		return
	}
	_, s.err = s.files[s.next].WriteAt(p, s.size-int64(len(p)))
}

// commit makes the new state the one that is kept, if it is whole.
func (s *shellState) commit() {
	if s.err == nil && s.size <= maxState {
		s.good = s.files[s.next]
		s.next = 1 - s.next
	}
}

// copy returns a file of its own with what is kept, or nil when there is
// nothing. User code can get at the file that its shell starts from, and
// write there as much as there is memory; what the guest keeps must be out
// of its reach, and the memory must go with the shell.
func (s *shellState) copy() (*os.File, error) {
	if s.good == nil {
		return nil, nil
	}
	f, err := memoryFile()
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(f, io.NewSectionReader(s.good, 0, maxState)); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// drop forgets what was kept.
func (s *shellState) drop() { s.good = nil }

func (s *shellState) close() {
	for _, f := range s.files {
		if f != nil {
			f.Close()
		}
	}
}
