// Pump: this part of the package carries bytes between two connections, in both directions, and
// counts them. Between two TCP connections the bytes stay in the kernel.

package egress

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// ErrIdle is why a pump ended on which nothing passed for the meter's Idle.
var errPumpIdle = errors.New("nothing passed for too long")

// A Pair is two connections that are to be joined.
//
// A connection that is a *net.TCPConn, or says by a method NetConn() that it
// is nothing more than one, is spliced with another such. Nothing may be
// buffered above it. All others are read and written; they should have a
// method CloseWrite.
type pumpPair struct {
	Inside, Outside net.Conn
	First           []byte // read from Inside already; goes out before anything else
	Meter           *meter // counts, bounds, and says how long nothing may pass
}

// Both is [Pair.Run] with nothing to go first.
func bothPump(ctx context.Context, inside, outside net.Conn, m *meter) (in, out int64, err error) {
	return pumpPair{Inside: inside, Outside: outside, Meter: m}.Run(ctx)
}

// Run carries bytes until both directions have ended, and closes both
// connections before it returns. Deadlines that they have are cleared. The
// numbers are those of bytes that were handed to the other side.
//
// The end of one direction is told to the other side by CloseWrite, and the
// other direction goes on; a connection without CloseWrite can only be told by
// its end, which ends both. A connection that is reset has the other one reset.
//
// Everything else ends both at once, by a reset where there is one, so that
// nobody takes a part for the whole; err is then the cause: a limit of the
// meter, ErrIdle, that of ctx, or what a connection failed with. Bytes are
// counted before they pass, so no limit is passed by a byte. A direction whose
// reader takes nothing counts as idle.
func (p pumpPair) Run(ctx context.Context) (in, out int64, err error) {
	r := run{pumpPair: p, ended: make(chan error, 2)}
	r.moved.Store(true)
	for _, c := range []net.Conn{p.Inside, p.Outside} {
		_ = c.SetDeadline(time.Time{}) // one of a handshake before would end it
	}
	go func() { r.ended <- r.direction(&r.out, p.Inside, p.Outside, p.First, p.Meter.Out) }()
	go func() { r.ended <- r.direction(&r.in, p.Outside, p.Inside, nil, p.Meter.In) }()
	left, err := r.watch(ctx)
	if err != nil && !errors.Is(err, errNoHalfClose) {
		reset(p.Inside)
		reset(p.Outside)
	}
	_ = p.Inside.Close()
	_ = p.Outside.Close()
	for range left {
		<-r.ended
	}
	if errors.Is(err, errNoHalfClose) {
		err = nil
	}
	return r.in.Load(), r.out.Load(), err
}

// A run is a Pair under way.
type run struct {
	pumpPair
	in, out atomic.Int64
	moved   atomic.Bool // something passed since the watch looked last
	ended   chan error  // what each direction returned; room for both
}

// ticks is how often the watch looks within the time of Idle, which is thus
// exceeded by at most a quarter.
const ticks = 4

// watch waits for the end. It returns how many directions have not returned
// yet, and why it is the end, unless both have ended in order.
func (r *run) watch(ctx context.Context) (left int, err error) {
	tick := time.NewTicker(max(r.Meter.Limits().Idle/ticks, time.Millisecond))
	defer tick.Stop()
	for left, still := 2, 0; ; {
		select {
		case err := <-r.ended:
			if left--; left == 0 || err != nil {
				return left, err
			}
		case <-ctx.Done():
			return left, context.Cause(ctx)
		case <-r.Meter.Done():
			return left, r.Meter.Err()
		case <-tick.C:
			if still++; r.moved.Swap(false) {
				still = 0
			}
			if still >= ticks {
				return left, errPumpIdle
			}
		}
	}
}

// direction carries bytes from one connection to another until the first ends,
// and tells the second. Each number of bytes is allowed before it passes and
// added to total after.
func (r *run) direction(total *atomic.Int64, from, to net.Conn, first []byte, allow func(int64) error) error {
	passed := func(n int64) {
		if n > 0 {
			total.Add(n)
			r.moved.Store(true)
		}
	}
	err := send(to, first, allow, passed)
	if err == nil {
		err = carry(from, to, allow, passed)
	}
	if err == nil {
		err = pumpCloseWrite(to)
	}
	return err
}

// carry moves bytes until from ends.
func carry(from, to net.Conn, allow func(int64) error, passed func(int64)) error {
	a, b := bare(from), bare(to)
	if a != nil && b != nil {
		return splice(a, b, allow, passed)
	}
	return copied(from, to, allow, passed)
}

// bare returns the TCP connection that c is nothing more than, or nil.
func bare(c net.Conn) *net.TCPConn {
	switch c := c.(type) {
	case *net.TCPConn:
		return c
	case interface{ NetConn() *net.TCPConn }:
		return c.NetConn()
	}
	return nil
}
