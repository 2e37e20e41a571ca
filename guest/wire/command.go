package wire

import "math"

// Flags of a Start request.
const (
	FlagTTY      = 1 << iota // run on a new pseudo-terminal of Rows and Cols
	FlagDetach               // outlive the connection, keep descendants
	FlagNoStdin              // read from /dev/null
	FlagNoStdout             // write standard output to /dev/null
	FlagNoStderr             // write standard error to /dev/null
	FlagMergeErr             // standard error goes where standard output goes
	FlagBare                 // no variable but those of Env, see FeatureBare
)

// knownFlags are the flags of this version.
const knownFlags = FlagTTY | FlagDetach | FlagNoStdin | FlagNoStdout | FlagNoStderr | FlagMergeErr | FlagBare

// A LimitKind names a resource limit of setrlimit(2). RLIMIT_NPROC is left
// out on purpose: it counts all processes of the user, in every container.
type LimitKind uint8

// The resource limits.
const (
	LimitCPU          LimitKind = 1 // seconds of processor time
	LimitFileSize     LimitKind = 2 // bytes
	LimitOpenFiles    LimitKind = 3
	LimitAddressSpace LimitKind = 4 // bytes
	LimitCore         LimitKind = 5 // bytes
	LimitData         LimitKind = 6 // bytes of private writable memory
)

// The bounds of all processes of a command together, which the guest counts
// itself (FeatureLimits).
const (
	LimitTreeCPU       LimitKind = 16 // seconds of processor time
	LimitTreeMemory    LimitKind = 17 // bytes
	LimitTreeProcesses LimitKind = 18
)

// The bounds of the whole sandbox, of which a guest reports that a command has
// reached them. No command asks for them.
const (
	LimitSandboxMemory    LimitKind = 19 // bytes
	LimitSandboxProcesses LimitKind = 20
	LimitDisk             LimitKind = 21 // bytes of the file system at Path
	LimitInodes           LimitKind = 22 // files of it
)

// A Limit bounds each process of a command, soft and hard limit alike, or all
// of them together.
type Limit struct {
	Kind  LimitKind
	Value uint64
}

// Start asks for a command.
type Start struct {
	Flags      uint32
	Rows, Cols uint16   // of the terminal, with FlagTTY
	Dir        string   // working directory; empty is the guest's own
	Limits     []Limit  // at most one of a kind
	Args       []string // at least the program
	Env        []string // "KEY=value", laid over the environment of the guest; with FlagBare all there is
}

// Encode returns the payload of a Start frame.
func (m Start) Encode() []byte {
	n := 64 + len(m.Dir)
	for _, l := range [][]string{m.Args, m.Env} {
		for _, s := range l {
			n += 4 + len(s)
		}
	}
	e := encoder{b: make([]byte, 0, n)}
	e.u32(m.Flags)
	e.u16(m.Rows)
	e.u16(m.Cols)
	e.str(m.Dir)
	e.u32(uint32(len(m.Limits)))
	for _, l := range m.Limits {
		e.u8(uint8(l.Kind))
		e.u64(l.Value)
	}
	e.strs(m.Args)
	e.strs(m.Env)
	return e.b
}

// DecodeStart reads the payload of a Start frame.
func DecodeStart(p []byte) (Start, error) {
	d := decoder{b: p}
	m := Start{Flags: d.u32(), Rows: d.u16(), Cols: d.u16(), Dir: d.str()}
	n := d.count(9)
	for range n {
		m.Limits = append(m.Limits, Limit{Kind: LimitKind(d.u8()), Value: d.u64()})
	}
	m.Args = d.strs()
	m.Env = d.strs()
	if n > 16 || m.Flags&^knownFlags != 0 {
		d.bad = true
	}
	return m, d.end("start request")
}

// Started says that the program runs.
type Started struct{ PID uint32 } // in the guest's namespace

// Encode returns the payload of a Started frame.
func (m Started) Encode() []byte {
	var e encoder
	e.u32(m.PID)
	return e.b
}

// DecodeStarted reads the payload of a Started frame.
func DecodeStarted(p []byte) (Started, error) {
	d := decoder{b: p}
	m := Started{PID: d.u32()}
	return m, d.end("start answer")
}

// Exit says how the program ended.
type Exit struct {
	Code   uint8  // exit status, when Signal is 0
	Signal uint8  // number of the signal that ended it, or 0
	User   uint64 // nanoseconds of processor time in user mode, waited-for children included
	System uint64 // nanoseconds of processor time in the kernel
	MaxRSS uint64 // bytes, of the largest process

	Restarted bool // of a Line: the shell ended with it, or was found gone

	Limit *LimitHit // the limit that was reached, or nil

	Left *Left // that the guest has ended with the command, or nil

	LostDir string // of a Line: the working directory that went with a Remount; empty for none
}

// Left is the processes that a command had left running when its program ended.
type Left struct {
	Count uint32
	Names []string // of the first ones, at most MaxLeft
}

// MaxLeft bounds the processes that are named.
const MaxLeft = 16

// A LimitHit says which limit of a command was reached, as it was asked for.
// The numbers are those of its kind, and fit into 63 bits.
type LimitHit struct {
	Kind    LimitKind
	Current uint64
	Bound   uint64
	Path    string // of LimitDisk and LimitInodes
}

// places reports whether k is the bound of a file system.
func (k LimitKind) places() bool { return k == LimitDisk || k == LimitInodes }

// hits reports whether k is a limit of which a guest tells that it was reached.
func (k LimitKind) hits() bool {
	switch k {
	case LimitFileSize, LimitOpenFiles, LimitTreeCPU, LimitTreeMemory, LimitTreeProcesses,
		LimitSandboxMemory, LimitSandboxProcesses, LimitDisk, LimitInodes:
		return true
	}
	return false
}

// Encode returns the payload of an Exit frame.
func (m Exit) Encode() []byte {
	e := encoder{b: make([]byte, 0, 32)}
	e.u8(m.Code)
	e.u8(m.Signal)
	e.u64(m.User)
	e.u64(m.System)
	e.u64(m.MaxRSS)
	switch {
	case m.Restarted:
		e.u8(1)
	case m.Limit != nil, m.Left != nil, m.LostDir != "":
		e.u8(0)
	}
	if m.Limit != nil {
		e.u8(uint8(m.Limit.Kind))
		e.u64(m.Limit.Current)
		e.u64(m.Limit.Bound)
		if m.Limit.Kind.places() {
			e.str(m.Limit.Path)
		}
	}
	if m.Limit != nil || m.Left != nil || m.LostDir != "" {
		if m.Limit == nil {
			e.u8(0)
		}
		var left Left // none, so that what a later version adds is not taken for it
		if m.Left != nil {
			left = *m.Left
		}
		e.u32(left.Count)
		e.strs(left.Names)
		e.str(m.LostDir)
	}
	return e.b
}

// DecodeExit reads the payload of an Exit frame.
func DecodeExit(p []byte) (Exit, error) {
	d := decoder{b: p}
	m := Exit{Code: d.u8(), Signal: d.u8(), User: d.u64(), System: d.u64(), MaxRSS: d.u64()}
	m.Restarted = len(d.b) > 0 && d.u8() == 1
	// A kind that is not known here is that of a later version.
	if len(d.b) > 0 && LimitKind(d.b[0]).hits() {
		h := LimitHit{Kind: LimitKind(d.u8()), Current: d.u64(), Bound: d.u64()}
		m.Limit = &h
		if h.Current > math.MaxInt64 || h.Bound > math.MaxInt64 {
			d.bad = true
		}
		if h.Kind.places() {
			h.Path = d.str()
		}
	} else if len(d.b) > 0 && d.b[0] == 0 {
		d.u8()
	} else {
		d.b = nil
	}
	if len(d.b) > 0 {
		m.Left = &Left{Count: d.u32(), Names: d.strs()}
		if len(m.Left.Names) > MaxLeft || uint32(len(m.Left.Names)) > m.Left.Count {
			d.bad = true
		}
		if m.Left.Count == 0 {
			m.Left = nil
		}
	}
	if len(d.b) > 0 {
		if m.LostDir = d.str(); m.LostDir != "" && !absolute(m.LostDir) || len(m.LostDir) > maxFilePath {
			d.bad = true
		}
	}
	if m.Signal > 64 {
		d.bad = true
	}
	return m, d.end("exit")
}

// Credit lets the sender of a channel send N more bytes.
type Credit struct{ N uint32 }

// Encode returns the payload of a Credit frame.
func (m Credit) Encode() []byte {
	e := encoder{b: make([]byte, 0, 4)}
	e.u32(m.N)
	return e.b
}

// DecodeCredit reads the payload of a Credit frame.
func DecodeCredit(p []byte) (Credit, error) {
	d := decoder{b: p}
	m := Credit{N: d.u32()}
	return m, d.end("credit")
}

// Signal sends a signal to the process group of the program.
type Signal struct{ Number uint8 }

// Encode returns the payload of a Signal frame.
func (m Signal) Encode() []byte { return []byte{m.Number} }

// DecodeSignal reads the payload of a Signal frame.
func DecodeSignal(p []byte) (Signal, error) {
	d := decoder{b: p}
	m := Signal{Number: d.u8()}
	if m.Number == 0 || m.Number > 64 {
		d.bad = true
	}
	return m, d.end("signal")
}

// Resize changes the size of the pseudo-terminal.
type Resize struct{ Rows, Cols uint16 }

// Encode returns the payload of a Resize frame.
func (m Resize) Encode() []byte {
	var e encoder
	e.u16(m.Rows)
	e.u16(m.Cols)
	return e.b
}

// DecodeResize reads the payload of a Resize frame.
func DecodeResize(p []byte) (Resize, error) {
	d := decoder{b: p}
	m := Resize{Rows: d.u16(), Cols: d.u16()}
	return m, d.end("resize")
}

// Kill ends the whole process tree of a command. With a grace period every
// process gets SIGTERM first, and SIGKILL what is left after it.
type Kill struct{ GraceMillis uint32 }

// Encode returns the payload of a Kill frame.
func (m Kill) Encode() []byte {
	var e encoder
	e.u32(m.GraceMillis)
	return e.b
}

// DecodeKill reads the payload of a Kill frame.
func DecodeKill(p []byte) (Kill, error) {
	d := decoder{b: p}
	m := Kill{GraceMillis: d.u32()}
	return m, d.end("kill")
}
