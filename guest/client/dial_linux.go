package client

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"strconv"
	"syscall"

	sandbox "github.com/bulkhead-dev/sandbox"
	"golang.org/x/sys/unix"
)

// Dial connects to the guest's socket, the file name in the host folder
// dir, and returns the process id of its listener as this process sees it.
// The caller must compare that with the container's first process before it
// writes: code in the sandbox can put a socket of its own in the folder.
//
// The folder belongs to the sandbox: dir itself is trusted, what is in it
// is not. A name that is no socket, a symbolic link above all, is refused,
// and the socket that was looked at is the one that is connected to. The
// path may be longer than a socket address.
//
// A missing or refusing socket is CodeUnavailable and retryable: the guest
// may be about to bind it (again).
func Dial(ctx context.Context, dir, name string) (conn net.Conn, pid int, err error) {
	defer func() {
		if err != nil {
			err = dialError(dir, err)
		}
	}()
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	dirFD, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	defer unix.Close(dirFD)
	sock, err := unix.Openat(dirFD, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	defer unix.Close(sock)
	var st unix.Stat_t
	if err := unix.Fstat(sock, &st); err != nil {
		return nil, 0, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, 0, errNoSocket
	}
	return connect(sock)
}

var errNoSocket = errors.New("it is not a socket")

// connect connects to the socket file that fd refers to. It does not block:
// a listener whose queue is full is an error at once.
func connect(file int) (net.Conn, int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	f := os.NewFile(uintptr(fd), "guest")
	defer f.Close() // FileConn has its own copy
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: "/proc/self/fd/" + strconv.Itoa(file)}); err != nil {
		return nil, 0, err
	}
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, 0, err
	}
	conn, err := net.FileConn(f)
	return conn, int(cred.Pid), err
}

func dialError(dir string, err error) error {
	e := &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "connect to the guest", Resource: dir,
		Message: "the socket of the guest cannot be reached", Err: err,
	}
	for _, later := range []error{fs.ErrNotExist, syscall.ECONNREFUSED, syscall.EAGAIN, errNoSocket} {
		e.Retryable = e.Retryable || errors.Is(err, later)
	}
	return e
}
