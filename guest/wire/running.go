package wire

// FeatureSnapshot: the guest takes TypeSnapshot and TypeShellFrom.
const FeatureSnapshot = "snapshot"

const (
	// TypeSnapshot asks what runs, of all connections. It has no payload, and is
	// answered as a File that reads: the content is a Snapshot.
	TypeSnapshot Type = 0x1d
	// TypeShellFrom is a Shell that takes up the state of another one: ShellFrom.
	TypeShellFrom Type = 0x1e
)

// Bounds of a Snapshot, and of a ShellFrom.
const (
	MaxSnapshot       = 64 << 20 // bytes of the content
	MaxSnapshotStates = 48 << 20 // bytes of the states in it
	MaxRunning        = 4096     // commands, and shells
	MaxRunningText    = 4 << 10  // bytes of the arguments of one command, and of the line of a shell
	MaxShellFrom      = 3 << 20  // bytes of the state
	maxShellID        = 256
)

// A Snapshot says what runs.
type Snapshot struct {
	Shells   []ShellState
	Commands []Running
}

// A ShellState is one persistent shell.
type ShellState struct {
	ID        string // as the client calls it
	Program   string // "bash" or "sh"; empty while there is no process
	Dir       string // working directory of the process; empty where it is not known
	Line      string // that runs, or the beginning of it; empty for none
	Processes uint32 // that its lines have left running, or that the line has started
	Kept      bool   // State is the one after the last line that came to its end
	State     []byte // nil where there is none, or too much
}

// A Running is a command that has not ended.
type Running struct {
	PID     uint32 // 0: the program has ended, and something that it has left runs
	Detach  bool
	TTY     bool
	Started uint64 // nanoseconds since 1970 by the clock of the guest
	Dir     string
	Args    []string // or the beginning of them
}

const (
	runningDetach = 1 << iota
	runningTTY
)

// Encode returns the content.
func (m Snapshot) Encode() []byte {
	var e encoder
	e.u32(uint32(len(m.Shells)))
	for _, s := range m.Shells {
		e.str(s.ID)
		e.str(s.Program)
		e.str(s.Dir)
		e.str(s.Line)
		e.u32(s.Processes)
		kept := uint8(0)
		if s.Kept {
			kept = 1
		}
		e.u8(kept)
		e.str(string(s.State))
	}
	e.u32(uint32(len(m.Commands)))
	for _, c := range m.Commands {
		e.u32(c.PID)
		flags := uint8(0)
		if c.Detach {
			flags |= runningDetach
		}
		if c.TTY {
			flags |= runningTTY
		}
		e.u8(flags)
		e.u64(c.Started)
		e.str(c.Dir)
		e.strs(c.Args)
	}
	return e.b
}

// DecodeSnapshot reads what Encode returns.
func DecodeSnapshot(p []byte) (Snapshot, error) {
	d := decoder{b: p, bad: len(p) > MaxSnapshot}
	var m Snapshot
	for range d.count(25) {
		s := ShellState{ID: d.str(), Program: d.str(), Dir: d.str(), Line: d.str(), Processes: d.u32(), Kept: d.u8() == 1}
		if n := d.count(1); n > 0 {
			s.State = d.take(n)
		}
		if len(s.ID) > maxShellID || s.Program != "" && s.Program != "bash" && s.Program != "sh" || len(s.Dir) > maxFilePath ||
			len(s.Line) > MaxRunningText || len(s.State) > MaxSize || len(m.Shells) == MaxRunning {
			d.bad = true
		}
		if d.bad {
			break
		}
		m.Shells = append(m.Shells, s)
	}
	for range d.count(21) {
		c := Running{PID: d.u32()}
		flags := d.u8()
		c.Detach, c.TTY = flags&runningDetach != 0, flags&runningTTY != 0
		c.Started, c.Dir, c.Args = d.u64(), d.str(), d.strs()
		size := 0
		for _, a := range c.Args {
			size += len(a)
		}
		if c.PID > 1<<22 || c.Started >= 1<<63 || len(c.Dir) > maxFilePath || size > MaxRunningText || len(m.Commands) == MaxRunning {
			d.bad = true
		}
		if d.bad {
			break
		}
		m.Commands = append(m.Commands, c)
	}
	return m, d.end("snapshot")
}

// ShellFrom asks for a shell in the state of another one. Its first line says
// that it found its shell gone (Restarted).
type ShellFrom struct {
	Program string // of the state: "bash" or "sh"
	State   []byte
	Shell   Shell
}

// Encode returns the payload of a ShellFrom frame.
func (m ShellFrom) Encode() []byte {
	var e encoder
	e.str(m.Program)
	e.str(string(m.State))
	return append(e.b, m.Shell.Encode()...)
}

// DecodeShellFrom reads the payload of a ShellFrom frame. State is part of p.
func DecodeShellFrom(p []byte) (ShellFrom, error) {
	d := decoder{b: p}
	m := ShellFrom{Program: d.str(), State: d.take(d.count(1))}
	if d.bad || m.Program != "bash" && m.Program != "sh" || len(m.State) == 0 || len(m.State) > MaxShellFrom {
		return ShellFrom{}, Violation("malformed request for a shell with a state")
	}
	var err error
	m.Shell, err = DecodeShell(d.b)
	return m, err
}
