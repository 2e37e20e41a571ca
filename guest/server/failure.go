//go:build linux

package server

import (
	"errors"
	"syscall"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// failure describes err to the client.
func failure(kind wire.Kind, err error) *wire.Failed {
	f := &wire.Failed{Kind: kind, Text: err.Error()}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		f.Errno = uint32(errno)
	}
	return f
}

// calledOff is the failure of a command that was killed before its turn.
func calledOff() *wire.Failed {
	return &wire.Failed{Kind: wire.KindCalledOff, Text: "the command was ended before it started"}
}

// streamFailure is the failure to make pipes or a terminal.
func streamFailure(err error, tty bool) *wire.Failed {
	if tty && !scarce(err) {
		return failure(wire.KindUnsupported, err)
	}
	return failure(wire.KindResource, err)
}

// scarce reports whether err says that something has run out.
func scarce(err error) bool {
	for _, e := range []syscall.Errno{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ENOSPC} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// stepFailure translates what a shim reported.
func stepFailure(r shimReport) *wire.Failed {
	errno := syscall.Errno(r.Errno)
	kind := wire.KindInternal
	switch r.Step {
	case stepRequest:
		kind = wire.KindInvalid
	case stepFork:
		kind = wire.KindResource
	case stepDir:
		kind = wire.KindBadDir
	case stepLimits:
		kind = wire.KindLimit
	case stepExecGone:
		kind = wire.KindNotFound
	case stepExec:
		switch {
		case errno == syscall.E2BIG:
			kind = wire.KindTooBig
		case scarce(errno):
			kind = wire.KindResource
		default:
			kind = wire.KindNotExecutable
		}
	}
	return failure(kind, errno)
}
