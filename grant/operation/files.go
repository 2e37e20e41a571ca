// This file reads, writes and lists files inside the sandbox for operations. It
// follows no link: the guard has judged a name, and the executor has to open
// that name.
//
// Reading a file that is larger than an operation may read fails and returns no
// data; a part of it can be read by offset and length. A listing has a bound
// too, and says when there is more. A hard link is a name like any other:
// reading by it reads the file, and writing replaces the name alone.

package operation

import (
	"context"
	"errors"
	"io/fs"
	"strconv"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
)

// A filesExecutor carries out FsRead, FsWrite and FsList.
//
// Bytes that are read, and the text of a listing, count as bytes in. Bytes that
// are written count as bytes out, before the first of them is written, and each
// write counts as one file, whether or not it succeeds. Its errors are those of
// [operation.Executor]:
//
//	NOT_FOUND            there is no such file
//	CAPABILITY_BLOCKED   the path crosses a link or a mount, permission is missing, or the file is too large
//	VALIDATION_FAILED    the existing file does not fit: a folder, or a file that must not be replaced
//	BUDGET_EXCEEDED      a budget of the call, or the bound of its temporary space
//	EXECUTION_FAILED     the file system failed: full, or broken
//	UNAVAILABLE, TIMEOUT the sandbox is gone or does not answer
type filesExecutor struct{ files sandbox.Files }

var _ Executor = (*filesExecutor)(nil)

// NewFilesExecutor returns an executor over f, which must follow no link (see
// [sandbox.LinkRefuser]) and take paths inside.
func NewFilesExecutor(f sandbox.Files) *filesExecutor { return &filesExecutor{files: f} }

// Execute implements [operation.Executor].
func (e *filesExecutor) Execute(ctx context.Context, c *Call, v grant.Vetted) (Output, error) {
	var out Output
	var err error
	switch v.Kind {
	case grant.OpFsRead:
		out, err = e.read(ctx, c, v)
	case grant.OpFsWrite:
		out, err = e.write(ctx, c, v)
	case grant.OpFsList:
		out, err = e.list(ctx, c, v)
	default:
		err = &sandbox.Error{Code: sandbox.CodeValidation, Op: "files", Field: "op.kind", Message: "this is no operation on files"}
	}
	return out, Stopped(ctx, reported(v, err))
}

// The errors of files become those of operations, where a budget belongs to a
// call and a full disk is not a budget.
func reported(v grant.Vetted, err error) error {
	if err == nil {
		return nil
	}
	var over *budget.Exceeded
	var own *space
	var e *sandbox.Error
	switch {
	case !errors.As(err, &e):
		return &sandbox.Error{Code: sandbox.CodeExecution, Op: string(v.Kind), Resource: v.Path, Message: "the file cannot be used", Err: err}
	case e.Code == sandbox.CodeBudgetExceeded && !errors.As(err, &over) && !errors.As(err, &own):
		failed := *e
		failed.Code = sandbox.CodeExecution
		return &failed
	case e.Code == sandbox.CodeInternal:
		failed := *e
		failed.Code = sandbox.CodeExecution
		return &failed
	}
	return err
}

// space marks an error as one of the temporary space's bound.
type space struct{ room int64 }

func (s *space) Error() string {
	return "there is room for " + strconv.FormatInt(max(s.room, 0), 10) + " bytes"
}

// exists is the error of a write that may not replace.
func exists(v grant.Vetted) error {
	return &sandbox.Error{
		Code: sandbox.CodeValidation, Op: "write", Field: "op.overwrite", Resource: v.Path,
		Message: "a file or folder of that name exists, and nothing was written", Hint: "set overwrite to replace a file, or choose another name", Err: fs.ErrExist,
	}
}

// filesTooLarge is the error of a file or a listing with more than may be read.
func filesTooLarge(v grant.Vetted, most int64) error {
	return &sandbox.Error{
		Code: sandbox.CodeCapabilityBlocked, Op: "read", Field: "profile.limits.maxBytesIn", Resource: v.Path,
		Message: "there is more than the " + strconv.FormatInt(most, 10) + " bytes that may be read at once", Hint: "read in parts, by offset and length",
	}
}
