//go:build linux

package docker

import (
	"context"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
)

// errOnlyThat ends an exchange of which a test does one step.
var errOnlyThat = errors.New("only that step")

// within runs do in the container of sb, at the mount.
func within(sb sandbox.Sandbox, target string, mount *os.File, do func(*exchange, *spot) error) error {
	h := sb.(*handle)
	fd, err := unix.PidfdOpen(h.info.PID, 0)
	if err != nil {
		return err
	}
	e := &exchange{h: h, target: target, mount: int(mount.Fd()), pid: h.info.PID, uid: uint32(h.spec.UID), pidfd: fd}
	if e.proc, err = os.Open("/proc"); err != nil {
		return err
	}
	defer e.close()
	var failed error
	e.step = func(p *spot) error {
		failed = do(e, p)
		return errOnlyThat
	}
	if err := e.run(context.Background()); err != errOnlyThat {
		return err
	}
	return failed
}

// PutBeneath leaves the mount beneath the one at target, as a process does that is
// killed in the middle of an exchange.
func PutBeneath(t testing.TB, sb sandbox.Sandbox, target string, mount *os.File) {
	t.Helper()
	err := within(sb, target, mount, func(e *exchange, p *spot) error {
		return unix.MoveMount(e.mount, "", p.top, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH|moveMountBeneath)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Swap exchanges the mounts in two steps, of which the second one is done with
// second.
func Swap(sb sandbox.Sandbox, target string, mount, second *os.File) error {
	return within(sb, target, mount, func(e *exchange, p *spot) error {
		e.mount = int(second.Fd())
		return e.swap(p)
	})
}

// TakeAway does the first of two steps of an exchange, as a process does that is
// killed then.
func TakeAway(t testing.TB, sb sandbox.Sandbox, target string, mount *os.File) {
	t.Helper()
	if err := within(sb, target, mount, func(e *exchange, p *spot) error { return e.takeAway(p) }); err != nil {
		t.Fatal(err)
	}
}
