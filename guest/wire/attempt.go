package wire

// MaxAttempts bounds how many different attempts of one command, or line, are
// reported.
const MaxAttempts = 64

// maxProgram is the longest name that a process has, in bytes.
const maxProgram = 16

// An Attempt is a hint on the stream of a command or of a line: one of its
// processes is about to change what the sandbox is not going to let it change.
// It is evidence and no decision. Each path is reported once.
type Attempt struct {
	PID     uint32 // of the thread, in the guest's namespace
	Path    string // absolute, without links as far as it exists
	Program string // as the process calls itself: any bytes
}

// Encode returns the payload of an Attempt frame.
func (m Attempt) Encode() []byte {
	var e encoder
	e.u32(m.PID)
	e.str(m.Path)
	e.str(m.Program)
	return e.b
}

// DecodeAttempt reads the payload of an Attempt frame.
func DecodeAttempt(p []byte) (Attempt, error) {
	d := decoder{b: p}
	m := Attempt{PID: d.u32(), Path: d.str(), Program: d.str()}
	if !absolute(m.Path) || len(m.Program) > maxProgram {
		d.bad = true
	}
	return m, d.end("attempt")
}
