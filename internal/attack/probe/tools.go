//go:build linux

package probe

import (
	"context"
	"os/exec"
	"strings"
	"time"
)

func toolProbes() map[string]probe {
	return map[string]probe{"container-tools": containerTools, "root-tools": rootTools}
}

// runAll runs each line, which must fail. Lines whose program the image
// lacks are left out.
func runAll(lines ...string) verdict {
	var tries []try
	for _, line := range lines {
		argv := strings.Fields(line)
		path, err := exec.LookPath(argv[0])
		if err != nil {
			continue
		}
		tries = append(tries, try{line, func() error { return runFor(path, argv[1:]) }})
	}
	if len(tries) == 0 {
		return held("the image has none of these tools")
	}
	return each(tries...)
}

// runFor gives a program two seconds to be done.
func runFor(path string, args []string) error {
	ctx, done := context.WithTimeout(context.Background(), 2*time.Second)
	defer done()
	return exec.CommandContext(ctx, path, args...).Run()
}

// containerTools start sandboxes of their own, in which they would be root, or
// ask an engine for one. What only reads its own empty folder, as runc does
// when it lists, proves nothing.
func containerTools([]string) verdict {
	return runAll(
		"unshare -Ur true", "unshare -m true", "nsenter -t 1 -m true", "nsenter -t 1 -a true",
		"bwrap --bind / / true", "chroot / true", "docker ps", "podman info", "ctr version",
		"systemd-run true", "mount -t tmpfs none /tmp", "umount /proc/sys",
	)
}

func rootTools([]string) verdict {
	return runAll(
		"sudo -n true", "su -c true", "doas -n true", "pkexec true", "runuser -u root true",
		"setpriv --reuid 0 true", "capsh --user=root -- -c true", "iptables -L", "insmod none", "strace -p 1",
	)
}
