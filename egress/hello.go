// This file parses the first message of a TLS client, the unencrypted
// ClientHello, mainly for the name of the requested host.
//
// The parser is strict. A message that two servers may read differently, such
// as one with two names, is malformed, because the name that is judged must be
// the one that the server reads.
//
// Later messages are not seen: a second hello after a retry request, or
// requests inside, can name another host of the same server. Only interception
// can rule that out.

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
	// helloBufferSize is the reader's buffer size that holds every hello of up
	// to 16 KiB cut into records of at least 64 bytes.
	helloBufferSize = 20 << 10
	// recordHead is the length of a record's type, version and length.
	recordHead = 5
)

// Errors of peekHello and parseHello, by errors.Is.
var (
	errNotTLS    = errors.New("this is not TLS")
	errMalformed = errors.New("malformed TLS hello")
)

// A hello is a parsed ClientHello.
type hello struct {
	// ServerName is the name as sent: letters, digits and "-._:" only, without
	// a trailing dot. It is empty if there was none. It can be an address,
	// which the standard forbids.
	ServerName string
	// ALPN are the offered protocols in order of preference. The client
	// chooses their bytes: quote them.
	ALPN []string
	// Versions are the offered versions, such as 0x0304 for TLS 1.3, made-up
	// ones (GREASE) included.
	Versions []uint16
	// ECH reports that the hello may contain another, encrypted hello, which a
	// server with the key uses instead. Clients without a key put random bytes
	// there; only the server can distinguish the two.
	ECH bool
}

// peekHello parses a hello without consuming anything of br, whose buffer
// should be of helloBufferSize. It waits until the hello is complete or known
// to be invalid: the first byte is enough for most other protocols. The caller
// bounds the time by a deadline of the connection.
//
// Errors are errNotTLS, errMalformed, or those of the reader: io.EOF if
// nothing was received, io.ErrUnexpectedEOF if the hello is incomplete. A
// hello that does not fit the buffer is errMalformed.
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

// peekError returns the error for a reader that has no more bytes than data.
func peekError(err error, data []byte) error {
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return helloMalformed("it is too large")
	case errors.Is(err, io.EOF) && len(data) > 0:
		return io.ErrUnexpectedEOF
	}
	return err
}

// parseHello parses a hello at the start of data. If data is incomplete, need
// is the minimum number of bytes that parsing requires, more than len(data);
// otherwise it is 0.
func parseHello(data []byte) (h hello, need int, err error) {
	var message []byte // the handshake message, as far as it is there
	for rest := data; ; {
		at := len(data) - len(rest)
		if err := badRecord(rest, at == 0); err != nil {
			return hello{}, 0, err
		}
		if len(rest) < recordHead {
			// The head of the first record is read byte by byte, because a
			// message of another protocol may be shorter.
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

// badRecord checks the available bytes of a record's head.
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
// if its head is incomplete.
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
