//go:build !linux

package auth

import "net"

// look cannot tell here, so users of this machine need a token too.
func look(*net.UnixConn) peer { return peer{} }
