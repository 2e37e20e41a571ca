package wire

import "strings"

// FeatureForward: the guest takes Dial and Listen.
const FeatureForward = "forward"

// FeaturePass: this connection has a channel for descriptors, and the guest
// takes Pass on it.
const FeaturePass = "pass"

// FeaturePassDial: as FeaturePass, of PassDial.
const FeaturePassDial = "pass-dial"

// Answers and events of forwarded byte streams.
const (
	TypeConnected Type = 0x60 // Connected
	TypeListening Type = 0x61 // Listening
	TypeAccepted  Type = 0x70 // Accepted: from the guest, opens a stream
)

// Channels of a forwarded connection. Data, FlagEOF, Credit and Stop mean
// on them what they mean on the channels of a command; the end of a channel
// is the end of one direction only.
const (
	Inward  = 0 // from the client to the program inside
	Outward = 1 // from the program inside to the client
)

// ConnWindow is what may be under way on one channel of a forwarded
// connection. It is smaller than Window because code inside opens as many
// connections as it likes, and lets all of them wait.
const ConnWindow = 128 << 10

// FirstAccepted is the lowest number of a stream that the guest opens.
const FirstAccepted = 1 << 31

// MaxAccepted is the most connections that one listener may have open.
const MaxAccepted = 1024

// maxPath is the longest path of a Unix socket.
const maxPath = 107

// A Family says what an Endpoint is.
type Family uint8

// The families of endpoints.
const (
	FamilyUnix Family = 1 // a path; no abstract names
	FamilyIPv4 Family = 4
	FamilyIPv6 Family = 6
)

// An Endpoint is one end of a connection inside. Names are not resolved
// there, so an address travels as its bytes and there is nothing to parse.
type Endpoint struct {
	Family Family
	Port   uint16 // 0 with FamilyUnix
	Host   string // 4 or 16 bytes of the address, or the path; a Unix socket without a name has none
}

// valid reports whether e is one of its family's endpoints.
func (e Endpoint) valid() bool {
	switch e.Family {
	case FamilyUnix:
		return e.Port == 0 && len(e.Host) <= maxPath && !strings.Contains(e.Host, "\x00") &&
			(e.Host == "" || e.Host[0] == '/')
	case FamilyIPv4:
		return len(e.Host) == 4
	case FamilyIPv6:
		return len(e.Host) == 16
	}
	return false
}

// Nameless reports whether e cannot be dialled or listened at, because it
// is a Unix socket without a path.
func (e Endpoint) Nameless() bool { return e.Host == "" }

func (e *encoder) endpoint(p Endpoint) {
	e.u8(uint8(p.Family))
	e.u16(p.Port)
	e.str(p.Host)
}

func (d *decoder) endpoint() Endpoint {
	p := Endpoint{Family: Family(d.u8()), Port: d.u16(), Host: d.str()}
	if !p.valid() {
		d.bad = true
	}
	return p
}

// Dial asks for a connection to an endpoint inside.
type Dial struct{ To Endpoint }

// Encode returns the payload of a Dial frame.
func (m Dial) Encode() []byte {
	var e encoder
	e.endpoint(m.To)
	return e.b
}

// DecodeDial reads the payload of a Dial frame.
func DecodeDial(p []byte) (Dial, error) {
	d := decoder{b: p}
	m := Dial{To: d.endpoint()}
	if m.To.Nameless() {
		d.bad = true
	}
	return m, d.end("dial request")
}

// Connected says that a connection stands.
type Connected struct{ Local, Remote Endpoint }

// Encode returns the payload of a Connected frame.
func (m Connected) Encode() []byte {
	var e encoder
	e.endpoint(m.Local)
	e.endpoint(m.Remote)
	return e.b
}

// DecodeConnected reads the payload of a Connected frame.
func DecodeConnected(p []byte) (Connected, error) {
	d := decoder{b: p}
	m := Connected{Local: d.endpoint(), Remote: d.endpoint()}
	return m, d.end("dial answer")
}

// Listen asks for a listener at an endpoint inside. A port of 0 stands for
// any that is free. At most Max of its connections are open at once; the
// guest accepts no more before one of them has ended.
type Listen struct {
	At  Endpoint
	Max uint16 // 1 to MaxAccepted
}

// Encode returns the payload of a Listen frame.
func (m Listen) Encode() []byte {
	var e encoder
	e.endpoint(m.At)
	e.u16(m.Max)
	return e.b
}

// DecodeListen reads the payload of a Listen frame.
func DecodeListen(p []byte) (Listen, error) {
	d := decoder{b: p}
	m := Listen{At: d.endpoint(), Max: d.u16()}
	if m.At.Nameless() || m.Max == 0 || m.Max > MaxAccepted {
		d.bad = true
	}
	return m, d.end("listen request")
}

// Pass asks for the listening socket itself of an IP endpoint inside (TypePass),
// or for the socket of a connection to it (TypePassDial), which the guest hands
// over beside the connection (package handover) before it answers, and does not
// keep. A port of 0 stands for any that is free, to listen at.
type Pass struct {
	At     Endpoint
	Ticket uint32 // of what is handed over
}

// Encode returns the payload of a Pass frame.
func (m Pass) Encode() []byte {
	var e encoder
	e.endpoint(m.At)
	e.u32(m.Ticket)
	return e.b
}

// DecodePass reads the payload of a Pass frame.
func DecodePass(p []byte) (Pass, error) {
	d := decoder{b: p}
	m := Pass{At: d.endpoint(), Ticket: d.u32()}
	if m.At.Nameless() || m.At.Family == FamilyUnix || m.Ticket == 0 {
		d.bad = true
	}
	return m, d.end("request for a socket")
}

// Listening says that a listener stands, and where.
type Listening struct{ At Endpoint }

// Encode returns the payload of a Listening frame.
func (m Listening) Encode() []byte {
	var e encoder
	e.endpoint(m.At)
	return e.b
}

// DecodeListening reads the payload of a Listening frame.
func DecodeListening(p []byte) (Listening, error) {
	d := decoder{b: p}
	m := Listening{At: d.endpoint()}
	return m, d.end("listen answer")
}

// Accepted opens the stream of a connection that came in at a listener.
type Accepted struct {
	Listener      uint32 // stream of the listener
	Local, Remote Endpoint
}

// Encode returns the payload of an Accepted frame.
func (m Accepted) Encode() []byte {
	var e encoder
	e.u32(m.Listener)
	e.endpoint(m.Local)
	e.endpoint(m.Remote)
	return e.b
}

// DecodeAccepted reads the payload of an Accepted frame.
func DecodeAccepted(p []byte) (Accepted, error) {
	d := decoder{b: p}
	m := Accepted{Listener: d.u32(), Local: d.endpoint(), Remote: d.endpoint()}
	return m, d.end("accepted connection")
}
