package wire

import "math"

// Use asks, on the stream of a command that runs, what it has used so far. The
// client numbers its questions on a stream upwards from 1.
type Use struct{ Number uint32 }

// Encode returns the payload of a Use frame.
func (m Use) Encode() []byte {
	e := encoder{b: make([]byte, 0, 4)}
	e.u32(m.Number)
	return e.b
}

// DecodeUse reads the payload of a Use frame.
func DecodeUse(p []byte) (Use, error) {
	d := decoder{b: p}
	m := Use{Number: d.u32()}
	if m.Number == 0 {
		d.bad = true
	}
	return m, d.end("question of use")
}

// Used answers the question of that number, and those before it. It may come
// late: the figures are those of the moment when the guest looked.
type Used struct {
	Number uint32
	User   uint64 // nanoseconds of processor time in user mode, of all processes so far
	System uint64 // nanoseconds of processor time in the kernel
	MaxRSS uint64 // bytes, of the largest process that was seen
}

// Encode returns the payload of a Used frame.
func (m Used) Encode() []byte {
	e := encoder{b: make([]byte, 0, 28)}
	e.u32(m.Number)
	e.u64(m.User)
	e.u64(m.System)
	e.u64(m.MaxRSS)
	return e.b
}

// DecodeUsed reads the payload of a Used frame. The numbers fit into 62 bits,
// so that two of them can be added.
func DecodeUsed(p []byte) (Used, error) {
	d := decoder{b: p}
	m := Used{Number: d.u32(), User: d.u64(), System: d.u64(), MaxRSS: d.u64()}
	if m.Number == 0 || max(m.User, m.System, m.MaxRSS) > math.MaxInt64/2 {
		d.bad = true
	}
	return m, d.end("answer of use")
}
