package client

import (
	"errors"
	"io"
	"os"
	"sync"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// maxShelved bounds the states of ended shells in our memory, in bytes for each
// client. The processes that wrote them are gone and count towards no limit any
// more, and the owner of the shells may keep them for long.
const maxShelved = 2 * wire.MaxSize

var (
	// errDropped means that a shell was closed, and its state with it.
	errDropped = errors.New("the state is not kept any more")
	// errShelf means that other states have taken all the room.
	errShelf = errors.New("the states of other shells that have ended take too much memory")
)

// A shelf counts the states of a client's ended shells.
type shelf struct {
	mu   sync.Mutex
	held int // bytes
}

// take reports whether there is room for n more bytes, which are then held.
func (s *shelf) take(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held+n > maxShelved {
		return false
	}
	s.held += n
	return true
}

func (s *shelf) give(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held -= n
}

// A keeping is the state of one shell: as long as the shell lives in the
// files of the guest, and then in our memory, because files are as large as
// the guest makes them.
type keeping struct {
	came  chan struct{} // closed when files are there, or never will be
	shelf *shelf        // of the client

	mu      sync.Mutex
	files   []*os.File // index and two contents; nil when they are not there
	filled  bool
	dropped bool
	ended   bool // record, content and err are what there was at the end
	record  wire.Record
	content []byte
	err     error
}

// take implements taker: three small files in memory, or a violation.
func (k *keeping) take(m wire.Message) error {
	if m.Kind != wire.KindState || len(m.FDs) != 3 {
		m.Discard()
		k.fill(nil)
		return wire.Violation("descriptors that were not asked for")
	}
	files := make([]*os.File, 0, len(m.FDs))
	for i, fd := range m.FDs {
		f, err := wire.Open(fd, wire.MaxSize)
		if err != nil {
			wire.Message{FDs: m.FDs[i:]}.Discard()
			closeAll(files)
			k.fill(nil)
			return wire.Violation("what was handed over is no state of a shell")
		}
		files = append(files, f)
	}
	k.fill(files)
	return nil
}

// none implements taker.
func (k *keeping) none() { k.fill(nil) }

// fill takes the files, nil for none. Only the first call counts.
func (k *keeping) fill(files []*os.File) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.filled || k.dropped {
		closeAll(files)
	} else {
		k.files = files
	}
	if !k.filled {
		k.filled = true
		close(k.came)
	}
}

// here reports whether the files came.
func (k *keeping) here() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.files != nil
}

// over reports whether nothing more will be kept of the line. Of a shell that
// has ended that is so of any line.
func (k *keeping) over(line uint32) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended || k.files == nil {
		return true, nil
	}
	r, err := wire.Look(k.files[0])
	return r.Over >= line, err
}

// read returns the last whole state.
func (k *keeping) read() (wire.Record, []byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.dropped:
		return wire.Record{}, nil, errDropped
	case k.ended:
		return k.record, k.content, k.err
	case k.files == nil:
		return wire.Record{}, nil, wire.ErrNoRecord
	}
	return wire.Read(k.files[0], [2]io.ReaderAt{k.files[1], k.files[2]})
}

// retire notes the last whole state and lets go of the files, of a shell
// that has ended.
func (k *keeping) retire() {
	record, content, err := k.read()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended || k.dropped {
		return
	}
	if !k.shelf.take(len(content)) {
		content, err = nil, errShelf
	}
	k.ended, k.record, k.content, k.err = true, record, content, err
	closeAll(k.files)
	k.files = nil
}

// drop lets go of everything.
func (k *keeping) drop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	closeAll(k.files)
	k.shelf.give(len(k.content))
	k.files, k.content, k.dropped = nil, nil, true
}
