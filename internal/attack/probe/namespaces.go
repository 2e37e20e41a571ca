//go:build linux

package probe

import (
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func namespaceProbes() map[string]probe {
	return map[string]probe{
		"unshare-user":   unshareUser,
		"unshare-others": unshareOthers,
		"clone-user":     cloneUser,
		"setns":          enterNamespaces,
		"own-namespaces": ownNamespaces,
	}
}

// unshare tries in a child, as a process with several threads cannot make a
// user namespace.
func unshare(what string, flags uintptr) try {
	return try{what, func() error { return inFork(unix.SYS_UNSHARE, flags, 0) }}
}

// inFork makes one system call in a child process and returns its error. A
// child shares neither thread nor working folder with anybody, which several
// of these calls demand. Between fork and exit the child does nothing else: it has one thread of a
// program that expects several.
func inFork(nr, a, b uintptr) error {
	pid, _, no := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if no != 0 {
		return no
	}
	if pid == 0 {
		_, _, no := unix.RawSyscall(nr, a, b, 0)
		unix.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(no), 0, 0)
	}
	return childErrno(int(pid))
}

// childErrno waits for a child that exits with the number of its error.
func childErrno(pid int) error {
	var ws unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &ws, 0, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	if ws.Signaled() {
		return os.NewSyscallError("killed by signal "+itoa(int(ws.Signal())), unix.EPERM)
	}
	return errnoOf(unix.Errno(ws.ExitStatus()))
}

func unshareUser([]string) verdict {
	return each(
		unshare("user", unix.CLONE_NEWUSER),
		unshare("user+mount", unix.CLONE_NEWUSER|unix.CLONE_NEWNS),
		unshare("user+net", unix.CLONE_NEWUSER|unix.CLONE_NEWNET),
		unshare("user+pid", unix.CLONE_NEWUSER|unix.CLONE_NEWPID),
	)
}

func unshareOthers([]string) verdict {
	return each(
		unshare("mount", unix.CLONE_NEWNS), unshare("net", unix.CLONE_NEWNET), unshare("pid", unix.CLONE_NEWPID),
		unshare("ipc", unix.CLONE_NEWIPC), unshare("uts", unix.CLONE_NEWUTS), unshare("cgroup", unix.CLONE_NEWCGROUP),
		unshare("time", unix.CLONE_NEWTIME),
	)
}

// cloneUser asks for namespaces with the call that makes a process. The
// child ends at once.
func cloneUser([]string) verdict {
	clone := func(flags uintptr) func() error {
		return func() error {
			pid, _, no := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD)|flags, 0, 0, 0, 0, 0)
			if no != 0 {
				return no
			}
			if pid == 0 {
				unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
			}
			return childErrno(int(pid))
		}
	}
	return each(
		try{"clone user", clone(unix.CLONE_NEWUSER)},
		try{"clone user+mount", clone(unix.CLONE_NEWUSER | unix.CLONE_NEWNS)},
		try{"clone net", clone(unix.CLONE_NEWNET)},
		try{"clone pid", clone(unix.CLONE_NEWPID)},
		try{"clone3 user", clone3User},
	)
}

func clone3User() error {
	args := [11]uint64{0: unix.CLONE_NEWUSER, 4: uint64(unix.SIGCHLD)}
	pid, _, no := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	if no != 0 {
		return no
	}
	if pid == 0 {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return childErrno(int(pid))
}

func enterNamespaces([]string) verdict {
	var tries []try
	for _, kind := range []string{"mnt", "pid", "net", "user", "ipc", "uts", "cgroup"} {
		tries = append(tries, try{"/proc/1/ns/" + kind, func() error {
			fd, err := unix.Open("/proc/1/ns/"+kind, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return inFork(unix.SYS_SETNS, uintptr(fd), 0)
		}})
	}
	tries = append(tries, try{"pidfd of 1", func() error {
		fd, err := unix.PidfdOpen(1, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return inFork(unix.SYS_SETNS, uintptr(fd), unix.CLONE_NEWNS)
	}})
	return each(tries...)
}

// ownNamespaces compares with those of the orchestrator, given as words
// like "pid:[4026531836]".
func ownNamespaces(args []string) verdict {
	if len(args) == 0 {
		return skip("needs the namespaces of the orchestrator")
	}
	var shared, own []string
	for _, theirs := range args {
		kind, _, _ := strings.Cut(theirs, ":")
		ours, err := os.Readlink("/proc/self/ns/" + kind)
		switch {
		case err != nil:
		case ours == theirs:
			shared = append(shared, ours)
		default:
			own = append(own, kind)
		}
	}
	switch {
	case len(shared) > 0:
		return broke("shared with the host: ", strings.Join(shared, ", "))
	case len(own) == 0:
		return skip("/proc/self/ns cannot be read")
	}
	return held("own ", strings.Join(own, ", "))
}
