package running

import (
	"context"
	"sync"
	"time"
)

// The streams of a command.
const (
	Stdout = 1
	Stderr = 2
)

// A Chunk is a piece of output of one stream.
type Chunk struct {
	Stream int // Stdout or Stderr; on a terminal always Stdout
	Data   []byte

	next int64 // the place behind it
}

// patience is how long a command waits for an attached client that does not
// read.
const patience = 10 * time.Second

// output is what a command has written, as far as it is kept. It is safe for
// concurrent use.
type output struct {
	keep int64
	take func(int64) bool // memory
	life context.Context  // of the command

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at every change; nil without a waiter
	rings    [2]ring
	total    int64    // bytes written
	written  [2]int64 // of them, by stream
	void     int64    // the place where the command began anew; 0 if it did not
	lines    int64    // newlines written
	over     bool
	attached map[*reader]bool
}

// A reader is an attached client. Its fields are guarded by output.mu.
type reader struct {
	next int64
	late bool // it was waited for in vain
}

// writer is one stream of a command.
type writer struct {
	o      *output
	stream int
}

// Write keeps p. It waits while an attached client has too much left to read.
func (w writer) Write(p []byte) (int, error) {
	all := len(p)
	for len(p) > 0 {
		n := min(len(p), w.o.room(w.stream, len(p)))
		w.o.await(w.stream)
		w.o.add(w.stream, p[:n])
		p = p[n:]
	}
	return all, nil
}

// newOutput returns an output whose rings have the least size.
func newOutput(life context.Context, keep int64, take func(int64) bool) *output {
	o := &output{keep: keep, take: take, life: life, attached: map[*reader]bool{}}
	for i := range o.rings {
		o.rings[i].grow(least)
	}
	return o
}

// room makes the ring of a stream larger for n bytes more, if it can be, and
// returns how many fit at once so that attached clients lose nothing.
func (o *output) room(stream, n int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := &o.rings[stream-1]
	if !o.over {
		o.enlarge(r, n)
	}
	return max(len(r.data)/2, 1) // over, nothing is kept
}

// enlarge makes a ring larger for n bytes more as far as memory and bound
// allow. The lock is held.
func (o *output) enlarge(r *ring, n int) {
	want := len(r.data)
	for want < r.size+n && int64(want) < o.keep {
		want = min(max(2*want, least), int(o.keep))
	}
	if want == len(r.data) || !o.take(int64(want-len(r.data))) {
		return
	}
	r.grow(want)
}

// add keeps p, which is not longer than half the ring.
func (o *output) add(stream int, p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		return
	}
	r := &o.rings[stream-1]
	o.enlarge(r, len(p))
	r.add(p, o.total)
	o.total += int64(len(p))
	o.written[stream-1] += int64(len(p))
	for _, b := range p {
		if b == '\n' {
			o.lines++
		}
	}
	o.tell()
}

// again notes that the command begins anew, so that what it has written is void.
func (o *output) again() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.void, o.written = o.total, [2]int64{}
	o.tell()
}

// await waits until no attached client would lose output if half a ring more
// were written.
func (o *output) await(stream int) {
	var timer *time.Timer
	for {
		o.mu.Lock()
		behind := o.slow(int64(len(o.rings[stream-1].data) / 2))
		if len(behind) == 0 {
			o.mu.Unlock()
			break
		}
		changed := o.wait()
		o.mu.Unlock()
		if timer == nil {
			timer = time.NewTimer(patience)
			defer timer.Stop()
		}
		select {
		case <-changed:
		case <-o.life.Done():
			return
		case <-timer.C:
			o.mu.Lock()
			for _, r := range behind {
				r.late = true
			}
			o.tell()
			o.mu.Unlock()
			return
		}
	}
}

// slow returns the attached clients that have more than n bytes left to read.
// The lock is held.
func (o *output) slow(n int64) []*reader {
	var out []*reader
	for r := range o.attached {
		if !r.late && o.total-r.next > n {
			out = append(out, r)
		}
	}
	return out
}

// wait returns what is closed at the next change. The lock is held.
func (o *output) wait() <-chan struct{} {
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return o.changed
}

// tell wakes all waiters. The lock is held.
func (o *output) tell() {
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
}

// end notes that nothing more comes, and returns the memory that is not needed
// for what is kept.
func (o *output) end() (spare int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	for i := range o.rings {
		if r := &o.rings[i]; r.size < len(r.data) {
			spare += int64(len(r.data) - r.size)
			r.grow(r.size)
		}
	}
	o.tell()
	return spare
}

// A reading is a part of the output.
type reading struct {
	chunks  []Chunk
	next    int64 // the place behind it
	dropped int64 // bytes before next that are not kept any more
	more    bool  // there is more behind it already
}

// read returns what is kept from a place on, at most so many bytes. The lock is
// held.
func (o *output) read(from int64, most int) reading {
	from = min(max(from, 0), o.total)
	out := reading{next: o.total}
	a, b := o.rings[0].from(from), o.rings[1].from(from)
	got := int64(0)
	for (len(a) > 0 || len(b) > 0) && most > 0 {
		stream, from := Stdout, &a
		if len(a) == 0 || len(b) > 0 && b[0].at < a[0].at {
			stream, from = Stderr, &b
		}
		s := (*from)[0]
		*from = (*from)[1:]
		n := min(s.n, most)
		data := make([]byte, n)
		o.rings[stream-1].copyOut(data, s.off, n)
		most -= n
		got += int64(n)
		out.next = s.at + int64(n)
		if k := len(out.chunks); k > 0 && out.chunks[k-1].Stream == stream {
			out.chunks[k-1].Data, out.chunks[k-1].next = append(out.chunks[k-1].Data, data...), out.next
		} else {
			out.chunks = append(out.chunks, Chunk{stream, data, out.next})
		}
		if n < s.n {
			out.more = true
		}
	}
	out.more = out.more || len(a)+len(b) > 0
	if !out.more {
		out.next = o.total
	} else if got == 0 {
		out.next = from
	}
	out.dropped = out.next - from - got
	return out
}
