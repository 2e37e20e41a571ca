package container

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"net"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"github.com/bulkhead-dev/sandbox"
)

const hintAccess = "have your user let in (mostly by the group docker, which is as good as root), or do without an engine: --provider local"

// fail turns an engine error into a *sandbox.Error, nil into nil. ctx is
// the context of the failed call: when it has ended, that is the reason.
func (e *Engine) fail(ctx context.Context, op, name string, err error) error {
	if err == nil {
		return nil
	}
	out := &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Resource: name, Err: err}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		out.Code, out.Retryable = sandbox.CodeTimeout, true
		out.Message, out.Err = "the engine at "+e.Host()+" did not answer in time", context.DeadlineExceeded
		out.Hint = "check the engine with: sandbox doctor"
	case ctx.Err() != nil:
		out.Retryable = true
		out.Message, out.Err = "given up", ctx.Err()
	case errors.Is(err, fs.ErrPermission):
		out.Message = "our user may not speak to the engine at " + e.Host()
		out.Hint = hintAccess
	case isUnverified(err):
		out.Message = "the certificate of the engine at " + e.Host() + " does not pass with the ca.pem of DOCKER_CERT_PATH"
		out.Hint = "set DOCKER_CERT_PATH to the folder of certificates that belongs to this engine, or correct DOCKER_HOST"
	case client.IsErrConnectionFailed(err), isNetwork(err):
		out.Retryable = true
		out.Message = "cannot reach the engine at " + e.Host()
		out.Hint = "start it, or check the address with: sandbox doctor"
	case errdefs.IsNotFound(err):
		out.Code, out.Message = sandbox.CodeNotFound, "not found"
	case errdefs.IsConflict(err):
		out.Code, out.Message, out.Retryable = sandbox.CodeBusy, "conflict", true
	case errdefs.IsPermissionDenied(err), errdefs.IsUnauthorized(err):
		out.Code, out.Message = sandbox.CodePermissionDeny, "the engine refused"
	case errdefs.IsInvalidArgument(err):
		out.Code, out.Message = sandbox.CodeValidation, "the engine does not accept the settings"
	case isRestless(err):
		out.Retryable = true
		out.Message = "the runtime cannot freeze the container: its processes do not hold still"
		out.Hint = "try again when it has less to do, or look for what starts processes without an end: docker top " + name
	default:
		out.Message = "the engine failed"
	}
	return out
}

// isUnverified reports whether the certificate of the engine was not accepted.
func isUnverified(err error) bool {
	var bad *tls.CertificateVerificationError
	return errors.As(err, &bad)
}

// isRestless reports whether a runtime could not freeze what runs inside.
// Engines have no code of their own for that.
func isRestless(err error) bool {
	return err != nil && strings.Contains(err.Error(), "unable to freeze")
}

func isNetwork(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
