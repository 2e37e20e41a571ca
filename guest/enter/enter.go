//go:build linux

// Package enter is root's way down into a local wall: it shows the wall's
// user the folders that he cannot reach by path, becomes that user for good,
// and executes the program that builds the wall.
//
// An orchestrator that is root keeps workspaces in folders that only root may
// pass through, while the wall must not be root's. So the sources of the
// wall's mounts are opened here, without following any link, and bound into a
// private mount namespace, where the unprivileged user finds them under
// numbers.
package enter

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Stage is the folder that holds the staged sources, each under its number.
// It exists on every machine on which bubblewrap works, which puts its own
// new root there.
const Stage = "/tmp"

// Staged is the path of the source number i after enter.
func Staged(i int) string { return Stage + "/" + strconv.Itoa(i) }

// Main is the mode "enter --order=N": it reads an [Order] from the
// descriptor N and does not return unless it fails.
func Main(args []string) int {
	// Namespace, identity and the signal at the parent's death belong to one
	// thread, which becomes the whole process when it executes.
	runtime.LockOSThread()
	_, _ = os.Stderr.WriteString("sandbox-guest enter: " + run(args).Error() + "\n")
	return 1
}

// run returns only when it fails.
func run(args []string) error {
	o, err := readOrder(args)
	if err != nil {
		return err
	}
	parent := os.Getppid()
	if err := stage(o.Sources); err != nil {
		return err
	}
	if err := limit(o.Limits); err != nil {
		return err
	}
	if err := leaveKeys(); err != nil {
		return err
	}
	if err := become(o.UID, o.GID); err != nil {
		return err
	}
	// Becoming somebody else has cleared it.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("set the signal of the parent's death: %w", err)
	}
	if os.Getppid() != parent {
		return errors.New("the orchestrator has gone")
	}
	return fmt.Errorf("execute %s: %w", o.Program, unix.Exec(o.Program, o.Args, []string{}))
}

func readOrder(args []string) (Order, error) {
	var o Order
	if len(args) != 1 {
		return o, errors.New("usage: enter --order=N")
	}
	value, ok := strings.CutPrefix(args[0], "--order=")
	fd, err := strconv.Atoi(value)
	if !ok || err != nil || fd < 3 {
		return o, errors.New("usage: enter --order=N")
	}
	f := os.NewFile(uintptr(fd), "order")
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxOrder+1))
	switch {
	case err != nil:
		return o, fmt.Errorf("read the order: %w", err)
	case len(b) > maxOrder:
		return o, errors.New("the order is too long")
	}
	return parse(b)
}

// become gives up root, its groups and every capability for good.
func become(uid, gid int) error {
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"drop groups", func() error { return syscall.Setgroups(nil) }},
		{"set group", func() error { return syscall.Setresgid(gid, gid, gid) }},
		{"set user", func() error { return syscall.Setresuid(uid, uid, uid) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return dropCapabilities()
}

// limit sets limits. Who may not raise a hard one, which some machines deny
// to root too, keeps the one that there is.
func limit(list []Limit) error {
	for _, l := range list {
		want := syscall.Rlimit{Cur: l.Soft, Max: l.Hard}
		// The package that the runtime watches, or it would put the number of
		// open files back when it executes.
		err := syscall.Setrlimit(l.Resource, &want)
		if err == syscall.EPERM {
			var have syscall.Rlimit
			if err = syscall.Getrlimit(l.Resource, &have); err == nil {
				want.Max = min(want.Max, have.Max)
				want.Cur = min(want.Cur, want.Max)
				err = syscall.Setrlimit(l.Resource, &want)
			}
		}
		if err != nil {
			return fmt.Errorf("set limit %d: %w", l.Resource, err)
		}
	}
	return nil
}

// dropCapabilities empties every set. Leaving user id 0 has emptied them
// already, unless somebody set a "secure bit" that says otherwise.
func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && err != unix.EINVAL {
		return fmt.Errorf("drop ambient capabilities: %w", err)
	}
	return nil
}
