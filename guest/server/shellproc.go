//go:build linux

package server

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

const (
	// stateWithin bounds how long a shell may take to tell its state after
	// a line, or to take one up.
	stateWithin = 10 * time.Second
	// firstLook and lastLook bound the time between two looks whether a
	// shell that has not answered still can.
	firstLook = 50 * time.Millisecond
	lastLook  = time.Second
	// controlSize is how much of an answer or a state is read at once.
	controlSize = 8 << 10
)

var (
	// errWedged means that a shell has taken all of its script and has not
	// answered, or says more than it could have to say.
	errWedged = errors.New("the shell cannot answer any more")
	errSlow   = errors.New("the shell does not tell its state in time")
)

// A shellProc is one process of a shell, from its start to its end. What
// is not said to be otherwise belongs to the goroutine of the shell.
type shellProc struct {
	pid           int
	store         int      // pid of the descriptor store
	prog          *command // its processes; nothing is carried. Safe for concurrent use
	hold          *fdstoreClient
	script        *os.File // write end
	control       *os.File // read end
	reported      int      // read end of its standard output, for its state; not polled, so that its parts wake no goroutine up. -1 for none
	text          *os.File // the file in hold.SlotText
	shellProtocol protocolShell
	program       string
	outputs       [3]*os.File // read ends of the pipes that the next line gets, by channel
	own           own
	given         protocolScript // the last that it was given
	unsent        string         // what is at its end and was not written, as no process could read it
	telling       telling
	changed       uint32 // the last line that it was given that may have changed its state
	traps         bool   // it may have traps of which it tells nothing unless it is asked to
	buf           []byte

	exit    wire.Exit // readable once prog.gone is closed, like exitErr
	exitErr error     // how it ended is not known
}

// startShell starts a process for the shell that was asked for by m. With
// state, a file, it takes up the state in it and not the environment; with posix
// too, that is one of sh.
func startShell(c *conn, m wire.Shell, state *os.File, posix bool) (*shellProc, *wire.Failed) {
	p := &shellProc{buf: make([]byte, controlSize), reported: -1}
	limits, audit := newAudit(m.Limits) // what has to be looked at is looked at for each line
	m.Limits = limits
	p.prog = newCommand(c, 0, shellCommand(m, state != nil, posix))
	p.prog.counted = newForks(p.prog, audit, 0) != nil
	st, control, err := p.openPipes()
	defer control.handedOver()
	if err != nil {
		st.handedOver()
		p.release()
		return nil, streamFailure(err, false)
	}
	failure := p.prog.launchOn(st)
	close(p.prog.launched)
	if failure != nil {
		close(p.prog.gone)
		st.handedOver()
		p.release()
		return nil, failure
	}
	p.pid = p.prog.pid
	go p.watch()
	if failure := p.begin(control.child, state); failure != nil {
		p.end()
		return nil, failure
	}
	return p, nil
}

// shellCommand is the command by which a shim starts a shell. Limits that would
// hinder the descriptor store are for the shell alone, see argsFdstore.
func shellCommand(m wire.Shell, bare, posix bool) wire.Start {
	s := wire.Start{Flags: wire.FlagNoStdin | wire.FlagNoStdout | wire.FlagNoStderr, Dir: m.Dir, Env: m.Env}
	var own []fdstoreLimit
	for _, l := range m.Limits {
		switch l.Kind {
		case wire.LimitAddressSpace:
			own = append(own, fdstoreLimit{Resource: unix.RLIMIT_AS, Soft: l.Value, Hard: l.Value})
		case wire.LimitData:
			own = append(own, fdstoreLimit{Resource: unix.RLIMIT_DATA, Soft: l.Value, Hard: l.Value})
		case wire.LimitOpenFiles:
			own = append(own, fdstoreLimit{Resource: unix.RLIMIT_NOFILE, Soft: l.Value, Hard: l.Value})
		case wire.LimitCPU: // as for commands
			own = append(own, fdstoreLimit{Resource: unix.RLIMIT_CPU, Soft: l.Value, Hard: l.Value + 1})
		default:
			s.Limits = append(s.Limits, l)
		}
	}
	s.Args = argsFdstore(own, bare, posix)
	return s
}

// openPipes makes the pipes between the guest and the shell with its descriptor
// store. It returns the ends of the shell, and that for control (as Stdout),
// which the store has too.
func (p *shellProc) openPipes() (shell *streams, control streams, err error) {
	shell = &streams{}
	var socket int
	if p.hold, socket, err = newFdstoreClient(); err != nil {
		return shell, control, err
	}
	shell.closes = []int{socket}
	var script streams
	if err := script.openPipe(wire.Stdin); err != nil {
		return shell, control, err
	}
	p.script = script.ours[wire.Stdin]
	shell.closes = append(shell.closes, script.closes...)
	if p.text, err = memoryFile(); err != nil {
		return shell, control, err
	}
	if err := control.openPipe(wire.Stdout); err != nil {
		return shell, control, err
	}
	p.control = control.ours[wire.Stdout]
	shell.child = [3]int{socket, script.child[wire.Stdin], control.child[wire.Stdout]}
	var state [2]int
	if err = unix.Pipe2(state[:], unix.O_CLOEXEC); err != nil {
		return shell, control, err
	}
	defer unix.Close(state[1])
	p.reported = state[0]
	if err := unix.SetNonblock(p.reported, true); err != nil {
		return shell, control, err
	}
	return shell, control, p.hold.tell(state[1])
}

// memoryFile makes a file that has no name anywhere.
func memoryFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("shell", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "memory"), nil
}

// begin fills the slots and has the shell read the prelude.
func (p *shellProc) begin(ends [3]int, restore *os.File) *wire.Failed {
	pid, program, err := p.hold.greet()
	var errno unix.Errno
	if errors.As(err, &errno) {
		return shellFailure(errno)
	}
	if err == io.EOF { // it is our own program until then, and lacks nothing but room
		return failure(wire.KindResource, errors.New("the shell has ended on its way"))
	}
	known := false
	if err == nil {
		p.program, p.store = program, pid
		if p.shellProtocol, known = forProtocol(program, pid); !known {
			err = errFdstore
		}
	}
	if err == nil && p.shellProtocol.Packets() {
		err = keepPackets(p.script)
	}
	if err == nil {
		err = p.fillSlots(ends, restore)
	}
	if err == nil {
		err = p.setText(p.shellProtocol.Prelude(restore != nil))
	}
	if err != nil {
		return failure(wire.KindInternal, err)
	}
	return nil
}

// shellFailure is the failure to become a shell.
func shellFailure(errno unix.Errno) *wire.Failed {
	switch {
	case errno == unix.ENOENT:
		return &wire.Failed{Kind: wire.KindNotFound, Errno: uint32(errno), Text: "there is neither bash nor sh"}
	case errno == unix.E2BIG:
		return failure(wire.KindTooBig, errno)
	case scarce(errno):
		return failure(wire.KindResource, errno)
	}
	return failure(wire.KindNotExecutable, errno)
}

func (p *shellProc) fillSlots(ends [3]int, restore *os.File) error {
	puts := []put{
		{slotControl, ends[wire.Stdout]}, {slotText, int(p.text.Fd())},
	}
	if restore != nil {
		puts = append(puts, put{slotRestore, int(restore.Fd())})
	}
	if err := p.hold.put(puts...); err != nil {
		return err
	}
	return p.arm(wire.Stdout, wire.Stderr)
}

// arm makes new pipes for the next line.
func (p *shellProc) arm(channels ...int) error {
	var st streams
	defer st.handedOver()
	var puts []put
	for _, ch := range channels {
		if err := st.openPipe(ch); err != nil {
			return err
		}
		p.outputs[ch] = st.ours[ch]
		fd, err := duplicate(p.outputs[ch])
		if err != nil {
			return err
		}
		st.closes = append(st.closes, fd)
		puts = append(puts, put{slotOf(ch), fd})
	}
	if len(puts) == 0 {
		return nil
	}
	return p.hold.put(puts...)
}

// duplicate returns another descriptor of f.
func duplicate(f *os.File) (fd int, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	cerr := conn.Control(func(own uintptr) { fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) })
	if cerr != nil {
		return -1, cerr
	}
	return fd, err
}

func slotOf(channel int) byte { return byte(slotStdout + channel - wire.Stdout) }

// keepPackets has a pipe deliver what was written at once at once.
func keepPackets(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = conn.Control(func(fd uintptr) {
		_, set = unix.FcntlInt(fd, unix.F_SETFL, unix.O_DIRECT|unix.O_NONBLOCK|unix.O_WRONLY)
	})
	if err == nil {
		err = set
	}
	return err
}

// setText fills the file in hold.SlotText.
func (p *shellProc) setText(s string) error {
	if err := p.text.Truncate(0); err != nil {
		return err
	}
	_, err := p.text.WriteAt([]byte(s), 0)
	return err
}
