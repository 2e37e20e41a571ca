package images

import (
	"context"
	"errors"
	"io/fs"
	"unicode/utf8"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// Causes with which a context of ours ends.
var (
	errNoReply  = errors.New("the engine did not answer in time")
	errDeadline = errors.New("it took too long as a whole")
	errIdle     = errors.New("it made no progress for too long")
	errNoAnswer = errors.New("no answer from the registry")
	errNobody   = errors.New("its caller does not wait any more")
)

const (
	hintEngine = "start the engine, or see what `sandbox doctor` says"
	hintAccess = "have your user let in (mostly by the group docker, which is as good as root), or do without an engine: --provider local"
)

// engineError turns an error of an engine call into one of ours. Only a 404
// answer becomes CodeNotFound; silence and refusal never do. ctx is the
// context of the call, whose cause tells why it ended.
func engineError(ctx context.Context, op, ref string, err error) error {
	if err == nil {
		return nil
	}
	var done *sandbox.Error
	if errors.As(err, &done) {
		return err
	}
	e := &sandbox.Error{Op: op, Resource: ref, Err: cleanError(err)}
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errNoReply), errors.Is(cause, errDeadline), errors.Is(cause, errIdle), errors.Is(cause, errNoAnswer):
		// The cause is the whole story; what the client library says about
		// a context that ended adds nothing.
		e.Code, e.Message, e.Retryable, e.Err = sandbox.CodeTimeout, cause.Error(), true, nil
		if errors.Is(cause, errNoReply) {
			e.Hint = hintEngine
		}
	case errors.Is(cause, context.DeadlineExceeded):
		e.Code, e.Message, e.Retryable, e.Err = sandbox.CodeTimeout, "the caller's deadline passed", true, cause
	case ctx.Err() != nil:
		e.Code, e.Message, e.Retryable, e.Err = sandbox.CodeUnavailable, "cancelled", true, cause
	case errors.Is(err, context.DeadlineExceeded):
		e.Code, e.Message, e.Retryable, e.Hint = sandbox.CodeTimeout, "the engine did not answer in time", true, hintEngine
	case errors.Is(err, fs.ErrPermission):
		e.Code, e.Message, e.Hint = sandbox.CodeUnavailable, "our user may not speak to the engine", hintAccess
	case client.IsErrConnectionFailed(err):
		e.Code, e.Message, e.Retryable, e.Hint = sandbox.CodeUnavailable, "the engine does not answer", true, hintEngine
	case cerrdefs.IsNotFound(err):
		e.Code, e.Message = sandbox.CodeNotFound, "no image "+printable(ref)
		e.Hint = "`sandbox images build` or `sandbox images pull`"
	default:
		e.Code, e.Message, e.Retryable = sandbox.CodeUnavailable, "the engine refused", true
		e.Hint = hintEngine
	}
	return e
}

// cleanedError is an engine's error whose text is safe to show.
type cleanedError struct {
	text string
	err  error
}

func (e *cleanedError) Error() string { return e.text }
func (e *cleanedError) Unwrap() error { return e.err }

func cleanError(err error) error {
	return &cleanedError{text: clip(printable(err.Error()), 2000), err: err}
}

// printable is s in one line that cannot steer a terminal.
func printable(s string) string { return termsafe.Line(s) }

// clip shortens s to about n bytes at a character's border.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
