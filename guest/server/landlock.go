//go:build linux

package server

import (
	"errors"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// endWithin bounds how long a guest may take to end after its host has gone.
const endWithin = 5 * time.Second

// A landlockConfig is the command line of the landlock mode.
type landlockConfig struct {
	config, filter, info, life int
	inherit                    []int
	env                        []string
	init                       []string // of the guest
}

func parseLandlock(args []string) (landlockConfig, error) {
	c := landlockConfig{config: -1, filter: -1, info: -1, life: -1}
	for i, a := range args {
		if a == "--" {
			c.init = args[i+1:]
			if c.config < 0 || c.filter < 0 {
				return c, errors.New("--config and --filter are missing")
			}
			return c, nil
		}
		key, value, _ := strings.Cut(a, "=")
		var err error
		switch key {
		case "--config":
			c.config, err = descriptor(value)
		case "--filter":
			c.filter, err = descriptor(value)
		case "--info":
			c.info, err = descriptor(value)
		case "--life":
			c.life, err = descriptor(value)
		case "--inherit":
			var fd int
			fd, err = descriptor(value)
			c.inherit = append(c.inherit, fd)
		case "--env":
			c.env = append(c.env, value)
		default:
			err = errors.New("unknown option")
		}
		if err != nil {
			return c, errors.New(a + ": " + err.Error())
		}
	}
	return c, errors.New("the words of the guest are missing")
}

// Landlock starts a guest for a sandbox that has the namespaces of the host, and ends
// all that is left of it. It returns the exit code of the process.
//
//	landlock --config=N --filter=N --info=N --life=N --inherit=N --env=KEY=VALUE -- INIT…
//
// The guest and everything below it are in a Landlock domain that is inside the one
// of this process, so that no signal from there reaches it. It is their subreaper:
// when the guest has ended, however that came, it kills what is left. It ends the
// guest when the other end of life is closed and the guest does not end by itself.
//
//	--config=N   the [wire.Config] of the guest
//	--filter=N   the filter of system calls for guest and commands
//	--info=N     where the number of the guest is written, as bubblewrap does
//	--life=N     a pipe whose other end the host has
//	--inherit=N  a further descriptor for the guest
func Landlock(args []string) int {
	runtime.LockOSThread()
	setProcname()
	c, err := parseLandlock(args)
	if err != nil {
		return complain(err)
	}
	ignoreAll()
	if err := enterOuter(); err != nil {
		return complain(err)
	}
	guest, err := c.start()
	if err != nil {
		return complain(err)
	}
	for _, fd := range append([]int{c.config, c.filter}, c.inherit...) {
		unix.Close(fd)
	}
	if c.info >= 0 {
		_, _ = unix.Write(c.info, []byte(`{"child-pid":`+strconv.Itoa(guest)+"}\n"))
		unix.Close(c.info)
	}
	if c.life >= 0 {
		go endWith(os.NewFile(uintptr(c.life), "life"), guest)
	}
	code := awaitGuest(guest)
	sweepDomain()
	return code
}

// enterOuter puts the calling thread, and what it starts, into a domain of its own.
func enterOuter() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	fd := scopes(landlockABI())
	if fd < 0 {
		return errors.New("the kernel has no Landlock of version 2 or later, or the engine's filter of system calls refuses it")
	}
	defer unix.Close(fd)
	return restrictThread(fd)
}

func restrictThread(ruleset int) error {
	_, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0)
	if errno != 0 {
		return os.NewSyscallError("landlock_restrict_self", errno)
	}
	return nil
}

// start starts the second stage, which becomes the guest.
func (c landlockConfig) start() (pid int, err error) {
	keep := map[int]bool{0: true, 1: true, 2: true, c.config: true, c.filter: true}
	most := max(2, c.config, c.filter)
	for _, fd := range c.inherit {
		keep[fd] = true
		most = max(most, fd)
	}
	attr := &syscall.ProcAttr{Dir: "/", Env: c.env, Sys: &syscall.SysProcAttr{Setsid: true}}
	for fd := range most + 1 {
		if keep[fd] {
			attr.Files = append(attr.Files, uintptr(fd))
		} else {
			attr.Files = append(attr.Files, ^uintptr(0))
		}
	}
	argv := []string{"sandbox-guest", "landlocked", "--config=" + strconv.Itoa(c.config), "--filter=" + strconv.Itoa(c.filter), "--"}
	return syscall.ForkExec(selfExe, append(argv, c.init...), attr)
}

// endWith ends the guest when the host has gone and it has not ended by then.
func endWith(life *os.File, guest int) {
	_, _ = life.Read(make([]byte, 1))
	_ = unix.Kill(guest, Stop)
	time.Sleep(endWithin)
	_ = unix.Kill(guest, unix.SIGKILL) // not reaped before the process ends: the number is still its own
}

// awaitGuest returns the exit code of the guest when it has ended. The guest is left
// to be reaped by [sweepDomain].
func awaitGuest(guest int) int {
	for {
		var info [128]byte // siginfo_t; the status is at offset 24
		_, _, errno := unix.Syscall6(unix.SYS_WAITID, unix.P_PID, uintptr(guest), uintptr(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOWAIT, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return 1
		}
		return int(info[24])
	}
}

// sweepDomain kills all processes below this one, and returns when they are gone. Where
// there are scopes, one signal reaches all of the domain at once, so that nothing can
// fork faster than it is killed.
func sweepDomain() {
	for {
		if scoped() {
			_ = unix.Kill(-1, unix.SIGKILL)
		}
		for _, pid := range childrenOf(os.Getpid()) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		// A process that ends leaves its children to us before it can be waited for.
		if _, err := unix.Wait4(-1, nil, 0, nil); err != nil && err != unix.EINTR {
			return
		}
	}
}

// scoped reports whether signals of the calling thread stay in its domain. It asks for
// what must be refused then, and is not elsewhere: a signal to the parent, which is of
// the same user.
func scoped() bool {
	return landlockABI() >= abiScope && unix.Kill(os.Getppid(), 0) == unix.EPERM
}

// childrenOf returns the children of a process.
func childrenOf(parent int) (list []int) {
	for _, pid := range pidsOf("/proc") {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(b[max(0, strings.LastIndexByte(string(b), ')')):]), " ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(parent) {
			list = append(list, pid)
		}
	}
	return list
}

// Landlocked is the second stage of [Landlock]: it confines itself and becomes the
// guest.
func Landlocked(args []string) int {
	runtime.LockOSThread()
	c, err := parseLandlock(args)
	if err == nil {
		err = c.become()
	}
	return complain(err)
}

// readAgain reads a file in memory that another reader will read too.
func readAgain(fd int) ([]byte, error) {
	b := make([]byte, wire.MaxConfig+1)
	n := 0
	for n < len(b) {
		got, err := unix.Pread(fd, b[n:], int64(n))
		if err != nil {
			return nil, os.NewSyscallError("pread", err)
		}
		if got == 0 {
			break
		}
		n += got
	}
	return b[:n], nil
}

// leaveCapabilities leaves the calling thread without capabilities. With
// no_new_privs, which is set, none come back by executing a program, whoever its user is.
func leaveCapabilities() error {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		// Without CAP_SETPCAP the set stays, and is of no use.
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && err != unix.EINVAL {
		return os.NewSyscallError("prctl", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return os.NewSyscallError("capset", unix.Capset(&header, &none[0]))
}

// become confines the calling thread and executes the guest. It returns an error.
func (c landlockConfig) become() error {
	body, err := readAgain(c.config)
	if err != nil {
		return err
	}
	conf, err := wire.DecodeConfig(body)
	if err != nil {
		return err
	}
	if !conf.Shared {
		return errors.New("the configuration is for a sandbox with namespaces of its own")
	}
	filter, err := io.ReadAll(io.LimitReader(os.NewFile(uintptr(c.filter), "filter"), 1<<16))
	if err != nil {
		return err
	}
	if len(filter) == 0 || len(filter)%8 != 0 {
		return errors.New("the filter of system calls is malformed")
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(Stop), 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	if os.Getppid() == 1 {
		return errors.New("the parent process has ended")
	}
	ruleset, err := shimConfinement{Landlock: true, Shared: true, Readable: conf.Readable, Writable: conf.Writable}.ruleset()
	if err != nil {
		return err
	}
	// The guest sets what is its own there; to commands it is closed.
	for _, own := range []string{"/proc", "/dev/pts"} {
		err := allowBeneath(ruleset, own, (toProc|unix.LANDLOCK_ACCESS_FS_IOCTL_DEV)&allRights(landlockABI()))
		if err != nil && err != unix.ENOENT {
			return &os.PathError{Op: "allow by Landlock", Path: own, Err: err}
		}
	}
	if err := restrictThread(ruleset); err != nil {
		return err
	}
	unix.Close(ruleset)
	if err := leaveCapabilities(); err != nil {
		return err
	}
	p := program{size: uint16(len(filter) / 8), instructions: uintptr(unsafe.Pointer(&filter[0]))}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&p)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	return unix.Exec(selfExe, append([]string{"sandbox-guest"}, c.init...), os.Environ())
}
