//go:build linux

package probe

import (
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernelProbes are system calls that open much of the kernel and that
// nothing inside needs.
func kernelProbes() map[string]probe {
	return map[string]probe{
		"io-uring":    ioUring,
		"keyring":     keyring,
		"bpf":         loadBPF,
		"perf":        perfEvent,
		"userfaultfd": userFault,
		"modules":     kernelModules,
		"kexec":       kexec,
		"admin-calls": adminCalls,
		"kernel-log":  kernelLog,
		"foreign-abi": foreignABI,
	}
}

func ioUring([]string) verdict {
	return each(try{"io_uring_setup", func() error {
		params := make([]byte, 120)
		fd, _, no := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params[0])), 0)
		if no != 0 {
			return no
		}
		return unix.Close(int(fd))
	}})
}

func keyring([]string) verdict {
	return each(
		try{"add_key", func() error {
			_, err := unix.AddKey("user", "escape", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
			return err
		}},
		try{"request_key", func() error {
			_, err := unix.RequestKey("user", "escape", "", 0)
			if err == unix.ENOKEY {
				return nil // the kernel has looked
			}
			return err
		}},
		try{"keyctl", func() error { _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true); return err }},
	)
}

func loadBPF([]string) verdict {
	return each(
		try{"map", func() error {
			// BPF_MAP_CREATE of an array with one entry of four bytes.
			attr := [32]uint32{0: 2, 1: 4, 2: 4, 3: 1}
			_, _, no := unix.Syscall(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
			return errnoOf(no)
		}},
		try{"socket filter program", func() error {
			// r0 = 0; exit
			code := [2]uint64{0x00000000000000b7, 0x0000000000000095}
			license := []byte("GPL\x00")
			attr := struct {
				kind, count   uint32
				code, license uint64
				rest          [96]byte
			}{kind: 1, count: 2, code: uint64(uintptr(unsafe.Pointer(&code))), license: uint64(uintptr(unsafe.Pointer(&license[0])))}
			_, _, no := unix.Syscall(unix.SYS_BPF, 5, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
			return errnoOf(no)
		}},
	)
}

func perfEvent([]string) verdict {
	attr := func() *unix.PerfEventAttr {
		return &unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: unix.PERF_ATTR_SIZE_VER0, Config: unix.PERF_COUNT_SW_TASK_CLOCK,
			Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
	}
	return each(
		try{"own process", func() error { return opened(unix.PerfEventOpen(attr(), 0, -1, -1, 0)) }},
		try{"whole machine", func() error { return opened(unix.PerfEventOpen(attr(), -1, 0, -1, 0)) }},
	)
}

func userFault([]string) verdict {
	const userModeOnly = 1 // UFFD_USER_MODE_ONLY, the flag for everybody
	return each(
		try{"user mode", call(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|userModeOnly)},
		try{"kernel mode", call(unix.SYS_USERFAULTFD, unix.O_CLOEXEC)},
	)
}

func kernelModules([]string) verdict {
	return each(
		try{"init_module", func() error { return loaded(unix.InitModule([]byte("\x7fELF none"), "")) }},
		try{"finit_module", func() error {
			fd, err := unix.Open("/proc/self/exe", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return loaded(unix.FinitModule(fd, "", 0))
		}},
		try{"delete_module", func() error { return loaded(unix.DeleteModule("no_such_module_here", unix.O_NONBLOCK)) }},
	)
}

// loaded takes the kernel's complaint about the module itself for success:
// it came to look at it.
func loaded(err error) error {
	if err == unix.ENOEXEC || err == unix.ENOENT || err == unix.EINVAL {
		return nil
	}
	return err
}

func kexec([]string) verdict {
	return each(
		try{"kexec_load", call(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0)},
		try{"kexec_file_load", func() error {
			err := call(unix.SYS_KEXEC_FILE_LOAD, ^uintptr(0), ^uintptr(0), 0, 0, 0)()
			if err == unix.EBADF {
				return nil
			}
			return err
		}},
	)
}

// adminCalls are calls for administrators, each with arguments that change
// nothing should it be let through.
func adminCalls([]string) verdict {
	return each(
		try{"sethostname", func() error {
			name, err := os.Hostname()
			if err != nil {
				return err
			}
			return unix.Sethostname([]byte(name))
		}},
		try{"clock_settime", func() error {
			var now unix.Timespec
			if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
				return err
			}
			return unix.ClockSettime(unix.CLOCK_REALTIME, &now)
		}},
		try{"reboot", func() error {
			err := unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF)
			if err == unix.EINVAL {
				return nil // allowed, and refused for this command in a pid namespace
			}
			return err
		}},
		try{"acct", func() error { return unix.Acct("") }},
		try{"swapoff", func() error {
			path := []byte("/dev/null\x00")
			_, _, no := unix.Syscall(unix.SYS_SWAPOFF, uintptr(unsafe.Pointer(&path[0])), 0, 0)
			if no == unix.EINVAL {
				return nil
			}
			return errnoOf(no)
		}},
		try{"vhangup", vhangup},
		try{"setdomainname", func() error { return unix.Setdomainname([]byte("(none)")) }},
	)
}

// vhangup hangs up the terminal of the session: it is called in a session of
// its own, which has none.
func vhangup() error { return inFork(unix.SYS_VHANGUP, 0, 0) }

func kernelLog([]string) verdict {
	buf := make([]byte, 1<<16)
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, buf)
	if err == nil && strings.Contains(string(buf[:n]), "gVisor") {
		return held("gVisor's own log, not the host's")
	}
	return each(
		try{"syslog", func() error { return err }},
		try{"/dev/kmsg", func() error { return openable("/dev/kmsg", unix.O_RDONLY) }},
	)
}

// foreignABI makes calls by another numbering of the same kernel, which a
// filter for the native one may not see. Being killed for it is an answer too.
func foreignABI([]string) verdict {
	nr, known := foreignCall()
	if !known {
		return skip("this processor has one numbering only")
	}
	return each(try{"getpid by the x32 numbering", func() error { return inFork(nr, 0, 0) }})
}
