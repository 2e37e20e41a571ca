//go:build !linux

package cli

import "syscall"

// A parker waits for many sockets at once, which is not had on this system.
type parker struct{}

func newParker() *parker { return nil }

func (*parker) park(syscall.RawConn, *direction) uint64 { return 0 }

func (*parker) forget(uint64) {}

func (*parker) close() {}
