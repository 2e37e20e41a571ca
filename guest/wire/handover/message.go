package handover

import (
	"encoding/binary"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

const (
	// MessageLen is the length of a message in bytes.
	MessageLen = 12
	// MaxFiles bounds the descriptors of one message.
	MaxFiles = 4
)

// magic begins each message.
const magic = "BKFD"

// A Kind says what descriptors are for.
type Kind uint8

// The kinds of messages. See the package for who sends which.
const (
	KindState   Kind = 1 // three files in which the guest keeps the state of a shell
	KindRestore Kind = 2 // a file with a state that a shell is to take up

	KindListener Kind = 3 // a listening TCP socket of the wall
)

// A Message is descriptors that were received, and what they are for. They
// are the receiver's. They are plain numbers because package os asks a file
// whether it can be polled, which a stranger's may never answer.
type Message struct {
	Kind   Kind
	Ticket uint32
	FDs    []int
}

// A header is a message without its descriptors.
type header struct {
	kind   Kind
	count  uint8
	ticket uint32
}

func (h header) encode() []byte {
	b := append(make([]byte, 0, MessageLen), magic...)
	b = append(b, byte(h.kind), h.count, 0, 0)
	return binary.LittleEndian.AppendUint32(b, h.ticket)
}

// decode reads a packet that files descriptors came with.
func decode(b []byte, files int) (header, error) {
	if len(b) != MessageLen || string(b[:4]) != magic || b[6] != 0 || b[7] != 0 {
		return header{}, wire.Violation("malformed message about descriptors")
	}
	h := header{kind: Kind(b[4]), count: b[5], ticket: binary.LittleEndian.Uint32(b[8:])}
	switch {
	case h.kind < KindState || h.kind > KindListener:
		return header{}, wire.Violation("descriptors of an unknown kind")
	case h.ticket == 0:
		return header{}, wire.Violation("descriptors for nobody")
	case h.count == 0 || h.count > MaxFiles || int(h.count) != files:
		return header{}, wire.Violation("other descriptors than were announced")
	}
	return h, nil
}
