//go:build linux

package server

import (
	"encoding/binary"
	"os"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	cmsgHeader = unix.SizeofCmsghdr // its size needs no padding on 64-bit machines
	fdSize     = 4
	drainSize  = 16 << 10
)

// A keeper is the state of the descriptor store. All memory that it ever needs
// is there from the start: it never collects garbage, because that could need a
// thread when the process limit has none to give.
type keeper struct {
	message [1 + maxPut]byte
	oob     [cmsgHeader + maxPut*fdSize + fdSize]byte
	iov     unix.Iovec
	header  unix.Msghdr
	scrap   [drainSize]byte
	polled  []unix.PollFd // the socket, then what is drained
}

// keep runs the descriptor store. It returns when the guest closes its socket.
func keep() int {
	debug.SetGCPercent(-1)
	ignoreAll() // what is meant for the shell's processes may reach us
	for slot := firstSlot; slot <= lastSlot; slot++ {
		if unix.Dup3(nullFD, slot, unix.O_CLOEXEC) != nil {
			return 1
		}
	}
	k := &keeper{polled: make([]unix.PollFd, 1, 64)}
	k.polled[0] = unix.PollFd{Fd: socketFD, Events: unix.POLLIN}
	say(socketFD, fdstoreNumber(fdstoreReady, os.Getpid()))
	done := []byte{fdstoreDone}
	for {
		k.polled[0].Revents = 0
		if _, err := unix.Poll(k.polled, -1); err != nil && err != unix.EINTR {
			return 1
		}
		k.drain()
		if k.polled[0].Revents == 0 {
			continue
		}
		n, fds, ok := k.receive()
		switch {
		case !ok:
			return 0
		case k.message[0] == fdstorePut && n == len(fds)/fdSize+1:
			k.put(fds)
			say(socketFD, done)
		case k.message[0] == fdstoreDrain && len(fds) == fdSize:
			k.polled = append(k.polled, unix.PollFd{Fd: int32(binary.NativeEndian.Uint32(fds)), Events: unix.POLLIN})
		}
	}
}

// receive takes one message with its descriptors, four bytes each. ok is
// false at the end of the socket.
func (k *keeper) receive() (n int, fds []byte, ok bool) {
	k.iov.Base = &k.message[0]
	k.iov.SetLen(len(k.message))
	k.header = unix.Msghdr{Iov: &k.iov, Control: &k.oob[0]}
	k.header.SetIovlen(1)
	k.header.SetControllen(len(k.oob))
	r, _, errno := unix.Syscall(unix.SYS_RECVMSG, socketFD, uintptr(unsafe.Pointer(&k.header)), unix.MSG_CMSG_CLOEXEC)
	switch {
	case errno == unix.EINTR, errno == unix.EAGAIN:
		k.message[0] = 0
		return 0, nil, true
	case errno != 0 || r == 0:
		return 0, nil, false
	}
	if k.header.Controllen > cmsgHeader {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&k.oob[0]))
		if h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_RIGHTS && uint64(h.Len) <= uint64(k.header.Controllen) {
			fds = k.oob[cmsgHeader:h.Len]
		}
	}
	return int(r), fds, true
}

// put moves the descriptors into the slots that the message names.
func (k *keeper) put(fds []byte) {
	for i := 0; i*fdSize < len(fds); i++ {
		fd := int(binary.NativeEndian.Uint32(fds[i*fdSize:]))
		slot := int(k.message[1+i])
		if slot >= firstSlot && slot <= lastSlot {
			_ = unix.Dup3(fd, slot, unix.O_CLOEXEC) // the slots are open, so this cannot fail
		}
		unix.Close(fd)
	}
}

// drain reads what processes of earlier lines have written, and closes the
// pipes that no process can write to any more.
func (k *keeper) drain() {
	kept := k.polled[:1]
	for _, p := range k.polled[1:] {
		if p.Revents != 0 {
			n, err := unix.Read(int(p.Fd), k.scrap[:])
			if n == 0 || err != nil && err != unix.EINTR && err != unix.EAGAIN {
				unix.Close(int(p.Fd))
				continue
			}
		}
		kept = append(kept, unix.PollFd{Fd: p.Fd, Events: unix.POLLIN})
	}
	k.polled = kept
}
