package stream

import (
	"encoding/binary"
	"encoding/json"
	"net"
	"net/netip"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// The kinds of binary frames, their first byte.
const (
	kindOpen = iota
	kindData
	kindEnd
	kindCredit
	kindClose
	kindReset
	kinds
)

// headSize is the size of a binary frame without its content.
const headSize = 5

// maxFrame bounds a frame, in bytes.
const maxFrame = headSize + MaxData

// A forwardFrame is a binary frame.
type forwardFrame struct {
	kind    byte
	number  uint32
	content []byte
}

// encode appends f to b.
func (f forwardFrame) encode(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(append(b, f.kind), f.number)
	return append(b, f.content...)
}

// decodeForward reads a frame, whose content is a part of b.
func decodeForward(b []byte) (forwardFrame, error) {
	if len(b) < headSize || b[0] >= kinds {
		return forwardFrame{}, violation("a frame that is none")
	}
	f := forwardFrame{b[0], binary.BigEndian.Uint32(b[1:]), b[headSize:]}
	switch f.kind {
	case kindOpen, kindData:
	case kindCredit:
		if len(f.content) != 4 {
			return forwardFrame{}, violation("a credit that is none")
		}
	default:
		if len(f.content) != 0 {
			return forwardFrame{}, violation("content where there is none")
		}
	}
	return f, nil
}

func creditOf(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// The types of text frames.
const (
	typeListening = "listening"
	typeClose     = "close"
	typeClosed    = "closed"
	typeEnded     = "ended"
)

// A forwardControl is a text frame.
type forwardControl struct {
	Type  string        `json:"type"`
	At    *address      `json:"at,omitempty"`
	Error *api.Document `json:"error,omitempty"`
}

// ends are the two addresses of a connection.
type ends struct {
	Local  address `json:"local"`
	Remote address `json:"remote"`
}

// An address is a net.Addr.
type address struct {
	Network string `json:"network"`
	Addr    Text   `json:"addr"`
}

func addressOf(a net.Addr) address {
	if a == nil {
		return address{}
	}
	return address{a.Network(), Text(a.String())}
}

// plain returns the address as a type of package net, where that has one for it.
func (a address) plain() net.Addr {
	switch a.Network {
	case "tcp":
		if at, err := netip.ParseAddrPort(string(a.Addr)); err == nil {
			return net.TCPAddrFromAddrPort(at)
		}
	case "unix":
		return &net.UnixAddr{Net: "unix", Name: string(a.Addr)}
	}
	return other{a}
}

// An other is an address of any other network.
type other struct{ a address }

func (o other) Network() string { return o.a.Network }
func (o other) String() string  { return string(o.a.Addr) }

func decodeEnds(b []byte) (local, remote net.Addr, err error) {
	var e ends
	if json.Unmarshal(b, &e) != nil {
		return nil, nil, violation("a connection without addresses")
	}
	return e.Local.plain(), e.Remote.plain(), nil
}

// violation returns the error for a peer that violates the protocol.
func violation(message string) error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Message: "the other side does not speak as it should: " + message}
}

const op = "listen"
