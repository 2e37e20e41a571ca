package launch

import (
	"context"
	"strings"
)

const (
	fixClone = "sudo sysctl -w kernel.unprivileged_userns_clone=1, and put the line into a file in /etc/sysctl.d to keep it"
	fixMax   = "sudo sysctl -w user.max_user_namespaces=15000, and put the line into a file in /etc/sysctl.d to keep it"
)

// userNamespaces looks at the switches by which hosts keep ordinary users
// from making namespaces. They hold for root's instances too, since these run as
// ordinary users.
func userNamespaces(_ context.Context, h Host) preflightFinding {
	switch {
	case h.text("/proc/sys/user/max_user_namespaces") == "0":
		return preflightFail(fixMax, "switched off: user.max_user_namespaces is 0")
	case h.text("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		return preflightFail(fixClone, "root only: kernel.unprivileged_userns_clone is 0")
	case h.restricted():
		return preflightFail(fixAppArmor, "restricted by AppArmor (kernel.apparmor_restrict_unprivileged_userns is 1, as Ubuntu has it since 23.10) and bwrap has no profile that allows them")
	}
	return preflightOk("available to everybody")
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

// start starts a tiny instance. What it runs inside is bwrap itself, the one
// program that is there for certain.
func startPreflight(ctx context.Context, h Host) preflightFinding {
	path, err := h.bwrap()
	if err != nil {
		return preflightFail(h.install("bubblewrap"), "not tried: bubblewrap is not installed")
	}
	args := []string{"--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"}
	if !h.Without.DisableUserns {
		args = append(args, "--disable-userns")
	}
	output, err := h.Run(ctx, path, append(args,
		"--die-with-parent", "--new-session", "--as-pid-1", "--clearenv", "--cap-drop", "ALL",
		"--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--size", "65536", "--perms", "1777", "--tmpfs", "/tmp",
		"--", path, "--version")...)
	if err != nil {
		why, fix := h.Explain(output)
		return preflightFail(fix, "no sandbox can be started: %s (%v%s)", why, err, said(output))
	}
	return preflightOk("a sandbox with namespaces of its own starts")
}

// Explain says what bwrap's words mean on this machine and how to mend it. It
// is asked when bwrap has failed; the switches of the host know better than
// the words, where they say no.
func (h Host) Explain(output string) (why, fix string) {
	if h.restricted() && (strings.Contains(output, "Permission denied") || strings.Contains(output, "Operation not permitted")) {
		return "AppArmor restricts user namespaces", fixAppArmor
	}
	why, fix = meaning(output)
	switch {
	case fix == fixUser:
		if f := userNamespaces(context.Background(), h); f.Status == StatusFail {
			return f.Detail, f.Fix
		}
		why += "; inside a container its seccomp profile may be the reason"
		fix += ", or run outside of the container"
	case fix == "":
		fix = "see what bubblewrap says"
	}
	if why == "" {
		why = "bubblewrap failed"
	}
	return why, fix
}

// filters looks for what the instance's second layer is made of.
func filters(_ context.Context, h Host) preflightFinding {
	const fix = "use a kernel of 5.0 or later with CONFIG_SECCOMP_FILTER"
	switch err := h.Filters(); {
	case err != nil && h.Without.Seccomp:
		return preflightWarn(fix, "providerOptions.withoutSeccomp leaves them out, and limits.processes is held by looking from time to time; the kernel does not filter system calls as needed: %v", err)
	case h.Without.Seccomp:
		return preflightWarn("remove providerOptions.withoutSeccomp", "providerOptions.withoutSeccomp leaves them out, and the kernel has all that they need")
	case err != nil:
		return preflightFail(fix, "the kernel does not filter system calls as needed: %v", err)
	}
	return preflightOk("system calls can be filtered and observed")
}

// Versions of the Landlock interface.
const (
	landlockTruncate = 3 // below it, files that may not be written can still be cut short
)

func landlock(_ context.Context, h Host) preflightFinding {
	const fix = `use a kernel of 5.13 or later with CONFIG_SECURITY_LANDLOCK and "landlock" in its lsm= list`
	version, err := h.Landlock()
	switch {
	case err != nil && h.Without.Landlock:
		return preflightWarn(fix, "providerOptions.withoutLandlock leaves it out; the kernel has none: %v", err)
	case h.Without.Landlock:
		return preflightWarn("remove providerOptions.withoutLandlock", "providerOptions.withoutLandlock leaves it out, and the kernel has it")
	case err != nil:
		return preflightFail(fix+`, or accept one layer less with "providerOptions": {"withoutLandlock": true}`,
			"the kernel has no Landlock: %v", err)
	case version < landlockTruncate:
		return preflightWarn("use a kernel of 6.2 or later", "version %d does not cover truncation; the mounts alone keep files from being cut short", version)
	}
	return preflightOk("version %d", version)
}

// controlGroups looks whether instances can have control groups, without which they
// work and are not bounded as a whole.
func controlGroups(_ context.Context, h Host) preflightFinding {
	g := h.Groups()
	if g.Why != "" {
		return preflightWarn(g.Fix, "none for local sandboxes: %s; docker.memory and docker.cpus do not hold for a sandbox as a whole, and a pause sends signals", g.Why)
	}
	by := "below the group that is delegated to this process"
	if g.Manager != "" {
		by = "made by systemd (" + g.Manager + ")"
	}
	if lacks := g.Lacks(Bounds{Memory: 1, PIDs: 1, NanoCPUs: 1}); len(lacks) > 0 {
		return preflightWarn(`as root: mkdir -p /etc/systemd/system/user@.service.d && printf '[Service]\nDelegate=cpu memory pids\n' >/etc/systemd/system/user@.service.d/delegate.conf && systemctl daemon-reload, then log in again`,
			"version 2, %s, without the controllers %s: what they bound does not hold for a sandbox as a whole", by, strings.Join(lacks, ", "))
	}
	return preflightOk("version 2, %s: processors, memory and processes of each sandbox are bounded", by)
}
