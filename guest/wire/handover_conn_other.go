//go:build !linux

package wire

import (
	"errors"
	"os"
	"time"
)

// A Conn is one end of a channel. There are none on this system.
type Conn struct{}

var errHandoverMissing = errors.New("there is no channel for descriptors on this system")

// NewConn closes f and fails.
func NewConn(f *os.File) (*Conn, error) {
	f.Close()
	return nil, errHandoverMissing
}

// Close does nothing.
func (c *Conn) Close() error { return nil }

// Send fails.
func (c *Conn) Send(handoverKind, uint32, []*os.File, time.Duration) error { return errHandoverMissing }

// Receive fails.
func (c *Conn) Receive() (Message, error) { return Message{}, errHandoverMissing }

// Discard does nothing: no message was received.
func (m Message) Discard() {}
