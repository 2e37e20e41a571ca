//go:build !linux

package auth

import "net"

// look cannot identify peers on this system, so users of this machine need a
// token too.
func look(*net.UnixConn) peer { return peer{} }
