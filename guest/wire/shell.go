package wire

import "strings"

// MaxLine is the largest line of a shell in bytes: a million characters of
// four bytes.
const MaxLine = 4_000_000

// maxShellName bounds the name of a shell's program.
const maxShellName = 16

// lineFlags are the flags of Start that a Line can have.
const lineFlags = FlagNoStdin | FlagNoStdout | FlagNoStderr | FlagMergeErr

// Shell asks for a shell that keeps its state from line to line. It is
// answered by ShellOpened; Kill on its stream ends the shell, and Done says
// that it and everything it has left running is gone.
type Shell struct {
	Dir    string  // working directory at the start; empty is the guest's own
	Limits []Limit // of each process of the shell, at most one of a kind
	Env    []string
	Name   string // for people, at most 256 bytes; guests from before it ignore it
}

// Encode returns the payload of a Shell frame.
func (m Shell) Encode() []byte {
	var e encoder
	e.str(m.Dir)
	e.u32(uint32(len(m.Limits)))
	for _, l := range m.Limits {
		e.u8(uint8(l.Kind))
		e.u64(l.Value)
	}
	e.strs(m.Env)
	e.str(m.Name)
	return e.b
}

// DecodeShell reads the payload of a Shell frame.
func DecodeShell(p []byte) (Shell, error) {
	d := decoder{b: p}
	m := Shell{Dir: d.str()}
	n := d.count(9)
	for range n {
		m.Limits = append(m.Limits, Limit{Kind: LimitKind(d.u8()), Value: d.u64()})
	}
	m.Env = d.strs()
	if len(d.b) > 0 && !d.bad {
		m.Name = d.str()
	}
	if n > 16 || len(m.Name) > maxShellID {
		d.bad = true
	}
	return m, d.end("shell request")
}

// KeptShell asks for a shell whose state the client keeps too, so that it
// outlives the guest. The files of the state are handed over beside the
// connection (package handover) before the answer. It is a Shell otherwise.
type KeptShell struct {
	Ticket uint32 // of what is handed over, in both directions
	// From is the program ("bash" or "sh") of the state that the client has
	// handed over with the ticket, and that the shell takes up instead of its
	// environment; empty for a new shell.
	From  string
	Shell Shell
}

// Encode returns the payload of a KeptShell frame.
func (m KeptShell) Encode() []byte {
	var e encoder
	e.u32(m.Ticket)
	e.str(m.From)
	return append(e.b, m.Shell.Encode()...)
}

// DecodeKeptShell reads the payload of a KeptShell frame.
func DecodeKeptShell(p []byte) (KeptShell, error) {
	d := decoder{b: p}
	m := KeptShell{Ticket: d.u32(), From: d.str()}
	if d.bad || m.Ticket == 0 || m.From != "" && m.From != "bash" && m.From != "sh" {
		return KeptShell{}, Violation("malformed request for a kept shell")
	}
	var err error
	m.Shell, err = DecodeShell(d.b)
	return m, err
}

// ShellOpened says that the shell is ready for its first line.
type ShellOpened struct {
	Program string // "bash" or "sh"
}

// Encode returns the payload of a ShellOpened frame.
func (m ShellOpened) Encode() []byte {
	var e encoder
	e.str(m.Program)
	return e.b
}

// DecodeShellOpened reads the payload of a ShellOpened frame.
func DecodeShellOpened(p []byte) (ShellOpened, error) {
	d := decoder{b: p}
	m := ShellOpened{Program: d.str()}
	if len(m.Program) > maxShellName {
		d.bad = true
	}
	return m, d.end("shell answer")
}

// Line asks for one line of a shell. Its stream is that of a command:
// Started, Data, Exit, and the same frames from the client. Exit comes when
// the line has ended, whatever it has left running. A shell takes one line
// at a time.
type Line struct {
	Shell uint32 // stream of the shell
	Flags uint32 // FlagNoStdin, FlagNoStdout, FlagNoStderr, FlagMergeErr
	Text  string // any bytes but NUL, at most MaxLine
}

// Encode returns the payload of a Line frame.
func (m Line) Encode() []byte {
	e := encoder{b: make([]byte, 0, 16+len(m.Text))}
	e.u32(m.Shell)
	e.u32(m.Flags)
	e.str(m.Text)
	return e.b
}

// DecodeLine reads the payload of a Line frame.
func DecodeLine(p []byte) (Line, error) {
	d := decoder{b: p}
	m := Line{Shell: d.u32(), Flags: d.u32(), Text: d.str()}
	if m.Flags&^lineFlags != 0 || len(m.Text) > MaxLine || strings.IndexByte(m.Text, 0) >= 0 {
		d.bad = true
	}
	return m, d.end("line request")
}
