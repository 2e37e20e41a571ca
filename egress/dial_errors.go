package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// A dialRefused reports that a host has addresses, and none of them may be
// dialled.
type dialRefused struct {
	Decision network.Decision // of the first refused address
	Addr     netip.AddrPort
}

// Error returns the message of the policy.
func (e *dialRefused) Error() string { return e.Decision.Message }

// Unwrap returns a [sandbox.Error] of [sandbox.CodeCapabilityBlocked].
func (e *dialRefused) Unwrap() error {
	return &sandbox.Error{
		Code: sandbox.CodeCapabilityBlocked, Op: "dial", Resource: e.Addr.String(),
		Message: e.Decision.Message, Hint: e.Decision.Hint,
	}
}

// A dialUnresolved reports that a host has no address or could not be looked
// up.
type dialUnresolved struct {
	Host    network.Host
	Timeout bool  // the resolver did not answer in time
	Err     error // the cause; it can name the orchestrator's name servers
}

// Error returns a text that can be sent to the program inside.
func (e *dialUnresolved) Error() string {
	var dns *net.DNSError
	switch {
	case e.Host.IsZero():
		return "there is no host to look up"
	case e.Timeout:
		return "looking up " + e.Host.String() + " took too long"
	case errors.As(e.Err, &dns) && dns.IsNotFound:
		return e.Host.String() + " does not exist"
	}
	return e.Host.String() + " cannot be looked up"
}

// Unwrap returns a [sandbox.Error] of [sandbox.CodeUnavailable], or of
// [sandbox.CodeTimeout], with the cause.
func (e *dialUnresolved) Unwrap() error {
	return failed("look up", e.Host.String(), e.Error(), "see whether the orchestrator can look the name up", e.Timeout, e.Err)
}

// A dialUnreachable reports that no allowed address of a host could be
// connected to.
type dialUnreachable struct {
	Host    network.Host
	Port    uint16
	Addr    netip.AddrPort // address of Err
	Timeout bool
	Err     error
}

// Error returns a text that can be sent to the program inside.
func (e *dialUnreachable) Error() string {
	to := e.Host.Target(e.Port)
	var errno syscall.Errno
	var refused *proxyError
	switch {
	case errors.As(e.Err, &refused):
		return to + " cannot be reached: " + refused.Error()
	case e.Timeout:
		return to + " did not answer in time"
	case errors.As(e.Err, &errno):
		return to + " cannot be reached: " + errno.Error()
	}
	return to + " cannot be reached"
}

// Unwrap returns a [sandbox.Error] of [sandbox.CodeUnavailable], or of
// [sandbox.CodeTimeout], with the cause.
func (e *dialUnreachable) Unwrap() error {
	return failed("dial", e.Host.Target(e.Port), e.Error(), "", e.Timeout, e.Err)
}

func failed(op, resource, message, hint string, timeout bool, cause error) error {
	e := &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: op, Resource: resource, Message: message, Hint: hint, Retryable: true, Err: cause,
	}
	if timeout {
		e.Code = sandbox.CodeTimeout
	}
	return e
}

// dialTimedOut reports whether an error is a timeout.
func dialTimedOut(err error) bool {
	var n net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &n) && n.Timeout()
}
