// Package preflight looks whether the local wall can stand on this machine,
// and names the fix of the host where it cannot.
//
// Each check is one small function over a [Host] and changes nothing. The one
// that counts in the end starts a wall, as the kind of user that real ones
// run as; the others say why it may have failed.
package preflight

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// A Status is the verdict of a check.
type Status string

// The verdicts: as it should be; works, with something to know; does not work.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// A Finding is what a check saw, and what to do about it. Both texts may
// hold what a program said and are not safe for a terminal.
type Finding struct {
	Status      Status
	Detail, Fix string
}

// A Check is one thing to look at. Its name is stable. Look must not be
// called on another system than Linux unless the check is the platform's.
type Check struct {
	Name string
	Look func(ctx context.Context, h Host) Finding
}

// A Host is the machine as the checks see it.
type Host struct {
	OS    string // as runtime.GOOS
	UID   int    // of this process; root's walls run as another user
	Bwrap string // path or name of bwrap; empty is "bwrap"

	// Without are the layers that settings leave out: a wall stands where
	// they are missing.
	Without Without

	ReadFile func(path string) ([]byte, error)
	LookPath func(name string) (string, error)
	// SetID reports whether the program at path changes its user when it starts.
	SetID func(path string) (bool, error)
	// Run runs a program as an ordinary user, in an empty environment, and
	// returns the beginning of what it writes to both streams.
	Run func(ctx context.Context, name string, args ...string) (string, error)
	// Landlock returns the version of the kernel's Landlock interface.
	Landlock func() (int, error)
	// Filters returns an error unless the kernel filters system calls and
	// can tell us about them.
	Filters func() error
}

// Without says which layers of a wall are left out.
type Without struct{ DisableUserns, Seccomp, Landlock bool }

// Checks returns the checks in the order in which their findings make sense.
func Checks() []Check {
	return []Check{
		{"platform", platform},
		{"bwrap", linuxOnly(bubblewrap)},
		{"user-namespaces", linuxOnly(userNamespaces)},
		{"wall-start", linuxOnly(start)},
		{"wall-filters", linuxOnly(filters)},
		{"landlock", linuxOnly(landlock)},
	}
}

// linuxOnly is look where the wall is made of what Linux has.
func linuxOnly(look func(context.Context, Host) Finding) func(context.Context, Host) Finding {
	return func(ctx context.Context, h Host) Finding {
		if h.OS != "linux" {
			return ok("not needed on %s", h.OS)
		}
		return look(ctx, h)
	}
}

func ok(format string, args ...any) Finding { return Finding{OK, fmt.Sprintf(format, args...), ""} }

func warn(fix, format string, args ...any) Finding {
	return Finding{Warn, fmt.Sprintf(format, args...), fix}
}

func fail(fix, format string, args ...any) Finding {
	return Finding{Fail, fmt.Sprintf(format, args...), fix}
}

// text reads a small file of the kernel; "" when it is not there.
func (h Host) text(path string) string {
	b, err := h.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (h Host) bwrap() (string, error) {
	if h.Bwrap != "" {
		return h.LookPath(h.Bwrap)
	}
	return h.LookPath("bwrap")
}

// platform refuses systems on which no wall of ours exists.
func platform(_ context.Context, h Host) Finding {
	switch {
	case h.OS == "darwin":
		if path, err := h.LookPath("sandbox-exec"); err == nil {
			return ok("macOS with %s", path)
		}
		return fail("restore /usr/bin/sandbox-exec, which is part of macOS", "macOS without sandbox-exec")
	case h.OS != "linux":
		return fail(`use "provider": "docker"`, "there is no local wall for %s", h.OS)
	case IsWSL1(h.text("/proc/sys/kernel/osrelease")):
		return fail("in PowerShell: wsl --set-version DISTRIBUTION 2", "this is WSL 1, which has no Linux kernel and no namespaces")
	}
	return ok("Linux %s", h.text("/proc/sys/kernel/osrelease"))
}

// Release is the kernel's own name of its release, empty where it cannot be
// read.
func Release() string {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// IsWSL reports whether a kernel release is that of either Windows Subsystem
// for Linux.
func IsWSL(release string) bool { return strings.Contains(strings.ToLower(release), "microsoft") }

// IsWSL1 reports whether a kernel release is that of the first Windows
// Subsystem for Linux, "4.4.0-19041-Microsoft"; the second has a real kernel,
// "5.15.90.1-microsoft-standard-WSL2".
func IsWSL1(release string) bool { return strings.HasSuffix(release, "-Microsoft") }
