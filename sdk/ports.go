package sdk

import (
	"context"
	"net"
	"strconv"

	"github.com/bulkhead-dev/sandbox/server/stream"
)

// DialPort connects to a TCP port of the loopback interface inside the sandbox
// name. ctx bounds the connecting and not the connection, whose CloseWrite ends
// its sending direction. While no program listens there the error is
// CodeUnavailable.
func (c *API) DialPort(ctx context.Context, name string, port int) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	number := strconv.Itoa(port)
	conn, _, err := c.Socket(ctx, "dial", one(name, "/ports/"+number), nil)
	if err != nil {
		return nil, err
	}
	return stream.NewConn(conn, inner("127.0.0.1:"+number)), nil
}

// inner is a TCP address inside a sandbox.
type inner string

func (inner) Network() string  { return "tcp" }
func (a inner) String() string { return string(a) }
