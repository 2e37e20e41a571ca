package wire

const (
	// maxChecks bounds a list of checks in bytes.
	maxChecks = 4 << 20
	// MaxMisses is how many of what did not hold fit into an answer.
	MaxMisses = (MaxData - 4) / 8
)

// A Want is what has to hold at a path.
type Want uint8

// What can be wanted.
const (
	Unreadable Want = 1 // it cannot be opened for reading; a folder cannot be listed
	Unwritable Want = 2 // it cannot be written, nothing can be made in it, and where it is missing it cannot be made
	Writable   Want = 3 // a folder in which files can be made
	Pinned     Want = 4 // it is a mount point, so that it cannot be renamed or removed
)

// String names w for people.
func (w Want) String() string {
	switch w {
	case Unreadable:
		return "unreadable"
	case Unwritable:
		return "unwritable"
	case Writable:
		return "writable"
	case Pinned:
		return "pinned"
	}
	return "unknown"
}

// A Check is one condition that has to hold inside a sandbox.
type Check struct {
	Path string // absolute, as it is called inside
	Want Want
}

// A Miss is a check that did not hold.
type Miss struct {
	Index uint32 // of the check in its list
	Errno uint32 // what the kernel said, or 0 where it allowed what it should not
}

func (e *encoder) checks(list []Check) {
	e.u32(uint32(len(list)))
	for _, c := range list {
		e.u8(uint8(c.Want))
		e.str(c.Path)
	}
}

func (d *decoder) checks() (list []Check) {
	for range d.count(5) {
		c := Check{Want: Want(d.u8()), Path: d.str()}
		if c.Want < Unreadable || c.Want > Pinned || !absolute(c.Path) {
			d.bad = true
		}
		list = append(list, c)
	}
	return list
}

// EncodeMisses returns the payload of a Proven frame; at most MaxMisses fit.
func EncodeMisses(list []Miss) []byte {
	var e encoder
	e.u32(uint32(len(list)))
	for _, m := range list {
		e.u32(m.Index)
		e.u32(m.Errno)
	}
	return e.b
}

// DecodeMisses reads what EncodeMisses returns, as the answer to a number of
// checks. An answer that is not complete is an error, and not one without
// misses.
func DecodeMisses(p []byte, checks int) ([]Miss, error) {
	d := decoder{b: p, bad: len(p) > MaxData}
	var list []Miss
	next := uint32(0)
	for range d.count(8) {
		m := Miss{Index: d.u32(), Errno: d.u32()}
		if m.Index < next || uint64(m.Index) >= uint64(checks) {
			d.bad = true
			break
		}
		next = m.Index + 1
		list = append(list, m)
	}
	if len(d.b) > 0 {
		d.bad = true
	}
	return list, d.end("answer to checks")
}
