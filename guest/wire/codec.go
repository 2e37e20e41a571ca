package wire

import "encoding/binary"

// An encoder appends fields. Strings are a 32-bit length and the bytes,
// lists a 32-bit count and the elements.
type encoder struct{ b []byte }

func (e *encoder) u8(v uint8)   { e.b = append(e.b, v) }
func (e *encoder) u16(v uint16) { e.b = binary.LittleEndian.AppendUint16(e.b, v) }
func (e *encoder) u32(v uint32) { e.b = binary.LittleEndian.AppendUint32(e.b, v) }
func (e *encoder) u64(v uint64) { e.b = binary.LittleEndian.AppendUint64(e.b, v) }

func (e *encoder) str(s string) {
	e.u32(uint32(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) strs(l []string) {
	e.u32(uint32(len(l)))
	for _, s := range l {
		e.str(s)
	}
}

// A decoder takes fields off the front. After the first field that is not
// there it returns zero values and bad is true.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n int) []byte {
	if d.bad || n < 0 || n > len(d.b) {
		d.bad = true
		return nil
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) u8() uint8 {
	if p := d.take(1); p != nil {
		return p[0]
	}
	return 0
}

func (d *decoder) u16() uint16 {
	if p := d.take(2); p != nil {
		return binary.LittleEndian.Uint16(p)
	}
	return 0
}

func (d *decoder) u32() uint32 {
	if p := d.take(4); p != nil {
		return binary.LittleEndian.Uint32(p)
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if p := d.take(8); p != nil {
		return binary.LittleEndian.Uint64(p)
	}
	return 0
}

// count reads the number of elements of a list whose elements take at
// least size bytes each, so that a claim cannot exceed what is there.
func (d *decoder) count(size int) int {
	n := d.u32()
	if uint64(n)*uint64(size) > uint64(len(d.b)) {
		d.bad = true
		return 0
	}
	return int(n)
}

func (d *decoder) str() string { return string(d.take(d.count(1))) }

func (d *decoder) strs() []string {
	n := d.count(4)
	if n == 0 {
		return nil
	}
	l := make([]string, 0, n)
	for range n {
		l = append(l, d.str())
	}
	return l
}

// end returns a violation when a field was missing.
func (d *decoder) end(what string) error {
	if d.bad {
		return Violation("malformed " + what)
	}
	return nil
}
