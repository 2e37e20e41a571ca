package launch

import "strings"

// Fixes of the host that several findings share.
const (
	fixUser = "allow user namespaces: sudo sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000"
	// fixAppArmor is for hosts on which AppArmor restricts user namespaces,
	// such as Ubuntu from 23.10 on.
	fixAppArmor = "sudo apt-get install apparmor-profiles && sudo cp /usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/ && sudo apparmor_parser -r /etc/apparmor.d/bwrap-userns-restrict"
	fixOldBwrap = "upgrade bubblewrap to " + minBwrap + " or later"
)

// meaning returns what commonly stands behind a complaint of bubblewrap: one
// sentence, and what to do about it. Either is empty where it is not known.
func meaning(stderr string) (message, fix string) {
	const inside = "run outside of the container, or start it with its /proc unmasked"
	for _, e := range []struct{ text, message, fix string }{
		{"RTM_NEWADDR", "the host restricts user namespaces for programs without a profile", fixAppArmor},
		{"setting up uid map", "the host restricts user namespaces for programs without a profile", fixAppArmor},
		{"setting up gid map", "the host restricts user namespaces for programs without a profile", fixAppArmor},
		{"No permissions to creat", "the kernel does not let this user make namespaces", fixUser},
		{"Creating new namespace failed: No space left", "the limit of user namespaces is reached", fixMax},
		{"Creating new namespace failed", "the kernel does not let this user make namespaces", fixUser},
		{"Can't mount proc", "no new /proc can be mounted, as in a container that masks parts of its own", inside},
		{"Unknown option", "bubblewrap is too old", fixOldBwrap},
		{"Can't find source path", "a folder that the sandbox shows has gone, or the user that the sandbox runs as cannot reach it", ""},
		{"prctl(PR_SET_SECCOMP)", "the kernel does not take the filter of system calls", "run a kernel with CONFIG_SECCOMP_FILTER"},
	} {
		if strings.Contains(stderr, e.text) {
			return e.message, e.fix
		}
	}
	return "", ""
}
