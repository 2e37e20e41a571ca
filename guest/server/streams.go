//go:build linux

package server

import (
	"os"
	"strconv"
	"unsafe"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// A streams is the two sides of a command's standard streams.
type streams struct {
	child  [3]int      // for the command; may name one descriptor several times
	closes []int       // what of child is to be closed once the command has it
	ours   [3]*os.File // by channel; nil where there is nothing to carry
	tty    *os.File    // the terminal's master, or nil
}

// openStreams makes pipes or a terminal as the flags of s ask for.
func openStreams(s wire.Start, null int) (*streams, error) {
	st := &streams{child: [3]int{null, null, null}}
	if s.Flags&wire.FlagTTY != 0 {
		return st, st.openTTY(s.Rows, s.Cols)
	}
	var err error
	if s.Flags&wire.FlagNoStdin == 0 {
		err = st.openPipe(wire.Stdin)
	}
	if err == nil && s.Flags&wire.FlagNoStdout == 0 {
		err = st.openPipe(wire.Stdout)
	}
	switch {
	case err != nil:
	case s.Flags&wire.FlagMergeErr != 0:
		st.child[wire.Stderr] = st.child[wire.Stdout]
	case s.Flags&wire.FlagNoStderr == 0:
		err = st.openPipe(wire.Stderr)
	}
	if err != nil {
		st.close()
	}
	return st, err
}

// openPipe makes the pipe of a channel. Only our end does not block: the
// flag belongs to the end, and programs expect blocking streams.
func (st *streams) openPipe(channel int) error {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	ours, theirs := p[0], p[1]
	if channel == wire.Stdin {
		ours, theirs = p[1], p[0]
	}
	if err := unix.SetNonblock(ours, true); err != nil {
		unix.Close(ours)
		unix.Close(theirs)
		return err
	}
	st.child[channel] = theirs
	st.closes = append(st.closes, theirs)
	st.ours[channel] = os.NewFile(uintptr(ours), "pipe")
	return nil
}

// openTTY opens a new pseudo-terminal. Its other end is opened through the
// master itself, because a path could be made to name something else.
func (st *streams) openTTY(rows, cols uint16) error {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	st.tty = os.NewFile(uintptr(master), "tty")
	peer, err := ttyPeer(master)
	if err != nil {
		st.close()
		return err
	}
	st.child = [3]int{peer, peer, peer}
	st.closes = []int{peer}
	st.ours[wire.Stdin], st.ours[wire.Stdout] = st.tty, st.tty
	return st.resize(rows, cols)
}

func ttyPeer(master int) (int, error) {
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return -1, err
	}
	flags := unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, uintptr(flags))
	if errno == 0 {
		return int(fd), nil
	}
	var n uint32 // kernels and runtimes without TIOCGPTPEER
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTN, uintptr(unsafe.Pointer(&n))); errno != 0 {
		return -1, errno
	}
	return unix.Open("/dev/pts/"+strconv.Itoa(int(n)), flags|unix.O_NOFOLLOW, 0)
}

// resize sets the size of the terminal, if there is one.
func (st *streams) resize(rows, cols uint16) error {
	if st == nil || st.tty == nil {
		return nil
	}
	conn, err := st.tty.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = conn.Control(func(fd uintptr) {
		set = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
	if err == nil {
		err = set
	}
	return err
}

// handedOver closes the command's side, which the command has by now.
func (st *streams) handedOver() {
	for _, fd := range st.closes {
		unix.Close(fd)
	}
	st.closes = nil
}

// close closes everything.
func (st *streams) close() {
	st.handedOver()
	for _, f := range st.ours {
		if f != nil {
			f.Close() // twice is harmless
		}
	}
	if st.tty != nil {
		st.tty.Close()
	}
}
