package docker

import (
	"context"
	"net"

	"github.com/bulkhead-dev/sandbox"
)

// Dial implements [sandbox.Dialer]: it connects to an address inside the
// container, in its network and file system and not in the host's. See
// Client.Dial of package guest/client for networks, addresses and errors.
func (h *handle) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return h.guest.Dial(ctx, network, addr)
}

// Listen implements [sandbox.Listener]: programs inside the container
// connect to what it returns. See Client.Listen of package guest/client.
func (h *handle) Listen(ctx context.Context, network, addr string) (net.Listener, error) {
	return h.guest.Listen(ctx, network, addr)
}

// Ports implements [sandbox.PortLister].
func (h *handle) Ports(ctx context.Context) ([]sandbox.ListeningPort, error) {
	return h.guest.Ports(ctx)
}

var (
	_ sandbox.Dialer   = (*handle)(nil)
	_ sandbox.Listener = (*handle)(nil)
)
