//go:build !linux

package container

import "net/netip"

// HostRoutes returns nothing: where this is not Linux the engine runs in a
// machine of its own, whose routes are not those of this host.
func HostRoutes() ([]netip.Prefix, error) { return nil, nil }
