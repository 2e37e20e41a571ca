package container

import (
	"net/netip"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
)

// HostRoutes returns the destinations of all IPv4 routes of this host, of every
// routing table: a network over one of them would cut the host off from that
// destination. Engines consider routes only for ranges that they choose
// themselves.
func HostRoutes() ([]netip.Prefix, error) {
	data, err := syscall.NetlinkRIB(syscall.RTM_GETROUTE, syscall.AF_INET)
	if err != nil {
		return nil, noRoutes(err)
	}
	messages, err := syscall.ParseNetlinkMessage(data)
	if err != nil {
		return nil, noRoutes(err)
	}
	var out []netip.Prefix
	for _, m := range messages {
		if m.Header.Type != syscall.RTM_NEWROUTE || len(m.Data) < syscall.SizeofRtMsg {
			continue
		}
		attrs, err := syscall.ParseNetlinkRouteAttr(&m)
		if err != nil {
			return nil, noRoutes(err)
		}
		// The second byte of the message is the length of the destination's
		// prefix. A message without destination is the default route.
		for _, a := range attrs {
			if addr, ok := netip.AddrFromSlice(a.Value); ok && a.Attr.Type == syscall.RTA_DST {
				out = append(out, netip.PrefixFrom(addr, int(m.Data[1])).Masked())
			}
		}
	}
	return out, nil
}

func noRoutes(err error) error {
	return sandbox.Errorf(sandbox.CodeUnavailable, "choose an address range", "the routes of this host cannot be read: %w", err)
}
