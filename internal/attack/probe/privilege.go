//go:build linux

package probe

import (
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func privilegeProbes() map[string]probe {
	return map[string]probe{
		"identity":     identity,
		"become-root":  becomeRoot,
		"capabilities": capabilities,
		"no-new-privs": noNewPrivs,
		"seccomp":      seccompMode,
		"set-uid":      setUIDPrograms,
		"set-uid-copy": setUIDCopy,
		"set-id-bits":  setIDBits,
		"effective-id": effectiveID,
	}
}

// identity reports user and group ids: none may be 0.
func identity([]string) verdict {
	ids := "uid " + itoa(os.Getuid()) + ", gid " + itoa(os.Getgid())
	if os.Getuid() == 0 || os.Geteuid() == 0 || os.Getgid() == 0 || os.Getegid() == 0 {
		return broke(ids)
	}
	groups, err := os.Getgroups()
	for _, g := range groups {
		if g == 0 {
			return broke(ids, ", with group 0")
		}
	}
	if err != nil {
		return skip("groups: ", reason(err))
	}
	return held(ids)
}

func becomeRoot([]string) verdict {
	return each(
		try{"setuid", call(unix.SYS_SETUID, 0)},
		try{"setgid", call(unix.SYS_SETGID, 0)},
		try{"setresuid", call(unix.SYS_SETRESUID, 0, 0, 0)},
		try{"setresgid", call(unix.SYS_SETRESGID, 0, 0, 0)},
		try{"setfsuid", func() error {
			_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, 0, 0, 0)
			if now, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, ^uintptr(0), 0, 0); now != 0 {
				return unix.EPERM
			}
			return nil
		}},
		try{"setgroups", call(unix.SYS_SETGROUPS, 0, 0)},
		try{"capset", func() error {
			h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			all := [2]unix.CapUserData{{Effective: 1 << 21, Permitted: 1 << 21}}
			return unix.Capset(&h, &all[0])
		}},
		try{"ambient capability", func() error {
			return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_SYS_ADMIN, 0, 0)
		}},
	)
}

func capabilities([]string) verdict {
	var have []string
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		value := statusField("self", set)
		if value == "" {
			return skip("/proc/self/status has no ", set)
		}
		if strings.Trim(value, "0") != "" {
			have = append(have, set+" "+value)
		}
	}
	if len(have) > 0 {
		return broke(strings.Join(have, ", "))
	}
	return held("all five sets are 0")
}

// noNewPrivs asks the kernel rather than /proc, which has no such line under
// every runtime.
func noNewPrivs([]string) verdict {
	n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil {
		return skip("prctl: ", reason(err))
	}
	if n != 1 {
		return broke("no_new_privs is ", itoa(n))
	}
	return held("no_new_privs is 1")
}

func seccompMode([]string) verdict {
	mode := statusField("self", "Seccomp")
	if mode != "2" {
		return broke("Seccomp is ", mode, " in /proc/self/status, a filter would be 2")
	}
	return held("Seccomp 2, filters ", statusField("self", "Seccomp_filters"))
}

// setUIDPrograms starts every set-user-id program of the image and looks at
// the ids that it runs with.
func setUIDPrograms([]string) verdict {
	found := setIDFiles()
	if len(found) == 0 {
		return held("the image has no set-id programs")
	}
	var gained []string
	for _, path := range found {
		if slices.Contains(strings.Fields(idsWhenRun(path)), "0") {
			gained = append(gained, path)
		}
	}
	if len(gained) > 0 {
		return broke("ran as root: ", strings.Join(gained, ", "))
	}
	return held(itoa(len(found)), " set-id programs, none gains anything")
}

// setIDFiles walks the image for files with set-id bits owned by root.
func setIDFiles() []string {
	var found []string
	seen := 0
	_ = filepath.WalkDir("/", func(path string, e fs.DirEntry, err error) error {
		if seen++; seen > 10*maxWalk || len(found) >= 64 {
			return fs.SkipAll
		}
		if err != nil {
			return nil
		}
		if e.IsDir() && (path == "/proc" || path == "/sys" || path == "/dev" || path == "/workspace" || path == "/agent") {
			return fs.SkipDir
		}
		if !e.Type().IsRegular() {
			return nil
		}
		if fi, err := e.Info(); err == nil && fi.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// idsWhenRun starts the program, and returns the line of its user ids after
// it has ended or has been stopped, before it is reaped.
func idsWhenRun(path string) string {
	cmd := exec.Command(path, "--help")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if cmd.Start() != nil {
		return ""
	}
	defer func() { _ = cmd.Wait() }() // how it ends does not matter
	uids := statusField(itoa(cmd.Process.Pid), "Uid")
	_ = cmd.Process.Kill()
	return uids
}

// setUIDCopy makes a set-user-id copy of this program and runs it.
func setUIDCopy([]string) verdict {
	dir := scratch()
	if dir == "" {
		return held("no writable place for a copy")
	}
	path := dir + "/.escape-setuid"
	defer os.Remove(path)
	if err := copySelf(path); err != nil {
		return held("copy: ", reason(err))
	}
	var tries []try
	for _, owner := range []int{-1, 0} {
		tries = append(tries, try{"copy owned by " + itoa(owner), func() error {
			if err := os.Chown(path, owner, owner); err != nil {
				return err
			}
			if err := unix.Chmod(path, 0o6755); err != nil {
				return err
			}
			out, err := exec.Command(path, "probe", "effective-id").Output()
			if err != nil {
				return err
			}
			if strings.Contains(string(out), " "+escaped+" ") || strings.HasPrefix(string(out), Prefix+escaped) {
				return nil
			}
			return unix.EPERM
		}})
	}
	return each(tries...)
}

func copySelf(path string) error {
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return err
}

// effectiveID is what the copy runs: did it gain an id?
func effectiveID([]string) verdict {
	if os.Geteuid() != os.Getuid() || os.Getegid() != os.Getgid() {
		return broke("euid ", itoa(os.Geteuid()), ", egid ", itoa(os.Getegid()))
	}
	return held("euid equals uid")
}

// setIDBits tries each call that gives a file a mode with the set-user-ID or the
// set-group-ID bit, in the workspace and in a folder for temporary files.
func setIDBits([]string) verdict {
	var tries []try
	for _, dir := range []string{"/workspace", scratch()} {
		if dir == "" || creatable(dir) != nil {
			continue
		}
		for bit, name := range map[uint32]string{unix.S_ISUID: "set-user-ID", unix.S_ISGID: "set-group-ID"} {
			for call, set := range waysToSetMode() {
				tries = append(tries, try{call + " of " + name + " in " + dir, func() error {
					path := dir + "/.escape-set-id"
					_ = os.Remove(path)
					defer os.Remove(path)
					return setsBits(set, path, bit|0o755, bit)
				}})
			}
		}
	}
	if len(tries) == 0 {
		return held("no writable place for a file")
	}
	return each(tries...)
}

// setsBits calls set, and looks for the bits at the path or at the descriptor
// that it returns.
func setsBits(set func(path string, mode uint32) (int, error), path string, mode, bits uint32) error {
	fd, err := set(path, mode)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if fd >= 0 {
		err = unix.Fstat(fd, &st)
		unix.Close(fd)
	} else {
		err = unix.Lstat(path, &st)
	}
	if err == nil && st.Mode&bits == 0 {
		err = unix.EPERM // taken out by the kernel
	}
	return err
}

// waysToSetMode are the calls that give a file at a path a mode. Those that make
// no file return a descriptor.
func waysToSetMode() map[string]func(path string, mode uint32) (int, error) {
	// named has the file there before.
	named := func(set func(fd int, path string, mode uint32) error) func(string, uint32) (int, error) {
		return func(path string, mode uint32) (int, error) {
			fd, err := unix.Open(path, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o755)
			if err != nil {
				return -1, err
			}
			defer unix.Close(fd)
			return -1, set(fd, path, mode)
		}
	}
	ways := map[string]func(string, uint32) (int, error){
		"fchmod": named(func(fd int, _ string, mode uint32) error { return unix.Fchmod(fd, mode) }),
		"fchmodat": named(func(_ int, path string, mode uint32) error {
			return unix.Fchmodat(unix.AT_FDCWD, path, mode, 0)
		}),
		"fchmodat2": named(func(fd int, _ string, mode uint32) error {
			return unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH)
		}),
		"openat": func(path string, mode uint32) (int, error) {
			return unix.Openat(unix.AT_FDCWD, path, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, mode)
		},
		"O_TMPFILE": func(path string, mode uint32) (int, error) {
			return unix.Openat(unix.AT_FDCWD, filepath.Dir(path), unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, mode)
		},
		"openat2": func(path string, mode uint32) (int, error) {
			how := unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY | unix.O_CLOEXEC, Mode: uint64(mode)}
			return unix.Openat2(unix.AT_FDCWD, path, &how)
		},
		"mknodat": func(path string, mode uint32) (int, error) {
			return -1, unix.Mknodat(unix.AT_FDCWD, path, unix.S_IFREG|mode, 0)
		},
		"memfd": func(_ string, mode uint32) (int, error) {
			fd, err := unix.MemfdCreate("probe", unix.MFD_CLOEXEC)
			if err != nil {
				return -1, err
			}
			if err = unix.Fchmod(fd, mode); err != nil {
				unix.Close(fd)
			}
			return fd, err
		},
	}
	for name, way := range olderWaysToSetMode() {
		ways[name] = way
	}
	return ways
}
