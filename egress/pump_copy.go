package egress

import (
	"errors"
	"io"
	"net"
)

// pumpBufferSize is the size of one read where bytes cannot stay in the
// kernel; no further data is held in memory.
const pumpBufferSize = 32 << 10

// copied copies bytes through memory.
func copied(from, to net.Conn, allow func(int64) error, passed func(int64)) error {
	buf := make([]byte, pumpBufferSize)
	for {
		n, err := from.Read(buf)
		if sendErr := send(to, buf[:n], allow, passed); sendErr != nil {
			return sendErr
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// send writes b if it may pass.
func send(to net.Conn, b []byte, allow func(int64) error, passed func(int64)) error {
	if len(b) == 0 {
		return nil
	}
	if err := allow(int64(len(b))); err != nil {
		return err
	}
	n, err := to.Write(b)
	passed(int64(n))
	return err
}

// errNoHalfClose ends both directions of a pump when one has ended.
var errNoHalfClose = errors.New("the connection cannot end one direction alone")

// pumpCloseWrite closes the writing side of c.
func pumpCloseWrite(c net.Conn) error {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok {
		return errNoHalfClose
	}
	// The error for a connection that has already ended is ignored; its other
	// direction reports how it ended.
	_ = half.CloseWrite()
	return nil
}

// reset ends c at once, without waiting for what it has not sent.
func reset(c net.Conn) {
	below := c
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		below = t.NetConn() // the close_notify of TLS would signal a regular end, and can block
	}
	if t := bare(below); t != nil {
		_ = t.SetLinger(0)
	}
	_ = below.Close()
}
