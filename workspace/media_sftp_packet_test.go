package workspace

import (
	"encoding/binary"
	"io"
)

// Kinds of packets of version 3 of the protocol
// (draft-ietf-secsh-filexfer-02, section 3).
const (
	kindInit     = 1
	kindVersion  = 2
	kindOpen     = 3
	kindRead     = 5
	kindLstat    = 7
	kindFstat    = 8
	kindRealpath = 16
	kindStatus   = 101
	kindHandle   = 102
	kindData     = 103
	kindName     = 104
	kindAttrs    = 105
)

const (
	version   = 3
	maxPacket = 256 << 10 // bytes; what OpenSSH sends at most

	attrSize  = 0x1
	attrIDs   = 0x2
	attrPerms = 0x4
)

// A packet is one message of the server, without length and id.
type packet struct {
	kind byte
	id   uint32
	body fields
}

// fields is the rest of a packet that is still to be read. Reading beyond its
// end makes it bad, which is asked about once, at the end.
type fields struct {
	rest []byte
	bad  bool
}

func (f *fields) take(n int) []byte {
	if f.bad || n > len(f.rest) {
		f.bad = true
		return nil
	}
	b := f.rest[:n]
	f.rest = f.rest[n:]
	return b
}

func (f *fields) uint32() uint32 {
	if b := f.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (f *fields) uint64() uint64 {
	if b := f.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (f *fields) text() []byte {
	n := f.uint32()
	if n > maxPacket {
		f.bad = true
		return nil
	}
	return f.take(int(n))
}

// readPacket reads one packet of at most maxPacket bytes. A version packet
// has no id and counts its number as one.
func readPacket(r io.Reader) (packet, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return packet{}, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n < 5 || n > maxPacket {
		return packet{}, errMalformed
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return packet{}, err
	}
	p := packet{kind: body[0], body: fields{rest: body[1:]}}
	p.id = p.body.uint32()
	return p, nil
}

// A request is a packet of ours that is being built.
type request struct{ data []byte }

func newRequest(kind byte, id uint32) *request {
	return (&request{data: []byte{0, 0, 0, 0, kind}}).uint32(id)
}

func (q *request) uint32(v uint32) *request {
	q.data = binary.BigEndian.AppendUint32(q.data, v)
	return q
}

func (q *request) uint64(v uint64) *request {
	q.data = binary.BigEndian.AppendUint64(q.data, v)
	return q
}

func (q *request) text(s string) *request {
	q.uint32(uint32(len(s)))
	q.data = append(q.data, s...)
	return q
}

// bytes returns the packet with its length.
func (q *request) bytes() []byte {
	binary.BigEndian.PutUint32(q.data, uint32(len(q.data)-4))
	return q.data
}
