package client

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// open registers s under a new stream number and sends the request that
// opens it.
func (c *Client) open(ctx context.Context, t wire.Type, payload []byte, s stream) (uint32, error) {
	return c.openAfter(ctx, func() error { return nil }, t, payload, s)
}

// openAfter is open, and does something immediately before, of which the
// guest may see a part: when that fails the connection ends.
func (c *Client) openAfter(ctx context.Context, before func() error, t wire.Type, payload []byte, s stream) (uint32, error) {
	if err := c.lock(ctx); err != nil {
		return 0, err
	}
	defer c.unlock()
	if err := before(); err != nil {
		c.end(err)
		return 0, c.Err()
	}
	c.mu.Lock()
	if c.ending || c.last == 1<<31-1 {
		c.mu.Unlock()
		return 0, closedError()
	}
	c.last++ // under the right to write: numbers appear on the wire in order
	id := c.last
	c.streams[id] = s
	c.mu.Unlock()
	err := c.write(wire.Frame{Type: t, Stream: id, Payload: payload})
	if err != nil {
		c.forget(id)
	}
	return id, err
}

func (c *Client) forget(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.streams, id)
}

// send writes one frame. ctx bounds the wait for other writers; the write
// itself has its own bound, and a write that fails ends the connection.
func (c *Client) send(ctx context.Context, f wire.Frame) error {
	if err := c.lock(ctx); err != nil {
		return err
	}
	defer c.unlock()
	return c.write(f)
}

// sendUnless is send without a context, and writes nothing when over is closed
// before it is its turn. So no goroutines pile up behind a guest that ends
// streams faster than it takes frames about them.
func (c *Client) sendUnless(over <-chan struct{}, f wire.Frame) error {
	select {
	case <-over:
		return nil
	default:
	}
	select {
	case <-c.writing:
	case <-over:
		return nil
	case <-c.done:
		return c.err
	}
	defer c.unlock()
	return c.write(f)
}

func (c *Client) lock(ctx context.Context) error {
	select {
	case <-c.writing:
		return nil
	default:
	}
	select {
	case <-c.writing:
		return nil
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return contextError(ctx, "send to the guest")
	}
}

func (c *Client) unlock() { c.writing <- struct{}{} }

// write writes f. Precondition: the caller holds the right to write.
func (c *Client) write(f wire.Frame) error {
	select {
	case <-c.done:
		return c.err
	default:
	}
	stuck := time.AfterFunc(writeWithin, func() { c.end(errStuck) })
	defer stuck.Stop()
	if err := c.put(f, stuck); err != nil {
		c.end(err)
		<-c.done
		return c.err
	}
	return nil
}

// copied is up to how many bytes of a payload are put behind their header. More
// goes from where it lies, which keeps the buffer of a connection small: a
// program may have hundreds that wait.
const copied = 4 << 10

// written is up to how many bytes of a payload one write takes.
const written = 64 << 10

// put writes f to the connection. Each part that the guest has taken winds stuck
// up again, but not beyond the time for the whole frame.
func (c *Client) put(f wire.Frame, stuck *time.Timer) error {
	if len(f.Payload) > copied {
		end := time.Now().Add(frameWithin)
		c.buf = slices.Grow(c.buf[:0], wire.HeaderLen)[:wire.HeaderLen]
		wire.PutHeader(c.buf, f, len(f.Payload))
		rest := f.Payload[min(len(f.Payload), written):]
		parts := net.Buffers{c.buf, f.Payload[:len(f.Payload)-len(rest)]}
		_, err := parts.WriteTo(c.conn)
		for err == nil && len(rest) > 0 {
			stuck.Reset(min(writeWithin, time.Until(end)))
			part := rest[:min(len(rest), written)]
			rest = rest[len(part):]
			_, err = c.conn.Write(part)
		}
		return err
	}
	c.buf = wire.AppendFrame(c.buf[:0], f)
	_, err := c.conn.Write(c.buf)
	return err
}

// read takes frames until the connection ends.
func (c *Client) read(r *wire.Reader) {
	for {
		f, err := r.Next()
		if err == nil {
			err = c.dispatch(f)
		}
		if err != nil {
			c.end(err)
			return
		}
		if c.idle() {
			r.Release()
		}
	}
}

// idle reports whether nothing is under way.
func (c *Client) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.streams) == 0
}

// dispatch gives a frame to its stream. It never waits.
func (c *Client) dispatch(f wire.Frame) error {
	switch {
	case f.Type == wire.TypeAccepted:
		return c.accepted(f)
	case f.Stream != 0:
		return c.deliver(f)
	case f.Type == wire.TypePong:
		return c.pong()
	case f.Type == wire.TypeGoAway:
		return goAway(f.Payload)
	case f.Type.IsHint():
		return nil
	}
	return wire.Violation("unexpected frame")
}

// deliver gives a frame to its stream, unless the connection ends just now:
// a stream hears of its end once.
func (c *Client) deliver(f wire.Frame) error {
	c.delivering.Lock()
	defer c.delivering.Unlock()
	c.mu.Lock()
	s := c.streams[f.Stream]
	c.mu.Unlock()
	switch {
	case f.Type.IsHint():
		return hint(s, f)
	case s == nil:
		return wire.Violation("frame for a stream that is not open")
	}
	last, err := s.frame(f)
	if last {
		c.forget(f.Stream)
	}
	return err
}

func (c *Client) pong() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pings) == 0 {
		return wire.Violation("pong without a ping")
	}
	close(c.pings[0])
	c.pings = c.pings[1:]
	return nil
}

// end ends the connection because of err. Only the first call counts. It
// is not called from within a stream.
func (c *Client) end(err error) {
	c.once.Do(func() {
		c.delivering.Lock()
		defer c.delivering.Unlock()
		c.mu.Lock()
		if c.ending {
			err = closedError()
		} else {
			err = c.named(lostError(err))
		}
		c.ending = true
		lost := c.streams
		c.streams = map[uint32]stream{}
		c.mu.Unlock()
		c.err = err
		close(c.done)
		for _, s := range lost {
			s.lost(err)
		}
		c.side.close()
		c.inbound.end()
		c.conn.Close() // last: no caller has to wait for that
	})
}
