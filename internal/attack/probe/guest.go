//go:build linux

package probe

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// guestProbes are attempts on the first process, which is our guest.
func guestProbes() map[string]probe {
	return map[string]probe{
		"ptrace-1":       trace,
		"memory-1":       readMemory,
		"proc-1":         openProcOne,
		"signal-1":       signalOne,
		"limit-1":        limitOne,
		"starve-1":       starve,
		"talk-to-guest":  talkToGuest,
		"replace-socket": replaceSocket,
	}
}

func trace([]string) verdict {
	return each(
		try{"attach", func() error { return unix.PtraceAttach(1) }},
		try{"seize", func() error { return unix.PtraceSeize(1) }},
	)
}

func readMemory([]string) verdict {
	buf := make([]byte, 16)
	local := []unix.Iovec{{Base: &buf[0], Len: uint64(len(buf))}}
	// The address where a static program of ours begins.
	remote := []unix.RemoteIovec{{Base: 0x400000, Len: len(buf)}}
	return each(
		try{"process_vm_readv", func() error { _, err := unix.ProcessVMReadv(1, local, remote, 0); return err }},
		try{"process_vm_writev", func() error { _, err := unix.ProcessVMWritev(1, local, remote, 0); return err }},
		try{"read /proc/1/mem", func() error { return openable("/proc/1/mem", unix.O_RDONLY) }},
		try{"write /proc/1/mem", func() error { return openable("/proc/1/mem", unix.O_RDWR) }},
		try{"pidfd_getfd", takeDescriptor},
		try{"kcmp", call(unix.SYS_KCMP, 1, uintptr(os.Getpid()), 0, 0, 0)},
	)
}

func takeDescriptor() error {
	pidfd, err := unix.PidfdOpen(1, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pidfd)
	for fd := range 16 {
		taken, err := unix.PidfdGetfd(pidfd, fd, 0)
		if err == nil {
			unix.Close(taken)
			return nil
		}
		if !errors.Is(err, unix.EBADF) {
			return err
		}
	}
	return nil // EBADF: we were let in, there was nothing to take
}

func openProcOne([]string) verdict {
	tries := []try{
		{"environ", func() error { return readable("/proc/1/environ") }},
		{"maps", func() error { return readable("/proc/1/maps") }},
		{"root", func() error { return readable("/proc/1/root") }},
		{"cwd", func() error { return readable("/proc/1/cwd") }},
		{"fd", func() error { return readable("/proc/1/fd") }},
		writeOpen("/proc/1/oom_score_adj"), writeOpen("/proc/1/clear_refs"), writeOpen("/proc/1/coredump_filter"),
	}
	for fd := range 8 {
		tries = append(tries, writeOpen("/proc/1/fd/"+itoa(fd)))
	}
	return each(tries...)
}

// signalOne sends every signal to the first process. Being allowed to send
// is no escape: the kernel keeps what the first process does not handle from
// it, and whether it lives is seen from outside. It reports what was sent.
func signalOne([]string) verdict {
	sent, refused := 0, 0
	var why string
	for sig := unix.Signal(1); sig <= 64; sig++ {
		switch sig {
		case unix.SIGTERM, unix.SIGINT, unix.SIGKILL, unix.SIGSTOP:
			continue // last
		}
		if err := unix.Kill(1, sig); err != nil {
			refused++
			why = reason(err)
			continue
		}
		sent++
	}
	for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGINT, unix.SIGTERM, unix.SIGKILL} {
		if unix.Kill(1, sig) == nil {
			sent++
		} else {
			refused++
		}
	}
	if sent == 0 {
		return held("none of ", itoa(refused), " signals could be sent: ", why)
	}
	return held(itoa(sent), " signals sent, ", itoa(refused), " refused")
}

// limitOne tries to cripple the first process and the one that watches over
// this command by resource limits, which the kernel allows to anybody of the
// same user: a processor limit of a second would end them. It sets what is
// there already, or a little less, which does no harm.
func limitOne([]string) verdict {
	var tries []try
	for _, pid := range []int{1, os.Getppid()} {
		if pid == 0 {
			continue
		}
		tries = append(tries, try{"limit of process " + itoa(pid), func() error {
			var now unix.Rlimit
			if err := prlimit(pid, unix.RLIMIT_NOFILE, nil, &now); err != nil {
				return err
			}
			now.Cur -= min(now.Cur, 1)
			return prlimit(pid, unix.RLIMIT_NOFILE, &now, nil)
		}})
	}
	return each(tries...)
}

// starve gives the first process, and the one that watches over this
// command, the least share of the processor that can be had, and burns all of
// it. It never ends: whether it can be ended in time is seen from outside.
func starve([]string) verdict {
	for _, pid := range []int{1, os.Getppid()} {
		if pid == 0 {
			continue
		}
		_ = unix.Setpriority(unix.PRIO_PROCESS, pid, 19)
		_ = unix.SchedSetAttr(pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0)
		tasks, _ := os.ReadDir("/proc/" + itoa(pid) + "/task")
		for _, t := range tasks {
			if tid, err := strconv.Atoi(t.Name()); err == nil {
				_ = unix.SchedSetAttr(tid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0)
			}
		}
	}
	os.Stdout.WriteString("ready\n")
	return burn()
}

func prlimit(pid, resource int, set, get *unix.Rlimit) error {
	_, _, no := unix.RawSyscall6(unix.SYS_PRLIMIT64, uintptr(pid), uintptr(resource),
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), 0, 0)
	return errnoOf(no)
}

// guestAddresses are where the guest can be reached from inside. The first
// is an abstract name.
func guestAddresses() []string {
	return []string{"@bulkhead-sandbox-guest", "/.sandbox/run/guest.sock"}
}

// talkToGuest connects to the guest as if it were the orchestrator. The
// guest must close without a word.
func talkToGuest([]string) verdict {
	var tries []try
	for _, addr := range guestAddresses() {
		tries = append(tries, try{addr, func() error { return converse(addr) }})
	}
	return each(tries...)
}

// converse connects to the Unix socket addr, sends garbage, and returns nil
// if any answer comes.
func converse(addr string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: addr}); err != nil {
		return err
	}
	// Breaks the protocol in the first byte: who serves us answers that.
	_ = unix.Sendto(fd, []byte(strings.Repeat("\xff", 64)), unix.MSG_NOSIGNAL, nil)
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2})
	n, err := unix.Read(fd, make([]byte, 64))
	switch {
	case err != nil:
		return err
	case n == 0:
		return errors.New("closed without an answer")
	}
	return nil
}

// replaceSocket puts a socket of its own in the place of the guest's and
// listens there until its standard input ends, so that the orchestrator can
// try meanwhile whom it reaches. It says "ready" first.
func replaceSocket([]string) verdict {
	const path = "/.sandbox/run/guest.sock"
	removed := unix.Unlink(path)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		os.Stdout.WriteString("ready\n") // for the side that waits to knock
		_, _ = io.Copy(io.Discard, os.Stdin)
		return held("socket: ", reason(err))
	}
	bound := unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	if bound == nil {
		_ = unix.Chmod(path, 0o777)
		_ = unix.Listen(fd, 16)
	}
	os.Stdout.WriteString("ready\n")
	for {
		if n, err := os.Stdin.Read(make([]byte, 64)); n == 0 || err != nil {
			break
		}
	}
	if bound != nil {
		return held("unlink: ", outcomeOf(removed), ", bind: ", reason(bound))
	}
	unix.Close(fd)
	unix.Unlink(path)
	return held("a false socket was put in its place")
}

func outcomeOf(err error) string {
	if err == nil {
		return "done"
	}
	return reason(err)
}
