package client_test

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// runProbe is what the test binary does inside a sandbox.
func runProbe(name string, args []string) {
	map[string]func([]string){
		"calls": probeCalls, "sockets": probeSockets, "threads": probeThreads,
		"many": probeMany, "endless": probeEndless, "flip": probeFlip, "ways": probeWays, "crowd": probeProcesses, "serve": probeServe,
	}[name](args)
}

// refusedCalls are those whose every use is refused, by name.
func refusedCalls() map[string]uintptr {
	return map[string]uintptr{
		"mount": unix.SYS_MOUNT, "umount2": unix.SYS_UMOUNT2, "pivot_root": unix.SYS_PIVOT_ROOT, "chroot": unix.SYS_CHROOT,
		"setns": unix.SYS_SETNS, "open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT, "name_to_handle_at": unix.SYS_NAME_TO_HANDLE_AT,
		"fanotify_init": unix.SYS_FANOTIFY_INIT, "ptrace": unix.SYS_PTRACE, "process_vm_readv": unix.SYS_PROCESS_VM_READV,
		"process_vm_writev": unix.SYS_PROCESS_VM_WRITEV, "process_madvise": unix.SYS_PROCESS_MADVISE, "kcmp": unix.SYS_KCMP,
		"pidfd_getfd": unix.SYS_PIDFD_GETFD, "migrate_pages": unix.SYS_MIGRATE_PAGES, "move_pages": unix.SYS_MOVE_PAGES,
		"add_key": unix.SYS_ADD_KEY, "keyctl": unix.SYS_KEYCTL, "request_key": unix.SYS_REQUEST_KEY, "bpf": unix.SYS_BPF,
		"perf_event_open": unix.SYS_PERF_EVENT_OPEN, "userfaultfd": unix.SYS_USERFAULTFD, "kexec_load": unix.SYS_KEXEC_LOAD,
		"kexec_file_load": unix.SYS_KEXEC_FILE_LOAD, "init_module": unix.SYS_INIT_MODULE, "finit_module": unix.SYS_FINIT_MODULE,
		"delete_module": unix.SYS_DELETE_MODULE, "lookup_dcookie": unix.SYS_LOOKUP_DCOOKIE, "syslog": unix.SYS_SYSLOG,
		"reboot": unix.SYS_REBOOT, "swapon": unix.SYS_SWAPON, "swapoff": unix.SYS_SWAPOFF, "acct": unix.SYS_ACCT,
		"quotactl": unix.SYS_QUOTACTL, "quotactl_fd": unix.SYS_QUOTACTL_FD, "vhangup": unix.SYS_VHANGUP,
		"sethostname": unix.SYS_SETHOSTNAME, "setdomainname": unix.SYS_SETDOMAINNAME, "settimeofday": unix.SYS_SETTIMEOFDAY,
		"clock_settime": unix.SYS_CLOCK_SETTIME, "mbind": unix.SYS_MBIND, "set_mempolicy": unix.SYS_SET_MEMPOLICY,
		"get_mempolicy": unix.SYS_GET_MEMPOLICY,
	}
}

// absentCalls are those that are answered as if the kernel had none.
func absentCalls() map[string]uintptr {
	return map[string]uintptr{
		"io_uring_setup": unix.SYS_IO_URING_SETUP, "io_uring_enter": unix.SYS_IO_URING_ENTER, "io_uring_register": unix.SYS_IO_URING_REGISTER,
		"clone3": unix.SYS_CLONE3, "fsopen": unix.SYS_FSOPEN, "fsconfig": unix.SYS_FSCONFIG, "fsmount": unix.SYS_FSMOUNT,
		"fspick": unix.SYS_FSPICK, "move_mount": unix.SYS_MOVE_MOUNT, "open_tree": unix.SYS_OPEN_TREE,
		"open_tree_attr": unix.SYS_OPEN_TREE_ATTR, "mount_setattr": unix.SYS_MOUNT_SETATTR, "statmount": unix.SYS_STATMOUNT,
		"listmount": unix.SYS_LISTMOUNT, "newer than the table": 600,
	}
}

// probeCalls makes every refused call with arguments that do no harm, and
// those that are refused by their arguments, with a dirty upper half too.
func probeCalls([]string) {
	for _, list := range []map[string]uintptr{refusedCalls(), absentCalls()} {
		for name, nr := range list {
			_, _, errno := unix.RawSyscall6(nr, 0, 0, 0, 0, 0, 0)
			tell(name, errno)
		}
	}
	const dirty = 1 << 32
	for _, c := range []struct {
		what string
		nr   uintptr
		args [3]uintptr
	}{
		{"TIOCSTI", unix.SYS_IOCTL, [3]uintptr{0, unix.TIOCSTI, 0}}, {"TIOCSTI, dirty", unix.SYS_IOCTL, [3]uintptr{0, unix.TIOCSTI | dirty, 0}},
		{"TIOCLINUX", unix.SYS_IOCTL, [3]uintptr{0, unix.TIOCLINUX, 0}},
		{"unshare user", unix.SYS_UNSHARE, [3]uintptr{unix.CLONE_NEWUSER}}, {"unshare user, dirty", unix.SYS_UNSHARE, [3]uintptr{unix.CLONE_NEWUSER | dirty}},
		{"unshare mount", unix.SYS_UNSHARE, [3]uintptr{unix.CLONE_NEWNS}}, {"unshare net", unix.SYS_UNSHARE, [3]uintptr{unix.CLONE_NEWNET}},
		{"clone user", unix.SYS_CLONE, [3]uintptr{unix.CLONE_NEWUSER | uintptr(unix.SIGCHLD)}},
		{"clone pid, dirty", unix.SYS_CLONE, [3]uintptr{unix.CLONE_NEWPID | uintptr(unix.SIGCHLD) | dirty}},
		{"prlimit of process 1", unix.SYS_PRLIMIT64, [3]uintptr{1, unix.RLIMIT_CPU, 0}},
		{"priority of process 1", unix.SYS_SETPRIORITY, [3]uintptr{0, 1, 5}},
		{"executable by reading", unix.SYS_PERSONALITY, [3]uintptr{0x0400000}},
	} {
		_, _, errno := unix.RawSyscall(c.nr, c.args[0], c.args[1], c.args[2])
		tell(c.what, errno)
	}
}

// probeSockets makes sockets of many families.
func probeSockets([]string) {
	for name, s := range map[string][2]int{
		"unix": {unix.AF_UNIX, unix.SOCK_STREAM}, "inet": {unix.AF_INET, unix.SOCK_STREAM}, "inet6": {unix.AF_INET6, unix.SOCK_DGRAM},
		"netlink": {unix.AF_NETLINK, unix.SOCK_RAW}, "vsock": {unix.AF_VSOCK, unix.SOCK_STREAM}, "alg": {unix.AF_ALG, unix.SOCK_SEQPACKET},
		"packet": {unix.AF_PACKET, unix.SOCK_RAW}, "bluetooth": {unix.AF_BLUETOOTH, unix.SOCK_RAW}, "can": {unix.AF_CAN, unix.SOCK_RAW},
		"rds": {unix.AF_RDS, unix.SOCK_SEQPACKET}, "tipc": {unix.AF_TIPC, unix.SOCK_STREAM}, "xdp": {unix.AF_XDP, unix.SOCK_RAW},
		"key": {unix.AF_KEY, unix.SOCK_RAW}, "unspecified": {unix.AF_UNSPEC, unix.SOCK_STREAM},
	} {
		_, _, errno := unix.RawSyscall(unix.SYS_SOCKET, uintptr(s[0]), uintptr(s[1]), 0)
		tell(name, errno)
		_, _, errno = unix.RawSyscall(unix.SYS_SOCKET, uintptr(s[0])|1<<32, uintptr(s[1]), 0)
		tell(name+", dirty", errno)
	}
	var fds [2]int32
	for name, kind := range map[string]uintptr{"stream pair": unix.SOCK_STREAM, "packet pair": unix.SOCK_SEQPACKET, "datagram pair": unix.SOCK_DGRAM, "raw pair": unix.SOCK_RAW} {
		_, _, errno := unix.RawSyscall6(unix.SYS_SOCKETPAIR, unix.AF_UNIX, kind, 0, uintptr(unsafe.Pointer(&fds)), 0, 0)
		tell(name, errno)
	}
}

// probeThreads tries to write from a thread whose name and working directory
// are its own.
func probeThreads([]string) {
	var done sync.WaitGroup
	done.Go(func() {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			tell("unshare", err.(syscall.Errno))
		}
		name := [16]byte{'o', 'w', 'n', ' ', 'n', 'a', 'm', 'e'}
		_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name)), 0, 0, 0)
		if err := unix.Chdir("/usr"); err != nil {
			tell("chdir", err.(syscall.Errno))
		}
		_, err := unix.Open("by-thread", unix.O_WRONLY|unix.O_CREAT, 0o600)
		tell("thread", err.(syscall.Errno))
		tell("tid", syscall.Errno(unix.Gettid()))
	})
	done.Wait()
}

// probeMany opens a file for writing args[0] times and tells how long one took,
// in nanoseconds, of the hundred that were quickest: others take the processors
// for most of the time on a busy machine.
func probeMany(args []string) {
	n, _ := strconv.Atoi(args[0])
	best := time.Hour
	for range n / 100 {
		begin := time.Now()
		for range 100 {
			fd, err := unix.Open("/workspace/file", unix.O_WRONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				tell("open", err.(syscall.Errno))
				return
			}
			unix.Close(fd)
		}
		best = min(best, time.Since(begin))
	}
	tell("nanoseconds", syscall.Errno(best.Nanoseconds()/100))
}

// probeEndless opens files for writing, in many threads, for ever.
func probeEndless([]string) {
	os.Stdout.WriteString("ready\n")
	for range 8 {
		go func() {
			for {
				if fd, err := unix.Open("/workspace/file", unix.O_WRONLY|unix.O_CLOEXEC, 0); err == nil {
					unix.Close(fd)
				}
				_, _ = unix.Open("/usr/endless", unix.O_WRONLY|unix.O_CREAT, 0o600)
			}
		}()
	}
	select {}
}

// probeFlip opens a path for writing that another thread changes all the
// time, and tells how often a file was opened that must not be.
func probeFlip([]string) {
	names := [2][]byte{[]byte("/workspace/file\x00\x00"), []byte("/workspace/closed/file\x00")}
	var path [64]byte
	copy(path[:], names[0])
	go func() {
		for i := 0; ; i++ {
			copy(path[:], names[i&1])
		}
	}()
	var bad syscall.Errno
	for range 2000 {
		cwd := unix.AT_FDCWD
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(cwd), uintptr(unsafe.Pointer(&path)), unix.O_WRONLY|unix.O_CLOEXEC, 0, 0, 0)
		if errno != 0 {
			continue
		}
		if link, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(fd))); err != nil || link != "/workspace/file" {
			bad++
		}
		unix.Close(int(fd))
	}
	tell("opened", bad)
}

// probeProcesses makes args[0] processes, and prints how many there were.
func probeProcesses(args []string) {
	want, _ := strconv.Atoi(args[0])
	var made syscall.Errno
	for range want {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			break
		}
		if pid == 0 {
			for {
				unix.RawSyscall(unix.SYS_PAUSE, 0, 0, 0)
			}
		}
		made++
	}
	tell("made", made)
	_, _ = os.Stdin.Read(make([]byte, 1))
}
