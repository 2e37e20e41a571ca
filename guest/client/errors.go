package client

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strconv"
	"syscall"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// Errno values of Linux, which the guest always runs on.
const (
	linuxENOENT = 2
	linuxEPERM  = 1
	linuxEACCES = 13
)

// ErrVersions is the cause of an error where the guest and this program have no version
// of the protocol in common.
var ErrVersions = errors.New("no common version of the protocol")

var errStuck = errors.New("the guest does not take what it is sent")

// silentError says that the guest has not answered in the time that any
// answer takes.
func silentError() error {
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "guest",
		Message: "the guest does not answer; whether the command ended is not known",
		Hint:    "the sandbox may be paused or stopped: look with sandbox list, or start afresh with sandbox recreate",
	}
}

// named fills in the sandbox's name.
func (c *Client) named(err error) error {
	var e *sandbox.Error
	if err == nil || !errors.As(err, &e) || e.Resource != "" || c.o.Name == "" {
		return err
	}
	n := *e
	n.Resource = c.o.Name
	return &n
}

// lostError says that the connection is gone.
func lostError(err error) error {
	var e *sandbox.Error
	var violation *wire.ProtocolError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return err
	case errors.As(err, &violation):
		return &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: "guest", Message: "the guest does not keep to the protocol",
			Hint: "recreate the sandbox", Err: err,
		}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = io.ErrUnexpectedEOF
	}
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "guest", Message: "the connection to the guest was lost",
		Hint: "the sandbox may have been stopped; try again", Retryable: true, Err: err,
	}
}

func closedError() error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "guest", Message: "the connection to the guest is closed"}
}

func goAway(payload []byte) error {
	m, err := wire.DecodeGoAway(payload)
	if err != nil {
		return err
	}
	if m.Min > wire.Version || m.Max < wire.MinVersion {
		return &sandbox.Error{
			Code: sandbox.CodeUnsupported, Op: "guest", Err: ErrVersions,
			Message: "the guest, which another version of sandbox has started, speaks protocol versions " + strconv.Itoa(int(m.Min)) + " to " + strconv.Itoa(int(m.Max)) +
				", this program " + strconv.Itoa(wire.MinVersion) + " to " + strconv.Itoa(wire.Version),
			Hint: "make the sandbox anew with: sandbox recreate",
		}
	}
	if m.Stopping {
		return &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: "guest", Message: "the connection to the guest was lost: the sandbox is being stopped",
			Hint: "try again", Retryable: true,
		}
	}
	return wire.Violation("the guest closed the connection: " + wire.Quote(m.Reason))
}

// contextError is the end of ctx as an error.
func contextError(ctx context.Context, op string) error {
	code := sandbox.CodeUnavailable
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code = sandbox.CodeTimeout
	}
	return &sandbox.Error{Code: code, Op: op, Message: "gave up", Err: context.Cause(ctx)}
}

func invalid(field, message string) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "start", Field: field, Message: message}
}

// requestError translates the failure of a request that is no command.
func requestError(m wire.Failed) error {
	e := &sandbox.Error{Code: sandbox.CodeInternal, Op: "guest", Message: "the guest refused: " + wire.Quote(m.Text)}
	switch m.Kind {
	case wire.KindUnsupported:
		e.Code, e.Hint = sandbox.CodeUnsupported, "recreate the sandbox to get the current guest"
	case wire.KindInvalid:
		e.Code = sandbox.CodeValidation
	case wire.KindResource:
		e.Code, e.Retryable = sandbox.CodeExecution, true
	}
	return e
}

// startError translates why a command could not be started. See Start for
// what callers may rely on.
func startError(m wire.Failed, program, dir string) error {
	text := wire.Quote(m.Text)
	e := &sandbox.Error{Code: sandbox.CodeExecution, Op: "start"}
	switch m.Kind {
	case wire.KindNotFound:
		e.Field, e.Err = "args", fs.ErrNotExist
		e.Message = "no program " + strconv.Quote(program) + " in the sandbox"
		e.Hint = "check the name and PATH inside the sandbox"
	case wire.KindNotExecutable:
		e.Field, e.Err = "args", cause(m.Errno, text)
		if m.Errno == linuxENOENT {
			// The file is there, so this must not look like ErrNotExist.
			e.Err = errors.New("its interpreter does not exist")
		}
		e.Message = "cannot execute " + strconv.Quote(program)
	case wire.KindBadDir:
		e.Field, e.Err = "dir", cause(m.Errno, text)
		e.Message = "cannot enter the working directory " + strconv.Quote(dir)
	case wire.KindTooBig:
		e.Field, e.Err = "args", syscall.E2BIG
		e.Message = "arguments and environment are larger than the kernel takes"
		e.Hint = "pass the data on standard input or in a file"
	case wire.KindResource:
		e.Message, e.Retryable = "the sandbox has no room for another process: "+text, true
		e.Hint = "end commands that run in it, or raise its limits"
	case wire.KindLimit:
		e.Field, e.Message = "limits", "a limit could not be set: "+text
	case wire.KindInvalid:
		e.Code, e.Message = sandbox.CodeValidation, "the guest does not understand the command: "+text
	case wire.KindUnsupported:
		e.Code, e.Message = sandbox.CodeUnsupported, "the sandbox cannot do that: "+text
	default:
		e.Message = "the guest failed: " + text
	}
	return e
}

// cause makes an error of a Linux errno that errors.Is understands on every
// system.
func cause(errno uint32, text string) error {
	switch errno {
	case linuxENOENT:
		return fs.ErrNotExist
	case linuxEPERM, linuxEACCES:
		return fs.ErrPermission
	}
	return errors.New(text)
}
