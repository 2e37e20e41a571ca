// This file copies bytes between two connections, in both directions, and
// counts them. Between two TCP connections the bytes stay in the kernel.

package egress

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// pumpErrIdle ends a pump if nothing passes for the meter's Idle time.
var errPumpIdle = errors.New("nothing passed for too long")

// A pumpPair is two connections to be joined.
//
// A connection that is a *net.TCPConn, or whose method NetConn() returns one
// that it passes bytes to unchanged, is spliced with another such. Nothing may
// be buffered above it. All others are read and written; they should have a
// method CloseWrite.
type pumpPair struct {
	Inside, Outside net.Conn
	First           []byte // bytes already read from Inside; sent first
	Meter           *meter // counts bytes and holds the limits, the idle time included
}

// Run copies bytes until both directions have ended, and closes both
// connections before it returns. It clears their deadlines. in and out count
// the bytes written to the other side.
//
// The end of one direction is passed on by CloseWrite, and the other direction
// continues; a connection without CloseWrite is closed, which ends both. If a
// connection is reset, the other one is reset too.
//
// Every other cause ends both at once, by a reset where possible, so that a
// peer does not take partial data for the whole; err is then the cause: a
// limit of the meter, the idle error, that of ctx, or the error of a
// connection. Bytes are counted before they pass, so no limit is exceeded. A
// direction whose reader accepts nothing counts as idle.
func (p pumpPair) Run(ctx context.Context) (in, out int64, err error) {
	r := run{pumpPair: p, ended: make(chan error, 2)}
	r.moved.Store(true)
	for _, c := range []net.Conn{p.Inside, p.Outside} {
		_ = c.SetDeadline(time.Time{}) // a deadline left from a handshake would end it
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

// A run is a running pumpPair.
type run struct {
	pumpPair
	in, out atomic.Int64
	moved   atomic.Bool // bytes passed since the last tick
	ended   chan error  // results of the directions; buffered for both
}

// ticks is the number of checks per idle time, which is thus exceeded by at
// most a quarter.
const ticks = 4

// watch waits for the end of the pump. It returns how many directions have not
// returned yet, and the cause, unless both have ended regularly.
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

// direction copies bytes from one connection to the other until the first
// ends, and passes the end on. Each chunk is allowed before it passes and
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

// carry copies bytes until from ends.
func carry(from, to net.Conn, allow func(int64) error, passed func(int64)) error {
	a, b := bare(from), bare(to)
	if a != nil && b != nil {
		return splice(a, b, allow, passed)
	}
	return copied(from, to, allow, passed)
}

// bare returns the TCP connection that c passes bytes to unchanged, or nil.
func bare(c net.Conn) *net.TCPConn {
	switch c := c.(type) {
	case *net.TCPConn:
		return c
	case interface{ NetConn() *net.TCPConn }:
		return c.NetConn()
	}
	return nil
}
