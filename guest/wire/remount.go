package wire

import (
	"path"
	"time"
)

// FeatureRemount: the guest takes TypeRemount.
const FeatureRemount = "remount"

// A Remount is answered with Quiet once no file operation is half way below the
// mount, after which the client exchanges the file system there and says so with
// Remounted. Done says that the guest uses the new one. Failed comes instead of
// Quiet if an operation does not end in time (KindBusy), and instead of Done if
// the mount cannot be entered (KindNoRoot) or if Remounted has not come in time
// (KindCalledOff): the guest has looked for another file system then, as it does
// when the connection ends, and goes on.
const (
	TypeRemount   Type = 0x1c // Remount
	TypeQuiet     Type = 0x4f // from the guest: no payload
	TypeRemounted Type = 0x51 // from the client: Remounted
)

// KindBusy says that an operation is under way which does not end in time.
const KindBusy Kind = 38

// Bounds of a Remount.
const (
	MaxQuietAfter = 10 * time.Second // until the operations under way have ended
	MaxQuiet      = 10 * time.Second // from Quiet to Remounted
)

// Remount asks the guest to begin no file operation below a mount, and no line of
// a shell, until Remounted comes.
type Remount struct {
	Root   string // the mount, an absolute path
	Within uint32 // milliseconds to wait for the operations under way, at most MaxQuietAfter
}

// Encode returns the payload of a Remount frame.
func (m Remount) Encode() []byte {
	var e encoder
	e.str(m.Root)
	e.u32(m.Within)
	return e.b
}

// DecodeRemount reads the payload of a Remount frame.
func DecodeRemount(p []byte) (Remount, error) {
	d := decoder{b: p}
	m := Remount{Root: d.str(), Within: d.u32()}
	if !absolute(m.Root) || m.Root == "/" || path.Clean(m.Root) != m.Root || len(m.Root) > maxFilePath {
		d.bad = true
	}
	return m, d.end("remount")
}

// Remounted ends a Remount.
type Remounted struct {
	Exchanged bool // else all is as it was
}

// Encode returns the payload of a Remounted frame.
func (m Remounted) Encode() []byte {
	if m.Exchanged {
		return []byte{1}
	}
	return []byte{0}
}

// DecodeRemounted reads the payload of a Remounted frame.
func DecodeRemounted(p []byte) (Remounted, error) {
	d := decoder{b: p}
	m := Remounted{Exchanged: d.u8() == 1}
	return m, d.end("end of a remount")
}
