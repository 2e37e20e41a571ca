//go:build !linux

package client

import (
	"context"
	"net"
	"runtime"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// Dial is [sandbox.CodeUnsupported]: only Linux tells whose socket it is, and
// elsewhere containers run in a machine of their own, whose sockets do not reach
// out of it. A relay reaches their guests.
func Dial(_ context.Context, dir, _ string) (conn net.Conn, pid int, err error) {
	return nil, 0, &sandbox.Error{
		Code: sandbox.CodeUnsupported, Op: "connect to the guest", Resource: dir, Message: "sockets of guests cannot be reached from " + runtime.GOOS,
	}
}
