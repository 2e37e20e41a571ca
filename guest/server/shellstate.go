//go:build linux

package server

import (
	"io"
	"os"
	"sync"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

const (
	// maxState bounds the state that is kept of a shell in bytes. Of a larger
	// one nothing is kept: the state before it stays.
	maxState = wire.MaxSize
	// roomyState is how long a file stays that is to be written again. What is
	// left in it beyond the new state is not used.
	roomyState = 64 << 10
)

// A shellState is what a new process of a shell starts from: what the last
// one said of itself after a line, as a script that only a shell reads, but for
// its ends, see [dialect.Usual]. The next state goes to a second file, so that there is always a whole one.
//
// If the client is to read the state after the end of the guest, there is an
// index too, see snapshot_doc.go of package wire.
type shellState struct {
	mu    sync.Mutex // held by [shellState.content], and where good, whole and its file change
	files [2]*os.File
	next  int      // the file that is written
	line  uint32   // after which the next state is written
	size  int64    // of it, or beyond maxState
	room  [2]int64 // what was written to the files at most since they were empty
	err   error
	good  *os.File // nil: there is none yet
	whole int64    // size of what is kept
	usual *bool    // it is that of a usual shell of bash; nil: not known yet

	index  *os.File    // nil: the client has not asked for one
	sum    uint32      // of what was written
	record wire.Record // the one in the index
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

// begin starts a new state, that after the line.
func (s *shellState) begin(line uint32) {
	s.line, s.size, s.sum, s.err = line, 0, 0, nil
	if s.room[s.next] > roomyState {
		s.room[s.next], s.err = 0, s.files[s.next].Truncate(0)
	}
}

// again starts a new state that is meant to be the one that is kept.
func (s *shellState) again() { s.begin(s.record.Kept) }

// write adds to the new state.
func (s *shellState) write(p []byte) {
	if s.size += int64(len(p)); s.size > maxState || s.err != nil || len(p) == 0 {
		return
	}
	_, s.err = s.files[s.next].WriteAt(p, s.size-int64(len(p)))
	s.room[s.next] = max(s.room[s.next], s.size)
	if s.index != nil {
		s.sum = wire.Sum(s.sum, p)
	}
}

// commit makes the new state the one that is kept, if it is whole.
func (s *shellState) commit() {
	if s.err != nil || s.size > maxState {
		return
	}
	r := s.record
	r.File, r.Kept, r.Over, r.Size, r.Sum = uint32(s.next), s.line, max(r.Over, s.line), uint32(s.size), s.sum
	if s.publish(r) != nil {
		return // the last record still speaks of the other file
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.good, s.whole, s.usual = s.files[s.next], s.size, nil
	s.next = 1 - s.next
}

// stays says that what is kept is the state after the line, too.
func (s *shellState) stays(line uint32) {
	r := s.record
	r.Kept, r.Over = line, max(r.Over, line)
	_ = s.publish(r) // as for over
}

// isSince reports whether what is kept is the state after that line or a later one.
func (s *shellState) isSince(line uint32) bool { return s.good != nil && s.record.Kept >= line }

// isUsual reports whether what is kept, which there is, is the state of a usual
// shell of bash.
func (s *shellState) isUsual() bool {
	if s.usual == nil {
		var b [usualTail]byte
		n, err := s.good.ReadAt(b[:min(s.whole, int64(len(b)))], max(0, s.whole-int64(len(b))))
		s.usual = new(err == nil && usualProtocol(s.head(), b[:n]))
	}
	return *s.usual
}

// head is how what is kept begins.
func (s *shellState) head() []byte {
	var b [usualHead]byte
	n, _ := s.good.ReadAt(b[:min(s.whole, int64(len(b)))], 0) // of our memory
	return b[:n]
}

// hasTraps reports whether what is kept tells the traps that a shell has for
// itself.
func (s *shellState) hasTraps() bool {
	if s.good == nil {
		return false
	}
	reported, _ := hasTraps(s.head())
	return reported
}

// mayEnd reports whether a trap in what is kept could end the shell in a later
// line.
func (s *shellState) mayEnd() bool {
	if s.good == nil || !s.hasTraps() {
		return false
	}
	b := make([]byte, min(s.whole, trapsHeadLen))
	n, _ := s.good.ReadAt(b, 0) // of our memory
	return mayEnd(b[:n])
}

// over says that no state will be kept of the line any more.
func (s *shellState) over(line uint32) {
	if r := s.record; r.Over < line {
		r.Over = line
		_ = s.publish(r) // a client that waits for it gives up after a while
	}
}

// publish writes the next record of the index, if there is one.
func (s *shellState) publish(r wire.Record) error {
	r.Serial++
	if s.index != nil {
		b, offset := r.Encode()
		if _, err := s.index.WriteAt(b[:], offset); err != nil {
			return err
		}
	}
	s.record = r
	return nil
}

// expose makes the index. Precondition: nothing is kept yet.
func (s *shellState) expose() (err error) {
	if s.index, err = memoryFile(); err != nil {
		return err
	}
	return s.publish(wire.Record{File: wire.None})
}

// load makes what is in f the state that is kept.
func (s *shellState) load(f *os.File) error {
	s.again()
	r, b := io.NewSectionReader(f, 0, maxState+1), make([]byte, controlSize)
	for {
		n, err := r.Read(b)
		s.write(b[:n])
		switch {
		case err == io.EOF:
			if s.commit(); s.good == nil {
				return errState
			}
			return nil
		case err != nil:
			return err
		}
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
	if _, err := io.Copy(f, io.NewSectionReader(s.good, 0, s.whole)); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// drop forgets what was kept.
func (s *shellState) drop() {
	s.mu.Lock()
	s.good = nil
	s.mu.Unlock()
	r := s.record
	r.File, r.Size, r.Sum = wire.None, 0, 0
	_ = s.publish(r)
}

func (s *shellState) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.good = nil
	for _, f := range append(s.files[:], s.index) {
		if f != nil {
			f.Close()
		}
	}
}
