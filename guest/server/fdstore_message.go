package server

import "encoding/binary"

// Slots are descriptor numbers of the descriptor store. They are low because
// the limit of open files may be.
const (
	slotStdout  = 3 // write end for the next line
	slotStderr  = 4 // write end for the next line
	slotStdin   = 5 // read end for the next line
	slotControl = 6 // write end of what the shell tells the guest
	slotText    = 7 // a line that is too long for the script
	slotRestore = 8 // the state that a new shell starts from

	firstSlot = slotStdout
	lastSlot  = slotRestore
)

// First bytes of messages. The socket keeps them apart (SOCK_SEQPACKET).
const (
	// From the guest. Put has a byte for the slot of each descriptor that
	// comes with it, and is answered with Done.
	fdstorePut = 'P'
	// Drain has one descriptor, which is read and forgotten until its end.
	fdstoreDrain = 'D'
	// Tell has one descriptor, which becomes the shell's standard output. It
	// is the first message, and what becomes the shell takes it.
	fdstoreTell = 'T'

	fdstoreReady   = 'R' // from the store: its process number
	fdstoreDone    = 'A' // from the store
	fdstoreProgram = 'S' // from what becomes the shell: the program's name
	fdstoreFailed  = 'F' // from what did not become the shell: errno
)

// MaxMessage bounds a message from the descriptor store in bytes.
const maxMessage = 32

// MaxPut bounds the descriptors of one Put.
const maxPut = lastSlot - firstSlot + 1

// number returns a message that carries a number.
func fdstoreNumber(kind byte, n int) []byte {
	return binary.LittleEndian.AppendUint32([]byte{kind}, uint32(n))
}

// Number reads the number of a Ready or Failed message. ok is false when
// there is none.
func numberFdstore(m []byte) (n int, ok bool) {
	if len(m) != 5 {
		return 0, false
	}
	n = int(binary.LittleEndian.Uint32(m[1:]))
	return n, n > 0 && n < 1<<30
}
