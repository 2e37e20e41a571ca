package wire

import (
	"encoding/binary"
)

const (
	// MessageLen is the length of a message in bytes.
	messageLen = 12
	// MaxFiles bounds the descriptors of one message.
	maxFiles = 4
)

// magic begins each message.
const handoverMagic = "BKFD"

// A Kind says what descriptors are for.
type handoverKind uint8

// The kinds of messages. handover_doc.go says which side sends which.
const (
	KindState   handoverKind = 1 // three files in which the guest keeps the state of a shell
	KindRestore handoverKind = 2 // a file with a state that a shell is to take up

	KindListener   handoverKind = 3 // a listening TCP socket of the sandbox
	KindConnection handoverKind = 4 // a connected TCP socket of the sandbox
)

// A Message is descriptors that were received, and what they are for. They
// are the receiver's. They are plain numbers because package os asks a file
// whether it can be polled, which a stranger's may never answer.
type Message struct {
	Kind   handoverKind
	Ticket uint32
	FDs    []int
}

// A header is a message without its descriptors.
type header struct {
	kind   handoverKind
	count  uint8
	ticket uint32
}

func (h header) encode() []byte {
	b := append(make([]byte, 0, messageLen), handoverMagic...)
	b = append(b, byte(h.kind), h.count, 0, 0)
	return binary.LittleEndian.AppendUint32(b, h.ticket)
}

// decode reads a packet that files descriptors came with.
func decodeHandover(b []byte, files int) (header, error) {
	if len(b) != messageLen || string(b[:4]) != handoverMagic || b[6] != 0 || b[7] != 0 {
		return header{}, Violation("malformed message about descriptors")
	}
	h := header{kind: handoverKind(b[4]), count: b[5], ticket: binary.LittleEndian.Uint32(b[8:])}
	switch {
	case h.kind < KindState || h.kind > KindConnection:
		return header{}, Violation("descriptors of an unknown kind")
	case h.ticket == 0:
		return header{}, Violation("descriptors that no message asked for")
	case h.count == 0 || h.count > maxFiles || int(h.count) != files:
		return header{}, Violation("other descriptors than were announced")
	}
	return h, nil
}
