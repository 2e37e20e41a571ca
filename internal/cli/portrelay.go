package cli

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/bulkhead-dev/sandbox/manager"
)

const (
	// relayIdle is how long nothing comes before a direction is parked.
	relayIdle = 250 * time.Millisecond
	// relayLittle is what a direction reads at once while little comes, relayMuch
	// while much does, and relayMost where it has one of the relayLarge buffers of that
	// size, which all directions share.
	relayLittle, relayMuch, relayMost = 1 << 10, 64 << 10, 512 << 10
	relayLarge                        = 8
)

// A relay joins pairs of connections. One of a pair that is idle, as most are most of
// the time, costs neither a goroutine nor a buffer: the kernel says when something
// comes, where it can. A relay is safe for concurrent use.
type relay struct {
	parker *parker     // nil where the kernel cannot say
	little sync.Pool   // of *[relayLittle]byte
	much   sync.Pool   // of *[relayMuch]byte
	large  chan []byte // of relayMost, nil where it was not made yet

	mu    sync.Mutex
	pairs map[*pair]struct{}
	over  bool
}

// A pair is two connections of which each gets what the other sends.
type pair struct {
	r    *relay
	done func() // called once, when both directions have ended
	dirs [2]direction

	mu     sync.Mutex
	left   int // directions that have not ended
	broken bool
}

// A direction carries what comes from one connection of a pair to the other.
type direction struct {
	p        *pair
	from, to net.Conn
	raw      syscall.RawConn // of from, nil where it is not known
	parked   uint64          // its number at the parker, 0 where it is not there; guarded by p.mu
}

// newRelay returns a relay that has to be closed.
func newRelay() *relay {
	r := &relay{pairs: map[*pair]struct{}{}, parker: newParker(), large: make(chan []byte, relayLarge)}
	for range relayLarge {
		r.large <- nil
	}
	r.little.New = func() any { return new([relayLittle]byte) }
	r.much.New = func() any { return new([relayMuch]byte) }
	return r
}

// join carries both directions until both have ended, closes the connections and calls
// done. It returns at once.
func (r *relay) join(a, b net.Conn, done func()) {
	p := &pair{r: r, done: done, left: 2}
	p.dirs = [2]direction{{p: p, from: a, to: b, raw: rawOf(a)}, {p: p, from: b, to: a, raw: rawOf(b)}}
	r.mu.Lock()
	over := r.over
	if !over {
		r.pairs[p] = struct{}{}
	}
	r.mu.Unlock()
	if over {
		_ = a.Close()
		_ = b.Close()
		done()
		return
	}
	go p.dirs[0].run()
	go p.dirs[1].run()
}

func rawOf(c net.Conn) syscall.RawConn {
	s, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// close ends every pair.
func (r *relay) close() {
	r.mu.Lock()
	r.over = true
	var open []*pair
	for p := range r.pairs {
		open = append(open, p)
	}
	r.mu.Unlock()
	for _, p := range open {
		p.breakOff()
	}
	r.parker.close()
}

// run carries the direction until it ends or is parked.
func (d *direction) run() {
	if d.raw == nil || d.p.r.parker == nil {
		d.end(manager.CopyDirection(d.to, d.from))
		return
	}
	parked, err := d.busy()
	if !parked {
		d.end(err)
	}
}

// busy copies until nothing has come for a while and the direction is parked, or until
// its end.
func (d *direction) busy() (parked bool, err error) {
	little := d.p.r.little.Get().(*[relayLittle]byte)
	defer d.p.r.little.Put(little)
	for {
		full, err := d.copyOnce(little[:])
		if err == nil && full {
			err = d.copyMuch()
		}
		if os.IsTimeout(err) && d.park() {
			return true, nil
		}
		if err != nil && !os.IsTimeout(err) {
			return false, err
		}
	}
}

// copyMuch copies until less comes than a small buffer holds.
func (d *direction) copyMuch() error {
	b, giveBack := d.p.r.room()
	defer giveBack()
	for {
		if full, err := d.copyOnce(b); err != nil || !full {
			return err
		}
	}
}

// room returns a buffer for much, a large one as long as there is one: with fewer
// system calls and wake-ups for its bytes a connection carries more of them.
func (r *relay) room() (b []byte, giveBack func()) {
	select {
	case b = <-r.large:
		if b == nil {
			b = make([]byte, relayMost)
		}
		return b, func() { r.large <- b }
	default:
		much := r.much.Get().(*[relayMuch]byte)
		return much[:], func() { r.much.Put(much) }
	}
}

// copyOnce copies what comes first, and reports whether it was much. Where nothing
// comes for a while, [os.IsTimeout] is true of the error.
func (d *direction) copyOnce(b []byte) (full bool, err error) {
	if err := d.from.SetReadDeadline(time.Now().Add(relayIdle)); err != nil {
		return false, err
	}
	n, err := d.from.Read(b)
	if n > 0 {
		if _, failed := d.to.Write(b[:n]); failed != nil {
			return false, failed
		}
	}
	return n >= relayLittle, err
}

// park has the direction run again when something comes. It reports false where that
// cannot be had, or the pair has been broken.
func (d *direction) park() bool {
	if d.from.SetReadDeadline(time.Time{}) != nil {
		return false
	}
	d.p.mu.Lock()
	defer d.p.mu.Unlock()
	if d.p.broken {
		return false
	}
	d.parked = d.p.r.parker.park(d.raw, d)
	return d.parked != 0
}

// wake runs a direction that was parked with a number, unless its pair was broken
// meanwhile.
func (d *direction) wake(number uint64) {
	d.p.mu.Lock()
	defer d.p.mu.Unlock()
	if d.parked != number {
		return
	}
	d.parked = 0
	go d.run()
}

// end passes the end of the direction on. One that fails ends the other.
func (d *direction) end(err error) {
	half, ok := d.to.(interface{ CloseWrite() error })
	if !endOf(err) || !ok || half.CloseWrite() != nil {
		d.p.breakOff()
	}
	d.p.ended(1)
}

// breakOff closes both connections, which ends the directions that run, and ends those
// that are parked.
func (p *pair) breakOff() {
	p.mu.Lock()
	p.broken = true
	parked := 0
	for i := range p.dirs {
		if n := p.dirs[i].parked; n != 0 {
			p.dirs[i].parked = 0
			p.r.parker.forget(n)
			parked++
		}
	}
	p.mu.Unlock()
	_ = p.dirs[0].from.Close()
	_ = p.dirs[0].to.Close()
	p.ended(parked)
}

// ended counts directions that have ended.
func (p *pair) ended(n int) {
	p.mu.Lock()
	p.left -= n
	last := n > 0 && p.left == 0
	p.mu.Unlock()
	if !last {
		return
	}
	_ = p.dirs[0].from.Close()
	_ = p.dirs[0].to.Close()
	p.r.mu.Lock()
	delete(p.r.pairs, p)
	p.r.mu.Unlock()
	p.done()
}

// endOf reports whether err is the end of what comes.
func endOf(err error) bool { return err == nil || err == io.EOF }
