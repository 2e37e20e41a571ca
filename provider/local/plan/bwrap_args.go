// Bwrap: this part of the package turns a plan of mounts into the arguments of bubblewrap. It
// is pure, and what it says is held against a real bwrap by its tests.
//
// What it relies on, seen with 0.8: mounts apply in the order of the
// arguments, and each makes its mount point in memory by itself; --perms and
// --size apply to the one --tmpfs that follows; --dev mounts a tmpfs without a
// bound, which is why /dev is made read-only after its /dev/shm got one;
// --remount-ro does not reach mounts below; at most 9,000 arguments are taken.

package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Options are what a wall needs besides its mounts.
type BwrapOptions struct {
	// MaskFile is an empty file of the host with mode 0000 that stands for
	// every closed file. It has to be readable by nobody and stay empty.
	MaskFile string
	UID, GID int // inside
	Hostname string
	Env      map[string]string
	Workdir  string // inside; empty is "/"
	// Root, when not empty, is a folder of the host that holds the new root,
	// devices included. The steps of the plan are done on it.
	Root string
	// SeccompFDs are descriptors of compiled filters that apply to everything
	// inside. They are read to their end.
	SeccompFDs []int
	// BlockFD, when above 0, has bwrap wait with the command until
	// something can be read from it or its other end is closed.
	BlockFD int
	// InfoFD and StatusFD, when above 0, get bwrap's JSON about the
	// processes; the first names the one inside as the host knows it.
	InfoFD, StatusFD int
	// DisableUserns has the kernel refuse further user namespaces inside.
	// It takes a bwrap that is not setuid.
	DisableUserns bool
}

// Args returns the complete list for --args: everything but the command.
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
		// What the wall's namespaces have of settings would belong to the
		// user inside. The host's folder shows who opens it his own.
		return []string{"--proc", op.Target, "--ro-bind", "/proc/sys", op.Target + "/sys"}
	case OpDev:
		return []string{"--dev", op.Target}
	}
	// A step that is not known must not be left out: bwrap refuses this.
	return []string{"--unknown-" + string(op.Kind)}
}
