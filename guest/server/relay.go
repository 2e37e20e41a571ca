//go:build linux

package server

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// relayPatience is how long a relay waits for the guest to listen, which it
// may not do yet when the engine has just started it.
const relayPatience = 5 * time.Second

// Relay connects its standard streams with the guest of the sandbox it was
// started in by the engine, and returns the exit code of the process. It is the
// way in where the socket in the mounted folder cannot be reached.
func Relay() int {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return complain(err)
	}
	ignoreAll()
	conn, err := dialGuest(time.Now().Add(relayPatience))
	if err != nil {
		return complain(err)
	}
	go func() {
		// Either end's end is the end of both; the guest sees ours when
		// this process is gone.
		_, _ = io.Copy(plain{conn}, plain{os.Stdin})
		os.Exit(0)
	}()
	_, _ = io.Copy(plain{os.Stdout}, plain{conn})
	return 0
}

// plain hides the file's own ways of copying, which do not know sockets.
type plain struct{ f *os.File }

func (p plain) Read(b []byte) (int, error)  { return p.f.Read(b) }
func (p plain) Write(b []byte) (int, error) { return p.f.Write(b) }

// dialGuest connects to the guest and makes sure that process 1 listens
// there, and not user code that took the name.
func dialGuest(deadline time.Time) (*os.File, error) {
	for {
		fd, err := newSocket()
		if err != nil {
			return nil, err
		}
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: AbstractName})
		if err == nil {
			cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
			if err != nil || cred.Pid != 1 && !peersUnreported(cred) {
				unix.Close(fd)
				return nil, errors.New("the socket of the guest does not belong to process 1")
			}
			return os.NewFile(uintptr(fd), "guest"), nil
		}
		unix.Close(fd)
		if time.Now().After(deadline) {
			return nil, errors.New("connect to the guest: " + err.Error())
		}
		time.Sleep(5 * time.Millisecond)
	}
}
