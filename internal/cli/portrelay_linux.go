package cli

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A parker waits for many sockets at once, by an epoll instance of its own: that of the
// runtime has a goroutine for each. A nil one takes none.
type parker struct {
	file *os.File // the epoll instance, for which the runtime's waits

	mu     sync.Mutex
	last   uint64
	parked map[uint64]*direction // by number
}

// newParker returns a parker, or nil where there is none.
func newParker() *parker {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil
	}
	if unix.SetNonblock(fd, true) != nil {
		unix.Close(fd)
		return nil
	}
	k := &parker{file: os.NewFile(uintptr(fd), "epoll"), parked: map[uint64]*direction{}}
	raw, err := k.file.SyscallConn()
	if err != nil {
		k.file.Close()
		return nil
	}
	go k.wait(raw)
	return k
}

// wait wakes directions until the parker is closed.
func (k *parker) wait(raw syscall.RawConn) {
	events := make([]unix.EpollEvent, 64)
	for {
		n := 0
		err := raw.Read(func(fd uintptr) bool {
			var failed error
			n, failed = unix.EpollWait(int(fd), events, 0)
			return n > 0 || failed != nil && failed != unix.EINTR
		})
		if err != nil || n < 0 {
			return
		}
		for _, e := range events[:n] {
			number := uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32
			k.mu.Lock()
			d := k.parked[number]
			delete(k.parked, number)
			k.mu.Unlock()
			if d != nil { // else it was forgotten meanwhile
				d.wake(number)
			}
		}
	}
}

// park has d woken when something comes at the socket, or its end does, and returns
// the number of that; 0 where it cannot be had.
func (k *parker) park(raw syscall.RawConn, d *direction) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last++
	number := k.last
	e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(uint32(number)), Pad: int32(uint32(number >> 32))}
	var failed error
	err := k.control(func(epoll int) {
		if err := raw.Control(func(fd uintptr) {
			failed = unix.EpollCtl(epoll, unix.EPOLL_CTL_MOD, int(fd), &e)
			if failed == unix.ENOENT { // its first time
				failed = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, int(fd), &e)
			}
		}); err != nil {
			failed = err
		}
	})
	if err != nil || failed != nil {
		return 0
	}
	k.parked[number] = d
	return number
}

func (k *parker) control(do func(epoll int)) error {
	raw, err := k.file.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { do(int(fd)) })
}

// forget takes back what was parked with a number.
func (k *parker) forget(number uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.parked, number)
}

func (k *parker) close() {
	if k != nil {
		k.file.Close()
	}
}
