package wire

import "strings"

// MaxConfig is the largest configuration in bytes.
const MaxConfig = 1<<20 + maxChecks

const (
	// maxAbsolute is the longest path that a kernel takes, in bytes.
	maxAbsolute = 4095
	// maxFilter is the longest program that a kernel takes as a filter of
	// system calls: 4096 instructions of 8 bytes.
	maxFilter = 4096 * 8
	// configVersion begins a configuration. A guest that does not know one must
	// not start: it would leave out a part of the isolation.
	configVersion = 3
	// maxRlimits is above what any kernel knows of limits.
	maxRlimits = 64
)

// An Rlimit is one of setrlimit(2), by the kernel's number.
type Rlimit struct {
	Resource   uint32
	Soft, Hard uint64
}

// A Config is what a sandbox that is made of the host's own folders wants of
// its guest beside the protocol; a container has none. The guest reads it from
// a descriptor before it serves anybody.
type Config struct {
	// Landlock has commands be held by Landlock to Readable and Writable. A
	// guest on a kernel that cannot do so does not start.
	Landlock bool
	// Readable and Writable are absolute paths inside: what commands may read
	// and execute, and what they may change too, with everything below. One
	// that does not exist is passed over: nothing is allowed there.
	Readable []string
	Writable []string
	// Filter is what every command gets as its filter of system calls: an
	// array of struct sock_filter as it lies in memory. Empty is none.
	Filter []byte
	// Observe says that Filter hands calls to the guest, which lets each of
	// them go on and reports those that the sandbox is going to refuse.
	Observe bool
	// Shared says that the sandbox has the namespaces of the host, so that Landlock
	// and Filter are all that confines it. Nothing beside Readable, Writable and
	// a few devices can be opened, the guest included, and the guest makes for
	// commands the calls that Filter hands to it. It requires Landlock and Observe.
	Shared bool
	// Sockets are the Unix sockets of the host that commands may connect to,
	// with Shared.
	Sockets []string
	// Processes bounds the processes and threads of the sandbox, the guest's
	// own counted. 0 is no bound.
	Processes uint32
	// Limits are set by the guest on itself before anything else runs, so that
	// all in the sandbox have them. A hard limit that is there already and lower
	// stays.
	Limits []Rlimit
	// Checks are what has to hold inside. The guest tries them at its start,
	// held as commands are; a Proof request tells what it has found.
	Checks []Check
}

// Bits of a configuration.
const (
	configLandlock = 1 << iota
	configObserve
	configShared
	configBits = configLandlock | configObserve | configShared
)

// Encode returns the configuration as DecodeConfig reads it.
func (m Config) Encode() []byte {
	e := encoder{b: make([]byte, 0, 256+len(m.Filter))}
	e.u8(configVersion)
	var bits uint8
	if m.Landlock {
		bits |= configLandlock
	}
	if m.Observe {
		bits |= configObserve
	}
	if m.Shared {
		bits |= configShared
	}
	e.u8(bits)
	e.u32(m.Processes)
	e.strs(m.Readable)
	e.strs(m.Writable)
	e.strs(m.Sockets)
	e.str(string(m.Filter))
	e.u32(uint32(len(m.Limits)))
	for _, l := range m.Limits {
		e.u32(l.Resource)
		e.u64(l.Soft)
		e.u64(l.Hard)
	}
	e.checks(m.Checks)
	return e.b
}

// DecodeConfig reads a configuration. Unlike a message it must be known to
// its last byte.
func DecodeConfig(p []byte) (Config, error) {
	d := decoder{b: p}
	version, bits := d.u8(), d.u8()
	m := Config{
		Landlock: bits&configLandlock != 0, Observe: bits&configObserve != 0, Shared: bits&configShared != 0,
		Processes: d.u32(), Readable: d.strs(), Writable: d.strs(), Sockets: d.strs(),
	}
	if filter := d.str(); filter != "" {
		m.Filter = []byte(filter)
	}
	for range d.count(20) {
		m.Limits = append(m.Limits, Rlimit{Resource: d.u32(), Soft: d.u64(), Hard: d.u64()})
	}
	m.Checks = d.checks()
	switch {
	case version != configVersion, bits&^configBits != 0, len(d.b) > 0, len(p) > MaxConfig,
		len(m.Filter) > maxFilter, len(m.Filter)%8 != 0, m.Observe && m.Filter == nil, m.Shared && !(m.Landlock && m.Observe), len(m.Limits) > maxRlimits:
		d.bad = true
	}
	for _, l := range m.Limits {
		d.bad = d.bad || l.Soft > l.Hard || l.Resource >= maxRlimits
	}
	for _, list := range [3][]string{m.Readable, m.Writable, m.Sockets} {
		for _, path := range list {
			d.bad = d.bad || !absolute(path)
		}
	}
	return m, d.end("configuration")
}

// absolute reports whether a path can be one that a kernel takes from the root.
func absolute(path string) bool {
	return strings.HasPrefix(path, "/") && len(path) <= maxAbsolute && strings.IndexByte(path, 0) < 0
}
