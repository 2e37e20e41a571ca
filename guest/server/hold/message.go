package hold

import "encoding/binary"

// Slots are descriptor numbers of the holder. They are low because the
// limit of open files may be.
const (
	SlotStdout  = 3 // write end for the next line
	SlotStderr  = 4 // write end for the next line
	SlotStdin   = 5 // read end for the next line
	SlotControl = 6 // write end of what the shell tells the guest
	SlotText    = 7 // a line that is too long for the script
	SlotRestore = 8 // the state that a new shell starts from

	firstSlot = SlotStdout
	lastSlot  = SlotRestore
)

// First bytes of messages. The socket keeps them apart (SOCK_SEQPACKET).
const (
	// From the guest. Put has a byte for the slot of each descriptor that
	// comes with it, and is answered with Done.
	Put = 'P'
	// Drain has one descriptor, which is read and forgotten until its end.
	Drain = 'D'
	// Tell has one descriptor, which becomes the shell's standard output. It
	// is the first message, and what becomes the shell takes it.
	Tell = 'T'

	Ready   = 'R' // from the holder: its process number
	Done    = 'A' // from the holder
	Program = 'S' // from what becomes the shell: the program's name
	Failed  = 'F' // from what did not become the shell: errno
)

// MaxMessage bounds a message from the holder in bytes.
const MaxMessage = 32

// MaxPut bounds the descriptors of one Put.
const MaxPut = lastSlot - firstSlot + 1

// number returns a message that carries a number.
func number(kind byte, n int) []byte {
	return binary.LittleEndian.AppendUint32([]byte{kind}, uint32(n))
}

// Number reads the number of a Ready or Failed message. ok is false when
// there is none.
func Number(m []byte) (n int, ok bool) {
	if len(m) != 5 {
		return 0, false
	}
	n = int(binary.LittleEndian.Uint32(m[1:]))
	return n, n > 0 && n < 1<<30
}
