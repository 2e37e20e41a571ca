package manager

import (
	"bytes"
	"io"
	"sync"
)

// maxRepeat is how much input is kept to be given a second time.
const maxRepeat = 1 << 20

// A repeater gives the input of a command again when the command is run
// again: from where a file or buffer was at first, or from memory. An input
// that is not at its end by then, or too long, cannot be given again.
type repeater struct {
	in     io.Reader
	seeker io.Seeker // nil when in cannot go back
	start  int64

	mu   sync.Mutex
	kept []byte
	lost bool // more than maxRepeat was read
	end  bool // all of it was read
	turn int  // only the reader of this turn reads
}

// newRepeater returns a repeater of in, which may be nil.
func newRepeater(in io.Reader) *repeater {
	r := &repeater{in: in}
	if s, ok := in.(io.Seeker); ok {
		if at, err := s.Seek(0, io.SeekCurrent); err == nil {
			r.seeker, r.start = s, at
		}
	}
	return r
}

// next returns the input for the next run, and false when it cannot be given
// again. What an earlier run still reads is at its end.
func (r *repeater) next() (io.Reader, bool) {
	if r.in == nil {
		return nil, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turn == 0 {
		r.turn++
		return &repeated{r: r, turn: r.turn}, true
	}
	if !r.canLocked() {
		return nil, false
	}
	r.turn++
	if r.seeker == nil {
		return bytes.NewReader(r.kept), true
	}
	if _, err := r.seeker.Seek(r.start, io.SeekStart); err != nil {
		return nil, false
	}
	return &repeated{r: r, turn: r.turn}, true
}

// can reports whether the input can be given again.
func (r *repeater) can() bool {
	if r.in == nil {
		return true
	}
	// A read that waits holds the lock, and is not at the end.
	if !r.mu.TryLock() {
		return false
	}
	defer r.mu.Unlock()
	return r.canLocked()
}

func (r *repeater) canLocked() bool { return r.turn == 0 || r.seeker != nil || r.end && !r.lost }

// repeated is the input of one run.
type repeated struct {
	r    *repeater
	turn int
}

// Read implements io.Reader.
func (p *repeated) Read(b []byte) (int, error) {
	r := p.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turn != p.turn {
		return 0, io.EOF
	}
	n, err := r.in.Read(b)
	if r.seeker == nil {
		r.keep(b[:n])
	}
	if err == io.EOF {
		r.end = true
	}
	return n, err
}

func (r *repeater) keep(b []byte) {
	if r.lost = r.lost || len(r.kept)+len(b) > maxRepeat; r.lost {
		r.kept = nil
		return
	}
	r.kept = append(r.kept, b...)
}
