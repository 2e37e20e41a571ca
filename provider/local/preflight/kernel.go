package preflight

import (
	"context"
	"strings"
)

const (
	fixRestricted = "sudo apt-get install apparmor-profiles && sudo cp /usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/ && sudo apparmor_parser -r /etc/apparmor.d/bwrap-userns-restrict"
	fixClone      = "sudo sysctl -w kernel.unprivileged_userns_clone=1, and put the line into a file in /etc/sysctl.d to keep it"
	fixMax        = "sudo sysctl -w user.max_user_namespaces=15000, and put the line into a file in /etc/sysctl.d to keep it"
)

// userNamespaces looks at the switches by which hosts keep ordinary users
// from making namespaces. They hold for root's walls too, since these run as
// ordinary users.
func userNamespaces(_ context.Context, h Host) Finding {
	switch {
	case h.text("/proc/sys/user/max_user_namespaces") == "0":
		return fail(fixMax, "switched off: user.max_user_namespaces is 0")
	case h.text("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		return fail(fixClone, "root only: kernel.unprivileged_userns_clone is 0")
	case h.restricted():
		return fail(fixRestricted, "restricted by AppArmor (kernel.apparmor_restrict_unprivileged_userns is 1, as Ubuntu has it since 23.10) and bwrap has no profile that allows them")
	}
	return ok("available to everybody")
}

// restricted reports whether AppArmor keeps bwrap from using the user
// namespaces that it makes.
func (h Host) restricted() bool {
	if h.text("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") != "1" {
		return false
	}
	for _, name := range []string{"bwrap-userns-restrict", "bwrap"} {
		if _, err := h.ReadFile("/etc/apparmor.d/" + name); err == nil {
			return false
		}
	}
	return true
}

// start starts a tiny wall. What it runs inside is bwrap itself, the one
// program that is there for certain.
func start(ctx context.Context, h Host) Finding {
	path, err := h.bwrap()
	if err != nil {
		return fail(h.install("bubblewrap"), "not tried: bubblewrap is not installed")
	}
	output, err := h.Run(ctx, path,
		"--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
		"--die-with-parent", "--new-session", "--as-pid-1", "--clearenv", "--cap-drop", "ALL",
		"--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--size", "65536", "--perms", "1777", "--tmpfs", "/tmp",
		"--", path, "--version")
	if err != nil {
		why, fix := h.Explain(output)
		return fail(fix, "no wall can be started: %s (%v%s)", why, err, said(output))
	}
	return ok("a wall with namespaces of its own starts")
}

// Explain says what bwrap's words mean for the machine and how to mend it.
// It is asked when bwrap has failed; the reason is a guess where bwrap does
// not give it away.
func (h Host) Explain(output string) (why, fix string) {
	has := func(s string) bool { return strings.Contains(output, s) }
	switch {
	case h.restricted() && (has("RTM_NEWADDR") || has("Permission denied") || has("Operation not permitted")):
		return "AppArmor restricts user namespaces", fixRestricted
	case has("No permissions to create new namespace"), has("No permissions to creating new namespace"), has("Creating new namespace failed: Operation not permitted"):
		if f := userNamespaces(context.Background(), h); f.Status == Fail {
			return f.Detail, f.Fix
		}
		return "the kernel gives ordinary users no namespaces; inside a container its seccomp profile may be the reason", "allow user namespaces on the host (" + fixMax + "), or run outside of the container"
	case has("Creating new namespace failed"), has("max_user_namespaces"), has("No space left on device"):
		return "the limit of user namespaces is reached", fixMax
	case has("RTM_NEWADDR"):
		return "the loopback of the new network cannot be set up, as where AppArmor restricts user namespaces", fixRestricted
	case has("setting up uid map"), has("setting up gid map"):
		return "user ids cannot be mapped in a new user namespace", "allow user namespaces for this user; inside a container, run outside of it"
	case has("Can't mount proc"):
		return "no new /proc can be mounted, as in a container that masks parts of its own", "run outside of the container, or start it with its /proc unmasked"
	case has("Unknown option"), has("nrecognized option"):
		return "this bubblewrap is too old", "upgrade bubblewrap to " + MinBwrap + " or later"
	case has("Can't find source path"):
		return "a folder that the wall shows is not there or not to be reached by the user that it runs as", "let that user enter the folders above it, or leave it out of the settings"
	}
	return "bubblewrap failed", "run sandbox doctor, and see what bubblewrap says"
}

// filters looks for what the wall's second layer is made of.
func filters(_ context.Context, h Host) Finding {
	if err := h.Filters(); err != nil {
		return fail("use a kernel of 5.0 or later with CONFIG_SECCOMP_FILTER", "the kernel does not filter system calls as needed: %v", err)
	}
	return ok("system calls can be filtered and observed")
}

// Versions of the Landlock interface.
const (
	landlockTruncate = 3 // below it, files that may not be written can still be cut short
)

func landlock(_ context.Context, h Host) Finding {
	version, err := h.Landlock()
	switch {
	case err != nil:
		return fail(`use a kernel of 5.13 or later with CONFIG_SECURITY_LANDLOCK and "landlock" in its lsm= list, or accept one layer less with "providerOptions": {"withoutLandlock": true}`,
			"the kernel has no Landlock: %v", err)
	case version < landlockTruncate:
		return warn("use a kernel of 6.2 or later", "version %d does not cover truncation; the mounts alone keep files from being cut short", version)
	}
	return ok("version %d", version)
}
