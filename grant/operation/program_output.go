package operation

import (
	"io"
	"strconv"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant/budget"
)

// An output takes one of the streams of a program: at most what the profile has
// room for, counted by the meter, digested, and its first bytes kept. A Write is
// for one goroutine at a time; the rest is for after the last one.
type output struct {
	room *room
	w    io.Writer // the meter's, to sink
	hash *evidence.Hash
	kept []byte
	keep int64
}

func newOutput(m *budget.Meter, r *room, keep int64) *output {
	o := &output{room: r, hash: evidence.NewHash(), keep: keep}
	o.w = m.Writer(budget.BytesIn, sink{o})
	return o
}

// Write implements io.Writer. The first byte that is too much, of the profile or
// of the budget, ends the operation.
func (o *output) Write(p []byte) (int, error) {
	n := o.room.take(len(p))
	written, err := o.w.Write(p[:n])
	if err == nil && n < len(p) {
		err = errTooMuch()
	}
	return written, err
}

// A sink is where an output's bytes go once they are counted.
type sink struct{ o *output }

func (s sink) Write(p []byte) (int, error) {
	o := s.o
	if n := min(o.keep-int64(len(o.kept)), int64(len(p))); n > 0 {
		o.kept = append(o.kept, p[:n]...)
	}
	return o.hash.Write(p)
}

// A room is how much both outputs of a program may have together.
type room struct {
	over func() // called at the first byte that is too much

	mu   sync.Mutex
	left int64
}

// take takes room for as many of n bytes as there is.
func (r *room) take(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if int64(n) > r.left {
		n = int(max(0, r.left))
		r.over()
	}
	r.left -= int64(n)
	return n
}

func tooMuch(program string, most int64) error {
	e := errTooMuch()
	e.Resource, e.Message = program, "a program may write at most "+strconv.FormatInt(most, 10)+" bytes, and was ended"
	return e
}

func errTooMuch() *sandbox.Error {
	return &sandbox.Error{
		Code: sandbox.CodeCapabilityBlocked, Op: "execute", Field: "profile.limits.maxBytesIn",
		Message: "the program writes too much", Hint: "have it write to a file, and read that in parts",
	}
}
