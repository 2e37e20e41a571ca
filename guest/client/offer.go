package client

import (
	"net"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// introduce sends the first bytes, and with them one end of a new channel for
// descriptors where one is to be offered. Where that cannot be made or sent the
// guest is offered none.
func (c *Client) introduce(hello []byte) error {
	if conn, ok := c.conn.(*net.UnixConn); ok && c.o.Offer && c.o.Descriptors == nil {
		if sent, err := c.offer(conn, hello); sent {
			return err
		}
	}
	_, err := c.conn.Write(hello)
	return err
}

// settleOffer lets go of a channel that the guest has not taken.
func (c *Client) settleOffer() {
	if c.o.Descriptors == nil && !c.hello.Has(wire.FeaturePass) {
		c.side.close()
		c.side = nil
	}
}
