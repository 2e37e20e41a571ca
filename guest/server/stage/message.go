//go:build linux

package stage

import (
	"encoding/binary"
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// ControlFD is the descriptor of a stage's socket to the guest.
const ControlFD = 3

// Kinds of reports.
const (
	Ready   = 'R' // the stage waits for a request
	Started = 'S' // the program runs; PID
	Failed  = 'F' // it could not be started; Step, Errno. No child is left
	Exited  = 'X' // the program ended; Status and what follows. Empty says that no descendant is left
	Empty   = 'E' // the last descendant is gone
)

// ReportLen is the size of a report in bytes.
const ReportLen = 48

// A Report is what a stage tells the guest.
type Report struct {
	Kind   byte
	Empty  bool
	Step   uint8 // see the Step constants
	Errno  uint32
	PID    uint32
	Status uint32 // wait status, as from wait4(2)
	User   uint64 // nanoseconds
	System uint64 // nanoseconds
	MaxRSS uint64 // bytes
}

// Encode returns the wire form of r.
func (r Report) Encode() []byte {
	b := make([]byte, ReportLen)
	b[0], b[2] = r.Kind, r.Step
	if r.Empty {
		b[1] = 1
	}
	binary.LittleEndian.PutUint32(b[4:], r.Errno)
	binary.LittleEndian.PutUint32(b[8:], r.PID)
	binary.LittleEndian.PutUint32(b[12:], r.Status)
	binary.LittleEndian.PutUint64(b[16:], r.User)
	binary.LittleEndian.PutUint64(b[24:], r.System)
	binary.LittleEndian.PutUint64(b[32:], r.MaxRSS)
	return b
}

// DecodeReport reads a report of ReportLen bytes.
func DecodeReport(b []byte) Report {
	return Report{
		Kind: b[0], Empty: b[1] != 0, Step: b[2],
		Errno:  binary.LittleEndian.Uint32(b[4:]),
		PID:    binary.LittleEndian.Uint32(b[8:]),
		Status: binary.LittleEndian.Uint32(b[12:]),
		User:   binary.LittleEndian.Uint64(b[16:]),
		System: binary.LittleEndian.Uint64(b[24:]),
		MaxRSS: binary.LittleEndian.Uint64(b[32:]),
	}
}

// RequestHeader returns the first bytes of a request whose body has n
// bytes: the payload of a wire.Start, with the descriptors of standard
// input, output and error attached to this header. A body of the kind
// "base" has no descriptors; its environment, and its soft limit of open
// files, are what later requests are laid over.
func RequestHeader(base bool, n int) []byte {
	b := make([]byte, requestHeaderLen)
	if base {
		b[0] = 1
	}
	binary.LittleEndian.PutUint32(b[4:], uint32(n))
	return b
}

const requestHeaderLen = 8

// A request as it came from the guest.
type request struct {
	base bool
	body []byte
	fds  [3]int
}

// receive waits for the next request. io.EOF means that the guest let go.
func receive() (request, error) {
	var header [requestHeaderLen]byte
	oob := make([]byte, unix.CmsgSpace(3*4))
	n, oobn, _, _, err := recvmsg(header[:], oob)
	switch {
	case err != nil:
		return request{}, err
	case n == 0:
		return request{}, io.EOF
	case n < len(header):
		if err := readFull(header[n:]); err != nil {
			return request{}, err
		}
	}
	r := request{base: header[0] == 1, body: make([]byte, binary.LittleEndian.Uint32(header[4:]))}
	if err := readFull(r.body); err != nil {
		return request{}, err
	}
	if r.base {
		return r, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		return request{}, errors.New("request without descriptors")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 3 {
		return request{}, errors.New("request with wrong descriptors")
	}
	r.fds = [3]int(fds)
	return r, nil
}

func recvmsg(b, oob []byte) (n, oobn, flags int, from unix.Sockaddr, err error) {
	for {
		n, oobn, flags, from, err = unix.Recvmsg(ControlFD, b, oob, unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			return n, oobn, flags, from, err
		}
	}
}

func readFull(b []byte) error {
	for len(b) > 0 {
		n, err := unix.Read(ControlFD, b)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		default:
			b = b[n:]
		}
	}
	return nil
}

func send(r Report) error {
	b := r.Encode()
	for len(b) > 0 {
		n, err := unix.SendmsgN(ControlFD, b, nil, nil, unix.MSG_NOSIGNAL)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return err
		default:
			b = b[n:]
		}
	}
	return nil
}
