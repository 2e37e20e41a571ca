package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// TestOnlyTheOwnOutputEndsInSilence holds that a broken pipe is passed over
// only where it is the program's own output, and that a program of a sandbox
// which ends early is reported.
func TestOnlyTheOwnOutputEndsInSilence(t *testing.T) {
	own := &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}
	early := &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "start", Message: "the sandbox cannot be started", Err: fmt.Errorf("/usr/bin/bwrap: %w", syscall.EPIPE)}
	for _, tc := range []struct {
		err    error
		want   int
		silent bool
	}{
		{own, 141, true}, {fmt.Errorf("print: %w", own), 141, true},
		{&sandbox.Error{Code: sandbox.CodeExecution, Op: "cp", Message: "the output cannot be written", Err: own}, 141, true},
		{early, statusSandbox, false}, {errors.Join(errors.New("x"), early), statusSandbox, false},
	} {
		errs, said := collect(t)
		a := &app{Program: Program{Stderr: errs}, globals: &globals{}}
		if got, text := a.status(context.Background(), tc.err), said(); got != tc.want || (text == "") != tc.silent {
			t.Errorf("%v: status %d, says %q", tc.err, got, text)
		}
	}
}
