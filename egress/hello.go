// Hello: this part of the package reads what a TLS client says first, before anything is
// encrypted: the name of the host that it wants, above all.
//
// The reader is strict. What two servers may read differently, such as two
// names, is malformed, because who decides by the name must have read the one
// that the server will read.
//
// What comes later is not seen: a second hello that the server asks for, or
// requests inside, can mean another host of the same server. Who has to rule
// that out has to intercept.

package egress

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

const (
	// maxHandshake bounds the message. Post-quantum key shares need 2 KiB,
	// resumption of a session some more.
	maxHandshake = 16 << 10
	// BufferSize is how large a reader's buffer has to be to hold every
	// hello of up to 16 KiB that is cut into records of at least 64 bytes.
	helloBufferSize = 20 << 10
	// recordHead is type, version and length.
	recordHead = 5
)

// Errors of Peek and Parse, by errors.Is.
var (
	errNotTLS    = errors.New("this is not TLS")
	errMalformed = errors.New("malformed TLS hello")
)

// A Hello is what a client said.
type hello struct {
	// ServerName is the name as sent: letters, digits and "-._:" only, and no
	// dot at its end. Empty when there was none. It can be an address, which
	// the standard forbids.
	ServerName string
	// ALPN are the protocols offered, most wanted first. They are bytes of
	// the client's choice: quote them.
	ALPN []string
	// Versions are those offered, such as 0x0304 for TLS 1.3, made-up ones
	// (GREASE) included.
	Versions []uint16
	// ECH tells that there may be another, encrypted hello in this one, which
	// counts instead of it for a server that has the key. Clients without a
	// key put random bytes there; nobody else can tell the two apart.
	ECH bool
}

// Peek reads a hello without consuming anything of br, whose buffer should be
// of [BufferSize]. It waits until the hello is complete, or can be seen to be
// none: the first byte is enough for most of what is not TLS. How long that
// may take is a deadline of the connection below.
//
// Errors are ErrNotTLS, ErrMalformed, or those of the reader below:
// io.EOF when nothing came, io.ErrUnexpectedEOF when it broke off. A hello
// that does not fit the buffer is ErrMalformed.
func peekHello(br *bufio.Reader) (hello, error) {
	for need := 1; ; {
		data, err := br.Peek(need)
		if err != nil && len(data) < need {
			return hello{}, peekError(err, data)
		}
		data, _ = br.Peek(max(need, br.Buffered()))
		var h hello
		if h, need, err = parseHello(data); err != nil || need == 0 {
			return h, err
		}
	}
}

// peekError tells why there are no more bytes than data.
func peekError(err error, data []byte) error {
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return helloMalformed("it is too large")
	case errors.Is(err, io.EOF) && len(data) > 0:
		return io.ErrUnexpectedEOF
	}
	return err
}

// Parse reads a hello at the start of data. When data ends too early, need is
// the number of bytes, more than there are, without which nothing more can be
// said; otherwise it is 0.
func parseHello(data []byte) (h hello, need int, err error) {
	var message []byte // the handshake message, as far as it is there
	for rest := data; ; {
		at := len(data) - len(rest)
		if err := badRecord(rest, at == 0); err != nil {
			return hello{}, 0, err
		}
		if len(rest) < recordHead {
			// A record's start is waited for byte by byte only at first, where
			// another protocol may be shorter.
			if at == 0 {
				return hello{}, len(rest) + 1, nil
			}
			return hello{}, at + recordHead, nil
		}
		n := int(rest[3])<<8 | int(rest[4])
		have := min(n, len(rest)-recordHead)
		message = append(message, rest[recordHead:recordHead+have]...)
		size, err := messageSize(message)
		switch {
		case err != nil:
			return hello{}, 0, err
		case size != 0 && len(message)+n-have > size:
			return hello{}, 0, helloMalformed("something follows it in its record")
		case have < n:
			return hello{}, at + recordHead + n, nil
		case size != 0 && len(message) == size:
			h, err := read(message[4:])
			return h, 0, err
		}
		rest = rest[recordHead+n:]
	}
}

// badRecord judges as much as there is of a record's head.
func badRecord(b []byte, first bool) error {
	kind := helloMalformed("a record of another kind or version is in the middle of it")
	if first {
		kind = errNotTLS
	}
	switch {
	case len(b) > 0 && b[0] != 22: // handshake
		return kind
	case len(b) > 1 && b[1] != 3, len(b) > 2 && b[2] > 4:
		return kind
	case len(b) >= recordHead:
		if n := int(b[3])<<8 | int(b[4]); n == 0 || n > 1<<14 {
			return helloMalformed("a record has a length that none may have")
		}
	}
	return nil
}

// messageSize returns the length of the handshake message with its head, or 0
// when too little is there.
func messageSize(m []byte) (int, error) {
	if len(m) > 0 && m[0] != 1 {
		return 0, helloMalformed("it is another message")
	}
	if len(m) < 4 {
		return 0, nil
	}
	n := int(m[1])<<16 | int(m[2])<<8 | int(m[3])
	if n > maxHandshake {
		return 0, helloMalformed("it is too large")
	}
	return 4 + n, nil
}

func helloMalformed(why string) error { return fmt.Errorf("%w: %s", errMalformed, why) }
