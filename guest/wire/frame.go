package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"strconv"
)

// Version is the protocol version of this package, and MinVersion the
// oldest one that it still speaks.
const (
	Version    = 1
	MinVersion = 1
)

// Sizes in bytes.
const (
	HeaderLen  = 12        // of a frame's header
	MaxData    = 64 << 10  // payload of any frame but a request
	MaxRequest = 4 << 20   // payload of a request: twice ARG_MAX by default, and a line of MaxLine bytes
	Window     = 256 << 10 // under way on one channel of one stream
)

// A Type says what a frame is.
type Type uint8

// The types of frames.
const (
	TypeHello  Type = 0x01 // both ways, first: ClientHello, then Hello
	TypeGoAway Type = 0x02 // from the guest, last: GoAway
	TypePing   Type = 0x03 // from the client: up to 64 bytes
	TypePong   Type = 0x04 // from the guest: the same bytes
	TypeBye    Type = 0x05 // from the client: end what is not detached, then close

	TypeStart     Type = 0x10 // Start
	TypeSetReady  Type = 0x11 // SetReady
	TypeShell     Type = 0x12 // Shell
	TypeLine      Type = 0x13 // Line
	TypeFile      Type = 0x14 // File
	TypeKeptShell Type = 0x15 // KeptShell
	TypeProof     Type = 0x16 // no payload
	TypeDial      Type = 0x18 // Dial: a byte stream to an endpoint inside
	TypeListen    Type = 0x19 // Listen: byte streams from an endpoint inside
	TypePass      Type = 0x1a // Pass: the listening socket of an endpoint inside
	TypePassDial  Type = 0x1b // Pass: the socket of a connection to an endpoint inside

	TypeStarted Type = 0x40 // Started
	TypeExit    Type = 0x41 // Exit
	TypeFailed  Type = 0x42 // Failed
	TypeDone    Type = 0x43 // no payload
	TypeData    Type = 0x44 // bytes of a channel
	TypeCredit  Type = 0x45 // Credit
	TypeStop    Type = 0x46 // no payload
	TypeSignal  Type = 0x47 // Signal
	TypeResize  Type = 0x48 // Resize
	TypeKill    Type = 0x49 // Kill
	TypeOpened  Type = 0x4a // ShellOpened

	TypeProven Type = 0x4b // Miss…, see EncodeMisses

	TypeUse  Type = 0x4c // from the client: Use
	TypeUsed Type = 0x4d // from the guest: Used

	TypeFileAnswer Type = 0x50 // FileAnswer

	TypeAttempt Type = 0x80 // a hint: Attempt
)

// IsRequest reports whether t opens a stream.
func (t Type) IsRequest() bool { return t >= 0x10 && t < 0x40 }

// IsHint reports whether a receiver that does not know t skips it.
func (t Type) IsHint() bool { return t >= 0x80 }

// Channels of a command's stream.
const (
	Stdin  = 0
	Stdout = 1
	Stderr = 2
)

// FlagEOF in the flags of a Data frame ends the channel.
const FlagEOF = 0x80

// A Frame is one frame. The payload that [Reader.Next] returns is valid
// until the next call.
type Frame struct {
	Type    Type
	Flags   uint8
	Stream  uint32
	Payload []byte
}

// Channel is the channel that a Data, Credit or Stop frame is about.
func (f Frame) Channel() uint8 { return f.Flags &^ FlagEOF }

// EOF reports whether the frame ends its channel.
func (f Frame) EOF() bool { return f.Flags&FlagEOF != 0 }

// A ProtocolError says how the other side broke the rules of this package.
type ProtocolError struct{ Reason string }

// Error names the broken rule.
func (e *ProtocolError) Error() string { return "protocol violation: " + e.Reason }

// Violation returns a ProtocolError.
func Violation(reason string) error { return &ProtocolError{Reason: reason} }

// PutHeader writes the header of f for a payload of n bytes into b, which
// must have HeaderLen bytes.
func PutHeader(b []byte, f Frame, n int) {
	b[0], b[1], b[2], b[3] = byte(f.Type), f.Flags, 0, 0
	binary.LittleEndian.PutUint32(b[4:], f.Stream)
	binary.LittleEndian.PutUint32(b[8:], uint32(n))
}

// AppendFrame appends f in its wire form to b.
func AppendFrame(b []byte, f Frame) []byte {
	var h [HeaderLen]byte
	PutHeader(h[:], f, len(f.Payload))
	return append(append(b, h[:]...), f.Payload...)
}

// A Reader reads frames. It is not safe for concurrent use. It holds little
// before the first large payload and after [Reader.Release], because a program
// may have hundreds that wait.
type Reader struct {
	r          *bufio.Reader
	small      []byte // for payloads of up to readAhead bytes
	large      []byte // for more, up to MaxData; nil until there is one such
	maxRequest int
}

// readAhead is how many bytes are read at once where that many are there:
// frames of many short commands are small. What is longer goes straight to
// where it belongs.
const readAhead = 4 << 10

// NewReader returns a Reader on r that takes requests of up to maxRequest
// bytes; below MaxData the limit is MaxData.
func NewReader(r io.Reader, maxRequest int) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, readAhead), maxRequest: max(maxRequest, MaxData)}
}

// Next returns the next frame. At the clean end of the stream it returns
// io.EOF, inside a frame io.ErrUnexpectedEOF, and for a header that breaks
// the rules a *ProtocolError.
//
// The payload is the Reader's again with the next call.
func (r *Reader) Next() (Frame, error) {
	h, err := r.r.Peek(HeaderLen)
	if err != nil {
		if len(h) > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, err
	}
	f := Frame{Type: Type(h[0]), Flags: h[1], Stream: binary.LittleEndian.Uint32(h[4:])}
	reserved, length := uint16(h[2])|uint16(h[3])<<8, binary.LittleEndian.Uint32(h[8:])
	if _, err := r.r.Discard(HeaderLen); err != nil {
		return Frame{}, err
	}
	limit := MaxData
	if f.Type.IsRequest() {
		limit = r.maxRequest
	}
	switch {
	case f.Type == 0 || reserved != 0:
		return Frame{}, Violation("malformed frame header")
	case uint64(length) > uint64(limit):
		return Frame{}, Violation("frame of type " + strconv.Itoa(int(f.Type)) +
			" claims " + strconv.FormatUint(uint64(length), 10) + " bytes, the limit is " + strconv.Itoa(limit))
	}
	f.Payload, err = r.payload(int(length))
	return f, err
}

// payload reads n bytes.
func (r *Reader) payload(n int) ([]byte, error) {
	if n > MaxData {
		return r.request(n)
	}
	if n > readAhead {
		if r.large == nil {
			r.large = make([]byte, MaxData)
		}
		return r.fill(r.large[:n:n])
	}
	if cap(r.small) < n {
		r.small = make([]byte, n, min(2*n, readAhead))
	}
	return r.fill(r.small[:n:n])
}

// Release gives up what large payloads were read into, until there is one
// again. It is for when none is expected.
func (r *Reader) Release() { r.large = nil }

// request reads n bytes into memory that grows as they arrive.
func (r *Reader) request(n int) ([]byte, error) {
	var b []byte
	for done := 0; done < n; done = len(b) {
		step := min(n-done, MaxData)
		if cap(b) < done+step {
			grown := make([]byte, done, min(n, 2*(done+step)))
			copy(grown, b)
			b = grown
		}
		b = b[:done+step]
		if _, err := r.fill(b[done:]); err != nil {
			return nil, err
		}
	}
	return b[:n:n], nil
}

// fill reads as many bytes as b has, and returns it.
func (r *Reader) fill(b []byte) ([]byte, error) {
	_, err := io.ReadFull(r.r, b)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}
