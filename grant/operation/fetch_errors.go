package operation

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
)

// fetchEnded says why the context did.
func fetchEnded(ctx context.Context) error {
	cause := context.Cause(ctx)
	var e *sandbox.Error
	switch {
	case errors.As(cause, &e):
		return cause
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fetchLate("profile.limits.timeout", "the request took longer than it may")
	}
	return &sandbox.Error{Code: sandbox.CodeTimeout, Op: fetchOp, Message: "the caller gave up", Retryable: true, Err: cause}
}

func fetchLate(field, message string) error {
	return &sandbox.Error{Code: sandbox.CodeTimeout, Op: fetchOp, Field: field, Message: message, Hint: "try again, or allow more time", Retryable: true}
}

// malformed is about an answer that cannot be read.
func malformed(v *grant.Vetted, message string, cause error) error {
	return &sandbox.Error{Code: sandbox.CodeExecution, Op: fetchOp, Resource: v.Host.Target(v.Port), Message: message, Err: plain(cause)}
}

// plain returns a cause in a form that may be kept: bounded, without terminal
// control characters, and without its quotations, which are content of the
// response.
func plain(err error) error {
	if err == nil {
		return nil
	}
	text, _, _ := strings.Cut(err.Error(), `"`)
	text = printable(strings.TrimRight(text, " :"))
	if text == "" {
		return nil
	}
	return errors.New(strings.ToValidUTF8(text[:min(len(text), 300)], ""))
}

// failed says why there is no answer, or only a part.
func (x *exchange) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fetchEnded(ctx)
	}
	var e *sandbox.Error
	if errors.As(err, &e) { // of guard or meter
		return err
	}
	if refused := x.refused(nil); refused != nil {
		return refused
	}
	if cutOff(err) {
		return &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: fetchOp, Resource: x.v.Host.Target(x.v.Port), Message: "the connection ended before the answer did",
			Hint: "try again later", Retryable: true, Err: plain(err),
		}
	}
	return malformed(&x.v, "the answer is malformed", err)
}

// cutOff reports whether err is that of a connection that has ended.
func cutOff(err error) bool {
	for _, e := range []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// untrusted says why there is no TLS with the host.
func (x *exchange) untrusted(ctx context.Context, err error) error {
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &certificate):
	case cutOff(err), ctx.Err() != nil:
		return x.failed(ctx, err)
	}
	if refused := x.refused(nil); refused != nil { // reported by a TLS alert
		return refused
	}
	message, hint := "no TLS can be had with the host", "see what the host speaks at this port"
	if certificate != nil {
		message, hint = "the certificate of the host is not trusted, or is one of another host", "see what certificate the host has"
	}
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: fetchOp, Resource: x.v.Host.Target(x.v.Port), Message: message, Hint: hint, Err: plain(err)}
}
