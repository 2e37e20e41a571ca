// Preflight: this part of the package looks whether the local instance can stand on this machine,
// and names the fix of the host where it cannot.
//
// Each check is one small function over a [Host] and changes nothing. The one
// that counts in the end starts an instance, as the kind of user that real ones
// run as; the others say why it may have failed.

package launch

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
)

// A Status is the verdict of a check.
type checkStatus string

// The verdicts: as it should be; works, with something to know; does not work.
const (
	statusOK   checkStatus = "ok"
	statusWarn checkStatus = "warn"
	StatusFail checkStatus = "fail"
)

// A Finding is what a check saw, and what to do about it. Both texts may
// hold what a program said and are not safe for a terminal.
type preflightFinding struct {
	Status      checkStatus
	Detail, Fix string
}

// A Check is one thing to look at. Its name is stable. Look must not be
// called on another system than Linux unless the check is the platform's.
type preflightCheck struct {
	Name string
	Look func(ctx context.Context, h Host) preflightFinding
}

// A Host is the machine as the checks see it.
type Host struct {
	OS    string // as runtime.GOOS
	UID   int    // of this process; root's instances run as another user
	Bwrap string // path or name of bwrap; empty is "bwrap"

	// Without are the layers that settings leave out: an instance stands where
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
	// Groups says which control groups instances can have.
	Groups func() Groups
}

// Without says which layers of an instance are left out.
type Without struct{ DisableUserns, Seccomp, Landlock bool }

// Checks returns the checks in the order in which their findings make sense.
func Checks() []preflightCheck {
	return []preflightCheck{
		{"platform", platform},
		{"bwrap", linuxOnly(bubblewrap)},
		{"user-namespaces", linuxOnly(userNamespaces)},
		{"sandbox-start", linuxOnly(startPreflight)},
		{"sandbox-filters", linuxOnly(filters)},
		{"landlock", linuxOnly(landlock)},
		{"control-groups", linuxOnly(controlGroups)},
	}
}

// linuxOnly is look where the instance is made of what Linux has.
func linuxOnly(look func(context.Context, Host) preflightFinding) func(context.Context, Host) preflightFinding {
	return func(ctx context.Context, h Host) preflightFinding {
		if h.OS != "linux" {
			return preflightOk("not needed on %s", h.OS)
		}
		return look(ctx, h)
	}
}

func preflightOk(format string, args ...any) preflightFinding {
	return preflightFinding{statusOK, fmt.Sprintf(format, args...), ""}
}

func preflightWarn(fix, format string, args ...any) preflightFinding {
	return preflightFinding{statusWarn, fmt.Sprintf(format, args...), fix}
}

func preflightFail(fix, format string, args ...any) preflightFinding {
	return preflightFinding{StatusFail, fmt.Sprintf(format, args...), fix}
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

// platform refuses systems on which no instance of ours exists.
func platform(ctx context.Context, h Host) preflightFinding {
	switch {
	case h.OS == "darwin":
		return macOS(ctx, h)
	case h.OS != "linux":
		return preflightFail(`use "provider": "docker"`, "there is no local sandbox for %s", h.OS)
	case IsWSL1(h.text("/proc/sys/kernel/osrelease")):
		return preflightFail("in PowerShell: wsl --set-version DISTRIBUTION 2", "this is WSL 1, which has no Linux kernel and no namespaces")
	}
	return preflightOk("Linux %s", h.text("/proc/sys/kernel/osrelease"))
}

// macOS looks whether sandbox-exec enforces a profile, and whether what it refuses
// can be seen: macOS lets administrators alone follow the system log.
func macOS(ctx context.Context, h Host) preflightFinding {
	const exec, id = "/usr/bin/sandbox-exec", "/usr/bin/id"
	if _, err := h.LookPath(exec); err != nil {
		return preflightFail(`restore `+exec+`, which is part of macOS, or use "provider": "docker"`, "macOS without sandbox-exec")
	}
	if out, err := h.Run(ctx, exec, "-p", "(version 1)(allow default)", "/usr/bin/true"); err != nil {
		return preflightFail(`run outside of any other sandbox, which sandbox-exec cannot be nested in, or use "provider": "docker"`,
			"%s does not start a program: %s", exec, firstOf(out, err))
	}
	_, err := h.Run(ctx, exec, "-p", "(version 1)(allow default)(deny file-read-data (literal \"/private/etc/hosts\"))", "/bin/cat", "/private/etc/hosts")
	if err == nil {
		return preflightFail(`use "provider": "docker"`, "%s does not enforce a profile: a closed file was read", exec)
	}
	const fix = "run as an administrator to have violations seen"
	out, err := h.Run(ctx, id, "-Gn")
	if err != nil {
		return preflightWarn(fix, "macOS with %s; whether the system log may be followed is not known: %s", exec, firstOf(out, err))
	}
	if !slices.Contains(strings.Fields(out), "admin") {
		return preflightWarn(fix, "macOS with %s; this user may not follow the system log, so what is refused is known only by what programs say", exec)
	}
	return preflightOk("macOS with %s", exec)
}

// firstOf is the first line of what a program says of its failure.
func firstOf(out string, err error) string {
	if line, _, _ := strings.Cut(strings.TrimSpace(out), "\n"); line != "" {
		return line
	}
	return err.Error()
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
