//go:build linux

package server

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Descriptors that "hold run" is started with. Its standard error is the write
// end of what the shell tells the guest, and stays that of the shell, whose
// standard output comes in a message.
const (
	socketFD = 0 // also the store's
	scriptFD = 1 // read end of the script
)

// nullFD is the standard error of the descriptor store.
const nullFD = 2

const (
	fdstoreSelfExe = "/proc/self/exe"
	// defaultPath is searched when there is no PATH, as for commands.
	fdstoreDefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// A Limit is a resource limit of the shell that its descriptor store must not
// have: no Go program could start under one of the address space, and
// descriptors and processor time go to what earlier lines have left running.
type fdstoreLimit struct {
	Resource   int
	Soft, Hard uint64 // a hard limit that is lower already stays
}

// Args is the command line by which a shim starts a shell and its descriptor
// store. The limits are set on the way to the shell. bare leaves the
// environment to the state that the shell is given, and posix makes that a shell
// by the name of sh even where there is bash.
func argsFdstore(limits []fdstoreLimit, bare, posix bool) []string {
	args := []string{fdstoreSelfExe, "hold", "run", "full"}
	switch {
	case bare && posix:
		args[3] = "bare-sh"
	case bare:
		args[3] = "bare"
	}
	for _, l := range limits {
		args = append(args, strconv.Itoa(l.Resource), strconv.FormatUint(l.Soft, 10), strconv.FormatUint(l.Hard, 10))
	}
	return args
}

// Main runs the mode "hold" of the guest's binary and returns the exit code
// of the process.
func Main(args []string) int {
	setProcname()
	switch {
	case len(args) == 1 && args[0] == "keep":
		return keep()
	case len(args) >= 2 && args[0] == "run":
		if limits, ok := parseLimits(args[2:]); ok {
			return runFdstore(limits, strings.HasPrefix(args[1], "bare"), args[1] == "bare-sh")
		}
	}
	return 2
}

// parseLimits reads limits as Args writes them.
func parseLimits(args []string) (limits []fdstoreLimit, ok bool) {
	for ; len(args) >= 3; args = args[3:] {
		resource, err := strconv.Atoi(args[0])
		soft, softErr := strconv.ParseUint(args[1], 10, 64)
		hard, hardErr := strconv.ParseUint(args[2], 10, 64)
		if err != nil || softErr != nil || hardErr != nil {
			return nil, false
		}
		limits = append(limits, fdstoreLimit{resource, soft, hard})
	}
	return limits, len(args) == 0
}

// set sets the limit of this process.
func (l fdstoreLimit) set() error {
	var have unix.Rlimit
	if err := unix.Getrlimit(l.Resource, &have); err != nil {
		return err
	}
	hard := min(l.Hard, have.Max)
	return unix.Setrlimit(l.Resource, &unix.Rlimit{Cur: min(l.Soft, hard), Max: hard})
}

// run starts the descriptor store and becomes the shell.
func runFdstore(limits []fdstoreLimit, bare, posix bool) int {
	env := os.Environ()
	s, ok := findFdstore(os.Getenv("PATH"), posix)
	if !ok {
		say(socketFD, fdstoreNumber(fdstoreFailed, int(unix.ENOENT)))
		return 127
	}
	if bare {
		env = nil
	}
	reported, err := receiveReport()
	if err != nil {
		return fail(socketFD, err)
	}
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail(socketFD, err)
	}
	// CLONE_PARENT makes the store a child of the shim. It has a process group
	// of its own, because signals go to that of the shell.
	_, err = syscall.ForkExec(fdstoreSelfExe, []string{"sandbox-guest", "hold", "keep"}, &syscall.ProcAttr{
		Env:   []string{"GOMAXPROCS=1"},
		Files: []uintptr{socketFD, uintptr(null), uintptr(null)},
		Sys:   &syscall.SysProcAttr{Cloneflags: unix.CLONE_PARENT, Setpgid: true},
	})
	if err != nil {
		return fail(socketFD, err)
	}
	say(socketFD, append([]byte{fdstoreProgram}, s.name...))
	// Beyond the slots, so that it takes none of them.
	socket, err := unix.FcntlInt(socketFD, unix.F_DUPFD_CLOEXEC, lastSlot+1)
	if err != nil {
		return fail(socketFD, err)
	}
	for _, fds := range [][2]int{{scriptFD, 0}, {reported, 1}} {
		if err := unix.Dup3(fds[0], fds[1], 0); err != nil {
			return fail(socket, err)
		}
	}
	for _, l := range limits {
		if err := l.set(); err != nil {
			return fail(socket, err)
		}
	}
	return fail(socket, unix.Exec(s.path, s.argv, env))
}

// receiveReport takes the write end of what the shell tells of its state.
func receiveReport() (int, error) {
	var message [maxMessage]byte
	oob := make([]byte, unix.CmsgSpace(fdSize))
	n, got, _, _, err := unix.Recvmsg(socketFD, message[:], oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, err
	}
	if n != 1 || message[0] != fdstoreTell {
		return -1, unix.EPROTO
	}
	all, err := unix.ParseSocketControlMessage(oob[:got])
	if err != nil || len(all) != 1 {
		return -1, unix.EPROTO
	}
	fds, err := unix.ParseUnixRights(&all[0])
	if err != nil || len(fds) != 1 {
		return -1, unix.EPROTO
	}
	return fds[0], nil
}

// A shell is a program that can be one.
type fdstoreShell struct {
	name, path string
	argv       []string
}

// find looks for bash, and for sh where there is no bash.
func findFdstore(path string, posix bool) (fdstoreShell, bool) {
	if path == "" {
		path = fdstoreDefaultPath
	}
	for _, s := range []fdstoreShell{
		{name: "bash", argv: []string{"bash", "--norc", "--noprofile", "-s"}},
		{name: "sh", argv: []string{"sh", "-s"}},
	} {
		if posix && s.name != "sh" {
			continue
		}
		for _, dir := range strings.Split(path, ":") {
			if dir == "" {
				dir = "."
			}
			s.path = dir + "/" + s.name
			var st unix.Stat_t
			if unix.Stat(s.path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && unix.Access(s.path, unix.X_OK) == nil {
				return s, true
			}
		}
	}
	return fdstoreShell{}, false
}

// fail tells the guest why there is no shell.
func fail(socket int, err error) int {
	errno, ok := err.(unix.Errno)
	if !ok {
		errno = unix.EINVAL
	}
	say(socket, fdstoreNumber(fdstoreFailed, int(errno)))
	return 126
}

// say sends a message. A guest that is gone needs none.
func say(socket int, m []byte) {
	_ = unix.Sendto(socket, m, unix.MSG_NOSIGNAL, nil)
}
