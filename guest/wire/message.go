package wire

import (
	"bytes"
	"strconv"
)

// magic starts both Hello payloads, so that a foreign program on the socket is
// distinguished from a peer of another version.
const magic = "BKSG"

// Limits of single fields in bytes and elements.
const (
	maxTag      = 256
	maxFeatures = 64
	maxText     = 4 << 10
)

// Features that a guest can have. A missing one means that the ability is
// not there; nothing is implied.
const (
	FeatureExec   = "exec"   // Start without a terminal
	FeatureTTY    = "tty"    // Start with FlagTTY
	FeatureReady  = "ready"  // SetReady
	FeatureDetach = "detach" // Start with FlagDetach
	FeatureShell  = "shell"  // Shell and Line

	FeatureKeptShell = "shell.kept" // KeptShell: there is a channel for descriptors
	// FeatureObserve: Attempt hints.
	FeatureObserve = "observe"

	// FeatureLimits: the bounds of all processes of a command together, and
	// which limit of a command was reached.
	FeatureLimits = "limits"

	FeatureUse  = "use"  // Use: what a running command has used so far
	FeatureBare = "bare" // Start with FlagBare

	// FeatureFiles: file requests.
	FeatureFiles = "files"
	// FeatureFilesNoLinks: the flags FileNoLinks and FileClear.
	FeatureFilesNoLinks = "files.nolinks"
	// FeatureFilesWalk: the kernel has no openat2, so that the guest follows
	// paths name by name. It says nothing about what is refused.
	FeatureFilesWalk = "files.walk"

	// FeatureFilesWatch: FileWatch. The kernel has inotify.
	FeatureFilesWatch = "files.watch"

	// FeatureIsolateProc: one command cannot open the descriptors, memory
	// or environment of another through /proc, nor trace it.
	FeatureIsolateProc = "isolate.proc"
	// FeatureIsolateSignal: one command cannot signal another, nor the
	// guest's own processes, nor reach another's abstract sockets.
	FeatureIsolateSignal = "isolate.signal"
)

// ClientHello opens a connection.
type ClientHello struct {
	Min, Max uint16 // versions the client speaks
}

// Encode returns the payload of a Hello frame.
func (m ClientHello) Encode() []byte {
	e := encoder{b: []byte(magic)}
	e.u16(m.Min)
	e.u16(m.Max)
	return e.b
}

// DecodeClientHello reads the payload of a client's Hello frame.
func DecodeClientHello(p []byte) (ClientHello, error) {
	d := decoder{b: p}
	if !bytes.Equal(d.take(len(magic)), []byte(magic)) {
		return ClientHello{}, Violation("not a client of this protocol")
	}
	m := ClientHello{Min: d.u16(), Max: d.u16()}
	return m, d.end("client hello")
}

// Negotiate returns the highest version that both sides speak.
func (m ClientHello) Negotiate() (version uint16, ok bool) {
	v := min(m.Max, Version)
	return v, m.Min <= m.Max && v >= m.Min && v >= MinVersion
}

// Hello is the guest's answer to ClientHello.
type Hello struct {
	Version  uint16   // chosen for the connection
	BootID   string   // 32 hex digits, random at each start of the guest
	Ready    string   // tag of the last SetReady since that start, or empty
	PID      uint32   // of the guest, in its own namespace; 1 in a container
	Features []string // see the Feature constants
	Degraded []string // sentences about protections that are missing here
}

// Has reports whether the guest has the feature f.
func (m Hello) Has(f string) bool {
	for _, g := range m.Features {
		if g == f {
			return true
		}
	}
	return false
}

// Encode returns the payload of a Hello frame.
func (m Hello) Encode() []byte {
	e := encoder{b: []byte(magic)}
	e.u16(m.Version)
	e.str(m.BootID)
	e.str(m.Ready)
	e.u32(m.PID)
	e.strs(m.Features)
	e.strs(m.Degraded)
	return e.b
}

// DecodeHello reads the payload of a guest's Hello frame.
func DecodeHello(p []byte) (Hello, error) {
	d := decoder{b: p}
	if !bytes.Equal(d.take(len(magic)), []byte(magic)) {
		return Hello{}, Violation("not a guest of this protocol")
	}
	m := Hello{Version: d.u16(), BootID: d.str(), Ready: d.str(), PID: d.u32(), Features: d.strs(), Degraded: d.strs()}
	if len(m.BootID) > maxTag || len(m.Ready) > maxTag || len(m.Features) > maxFeatures || len(m.Degraded) > maxFeatures {
		d.bad = true
	}
	return m, d.end("guest hello")
}

// GoAway is the guest's last word on a connection.
type GoAway struct {
	Min, Max uint16 // versions the guest speaks
	Reason   string
	// Stopping says that the client did nothing wrong: the sandbox is being
	// stopped. How the commands of the connection end is not reported any more,
	// because the end of the sandbox ends them.
	Stopping bool
}

// Encode returns the payload of a GoAway frame.
func (m GoAway) Encode() []byte {
	var e encoder
	e.u16(m.Min)
	e.u16(m.Max)
	e.str(m.Reason)
	if m.Stopping {
		e.u8(1)
	}
	return e.b
}

// DecodeGoAway reads the payload of a GoAway frame.
func DecodeGoAway(p []byte) (GoAway, error) {
	d := decoder{b: p}
	m := GoAway{Min: d.u16(), Max: d.u16(), Reason: cut(d.str())}
	m.Stopping = len(d.b) > 0 && d.u8() == 1
	return m, d.end("go-away")
}

// SetReady stores a tag in the guest's memory; every later Hello until the
// guest ends carries it.
type SetReady struct{ Tag string }

// Encode returns the payload of a SetReady frame.
func (m SetReady) Encode() []byte {
	var e encoder
	e.str(m.Tag)
	return e.b
}

// DecodeSetReady reads the payload of a SetReady frame.
func DecodeSetReady(p []byte) (SetReady, error) {
	d := decoder{b: p}
	m := SetReady{Tag: d.str()}
	if len(m.Tag) > maxTag {
		d.bad = true
	}
	return m, d.end("ready tag")
}

// A Kind says why a request failed.
type Kind uint8

// The kinds of failure.
const (
	KindInternal      Kind = 0
	KindNotFound      Kind = 1 // no such program
	KindNotExecutable Kind = 2 // the program is there and cannot be executed
	KindBadDir        Kind = 3 // the working directory cannot be entered
	KindTooBig        Kind = 4 // arguments and environment exceed the kernel's limit
	KindResource      Kind = 5 // no process, memory or descriptor to be had
	KindInvalid       Kind = 6 // the request makes no sense
	KindUnsupported   Kind = 7 // the guest cannot do that
	KindLimit         Kind = 8 // a resource limit could not be set

	KindEscape    Kind = 32 // the path leads out of its mount through a link
	KindIrregular Kind = 33 // the path is a pipe, a socket or a device
	KindNoRoot    Kind = 34 // the mount cannot be entered
	KindFile      Kind = 35 // a file operation failed with Errno
	KindCalledOff Kind = 36 // a file operation, or a command that had to wait for its turn, was ended by Kill
	KindLink      Kind = 37 // a link is on the way, and FileNoLinks was asked for
)

// Failed answers a request that could not be done. It ends the stream.
type Failed struct {
	Kind  Kind
	Errno uint32 // Linux errno, or 0
	Text  string // for people
}

// Encode returns the payload of a Failed frame.
func (m Failed) Encode() []byte {
	var e encoder
	e.u8(uint8(m.Kind))
	e.u32(m.Errno)
	e.str(cut(m.Text))
	return e.b
}

// DecodeFailed reads the payload of a Failed frame.
func DecodeFailed(p []byte) (Failed, error) {
	d := decoder{b: p}
	m := Failed{Kind: Kind(d.u8()), Errno: d.u32(), Text: cut(d.str())}
	return m, d.end("failure")
}

// cut bounds text that is meant for people.
func cut(s string) string { return s[:min(len(s), maxText)] }

// Quote makes text that came from the other side safe to print.
func Quote(s string) string {
	q := strconv.QuoteToASCII(s)
	if q == `"`+s+`"` {
		return s
	}
	return q
}
