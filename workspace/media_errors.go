package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/bulkhead-dev/sandbox"
	"golang.org/x/sys/unix"
)

const opStage = "stage media"

func invalid(field, format string, args ...any) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: opStage, Field: field, Message: fmt.Sprintf(format, args...)}
}

// refused says that a rule of ours forbids what ref means.
func refused(ref, format string, args ...any) error {
	return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: opStage, Resource: ref, Message: fmt.Sprintf(format, args...)}
}

// inside turns a failure in the workspace, at place as the sandbox sees it,
// into an error. Paths of the host are no part of its message.
func inside(place string, err error) error {
	if err == nil {
		return nil
	}
	var ours *sandbox.Error
	if errors.As(err, &ours) {
		return err
	}
	e := &sandbox.Error{Code: sandbox.CodeUnavailable, Op: opStage, Resource: place, Message: "cannot write to " + place, Err: cause(err)}
	switch {
	case errors.Is(err, ErrChanged), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		e.Code, e.Message = sandbox.CodeCapabilityBlocked, place+" is not a folder that can be trusted"
		e.Hint = "remove " + place + " inside the sandbox; it is made anew"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		e.Code, e.Message = sandbox.CodeBudgetExceeded, "the workspace has no room left"
		e.Hint = "remove files in the workspace, or give it a larger quota"
	case errors.Is(err, fs.ErrNotExist):
		e.Message, e.Retryable = place+" vanished meanwhile", true
	}
	return e
}

// room returns err, or what is the matter where it is the machine that has no
// room.
func (s *mediaStager) room(err error) error {
	var known *sandbox.Error
	if !errors.As(err, &known) || known.Code != sandbox.CodeBudgetExceeded || !errors.Is(known.Err, unix.ENOSPC) || !OnSharedDisk(s.o.Workspace) {
		return err
	}
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: known.Op, Resource: known.Resource, Err: known.Err, Retryable: true,
		Message: "the disk of the machine on which the workspace lies is full",
		Hint:    "no limit of the sandbox was reached: have room made on the machine (sandbox prune --workspaces)",
	}
}

// cause strips the path of a failed call, which is one of the host.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// timeout says of a failure that follows from the end of ctx that it does.
func timeout(ctx context.Context, ref string, err error) error {
	if ctx.Err() == nil || sandbox.CodeOf(err) == sandbox.CodeCapabilityBlocked {
		return err
	}
	message := fmt.Sprintf("%q did not arrive in time", ref)
	if errors.Is(ctx.Err(), context.Canceled) {
		message = fmt.Sprintf("the call ended before %q had arrived", ref)
	}
	return &sandbox.Error{
		Code: sandbox.CodeTimeout, Op: opStage, Resource: ref, Message: message, Err: context.Cause(ctx), Retryable: true,
	}
}
