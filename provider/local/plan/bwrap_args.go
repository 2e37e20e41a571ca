// The bwrap files turn a plan of mounts into the arguments of bubblewrap. They
// are pure; their tests compare the result with a real bwrap.
//
// They rely on this behaviour of bwrap 0.8: mounts apply in the order of the
// arguments, and each creates its mount point in memory; --perms and --size
// apply to the next --tmpfs only; --dev mounts a tmpfs without a size bound,
// which is why /dev is remounted read-only after its /dev/shm is mounted with
// one; --remount-ro does not affect mounts below; bwrap takes at most 9,000
// arguments.

package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// BwrapOptions are the inputs for a sandbox's bwrap arguments besides its
// mounts.
type BwrapOptions struct {
	// MaskFile is an empty host file with mode 0000 that is mounted over every
	// closed file. No user may have permission to read it, and it must stay
	// empty.
	MaskFile string
	UID, GID int // inside the sandbox
	Hostname string
	Env      map[string]string
	Workdir  string // inside the sandbox; empty means "/"
	// Root, when not empty, is a host folder that holds the new root, devices
	// included. bwrap applies the steps of the plan to it.
	Root string
	// SeccompFDs are descriptors of compiled filters for every process in the
	// sandbox. bwrap reads them to their end.
	SeccompFDs []int
	// BlockFD, when above 0, makes bwrap delay the command until the descriptor
	// is readable or its other end is closed.
	BlockFD int
	// InfoFD and StatusFD, when above 0, receive bwrap's JSON about the
	// processes; InfoFD gives the host's process id of the process inside.
	InfoFD, StatusFD int
	// DisableUserns makes the kernel refuse further user namespaces inside. It
	// requires a bwrap that is not setuid.
	DisableUserns bool
}

// BwrapArgs returns the complete list for --args: everything but the command.
func BwrapArgs(p Plan, o BwrapOptions) []string {
	args := []string{
		"--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
		"--uid", strconv.Itoa(o.UID), "--gid", strconv.Itoa(o.GID),
		"--cap-drop", "ALL", "--as-pid-1", "--die-with-parent", "--new-session",
	}
	if o.DisableUserns {
		args = append(args, "--disable-userns")
	}
	if o.Hostname != "" {
		args = append(args, "--hostname", o.Hostname)
	}
	args = append(args, "--clearenv")
	for _, name := range slices.Sorted(maps.Keys(o.Env)) {
		args = append(args, "--setenv", name, o.Env[name])
	}
	if o.Root != "" {
		args = append(args, "--dev-bind", o.Root, "/")
	}
	for _, op := range p.Ops {
		args = append(args, mount(op, o)...)
	}
	for _, fd := range o.SeccompFDs {
		args = append(args, "--add-seccomp-fd", strconv.Itoa(fd))
	}
	for _, fd := range []struct {
		flag string
		fd   int
	}{{"--block-fd", o.BlockFD}, {"--info-fd", o.InfoFD}, {"--json-status-fd", o.StatusFD}} {
		if fd.fd > 0 {
			args = append(args, fd.flag, strconv.Itoa(fd.fd))
		}
	}
	dir := o.Workdir
	if dir == "" {
		dir = "/"
	}
	return append(args, "--chdir", dir)
}

// mount returns the arguments of one step.
func mount(op Op, o BwrapOptions) []string {
	perms := func(rest ...string) []string {
		return append([]string{"--perms", fmt.Sprintf("%04o", op.Mode)}, rest...)
	}
	switch op.Kind {
	case OpDir:
		return perms("--dir", op.Target)
	case OpSymlink:
		return []string{"--symlink", op.Source, op.Target}
	case OpBind:
		return []string{"--bind", op.Source, op.Target}
	case OpRoBind:
		return []string{"--ro-bind", op.Source, op.Target}
	case OpTmpfs:
		args := perms("--tmpfs", op.Target)
		if op.Size > 0 {
			args = append([]string{"--size", strconv.FormatInt(op.Size, 10)}, args...)
		}
		return args
	case OpMaskFile:
		return []string{"--ro-bind", o.MaskFile, op.Target}
	case OpMaskDir:
		args := perms("--tmpfs", op.Target)
		if !op.Open {
			args = append(args, "--remount-ro", op.Target)
		}
		return args
	case OpRemountRo:
		return []string{"--remount-ro", op.Target}
	case OpProc:
		// Settings in /proc/sys that belong to the sandbox's namespaces would
		// be writable by the user inside. The bind mount of the host's folder
		// still shows each reader the values of its own namespaces.
		return []string{"--proc", op.Target, "--ro-bind", "/proc/sys", op.Target + "/sys"}
	case OpDev:
		return []string{"--dev", op.Target}
	}
	// An unknown step must not be left out: this argument makes bwrap fail.
	return []string{"--unknown-" + string(op.Kind)}
}
