//go:build linux

package server

import (
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

const (
	// maxAnswer bounds what a shell may say after one line in bytes.
	maxAnswer = 1 << 30
	// maxPipe is the largest size of a pipe in bytes that an unprivileged
	// process can set, by default.
	maxPipe = 1 << 20
	// stateLook is how long a usual state takes to be written, and more.
	stateLook = 2 * time.Millisecond
)

// isGone reports whether no process of the shell is left.
func (p *shellProc) isGone() bool { return p.prog.isGone() }

// watch waits for the end of the shell and then ends what it left behind.
func (p *shellProc) watch() {
	m := p.prog
	r, err := m.shim.report()
	m.mu.Lock()
	program := m.pid
	m.pid = 0
	m.mu.Unlock()
	defer m.conn.srv.sweepStrays()
	m.conn.srv.leaveSession(program)
	p.hold.close()
	defer p.text.Close() // user code may have filled it
	if err == nil {
		p.exit = exitOf(r, m.spent)
		if !r.Empty {
			go m.kill(0)
			_, err = m.shim.report()
		}
	}
	if err != nil {
		p.exitErr = err
		m.sweep()
		close(m.gone)
	} else {
		m.vacate()
	}
}

// kill ends all processes of the shell; with grace, politely first. It may
// be called by anybody.
func (p *shellProc) kill(grace time.Duration) { p.prog.kill(grace) }

// end ends the shell and gives back what it needed.
func (p *shellProc) end() {
	p.kill(0)
	<-p.prog.gone
	p.release()
}

// release closes our ends.
func (p *shellProc) release() {
	if p.hold != nil {
		p.hold.close()
	}
	for _, f := range []*os.File{p.script, p.control, p.text, p.outputs[wire.Stdout], p.outputs[wire.Stderr]} {
		if f != nil {
			f.Close() // twice is harmless
		}
	}
	if p.reported >= 0 {
		unix.Close(p.reported)
		p.reported = -1
	}
}

// say writes to the script. An error means that the shell has seen nothing. One
// whose line becomes another program while the writes go on, or that ends, reads
// no more of them: that is no error, and the rest is unsent.
func (p *shellProc) say(s protocolScript) error {
	p.given, p.unsent = s, ""
	for i, w := range s.Writes {
		n, err := p.script.Write([]byte(w))
		switch {
		case err != nil && i == 0:
			return err
		case err != nil:
			p.unsent = w[n:] + strings.Join(s.Writes[i+1:], "")
			return nil
		}
	}
	return nil
}

// hear reads the answer until done says that it is enough. When the shell is
// gone, or cannot go on without its descriptor store, that is io.EOF; when it
// can say nothing more, errWedged.
//
// It looks after the shell from time to time, the first time after first
// and then less and less often; with idle always after first, and calls it,
// and an error of it ends the wait. With each look it takes what has been
// written of the state, or the shell could wait for that; while that of the line
// before has not come to its end, it looks often.
func (p *shellProc) hear(a *protocolAnswer, state *shellState, done func() bool, first time.Duration, idle func() error) error {
	look := first
	if !p.telling.over() {
		look = min(look, quick)
	}
	if err := p.control.SetReadDeadline(time.Now().Add(look)); err != nil {
		return err
	}
	for said := 0; !done(); {
		n, err := p.control.Read(p.buf)
		late := errors.Is(err, os.ErrDeadlineExceeded)
		if late {
			n, err = p.lookAgain()
		}
		if said += n; said > maxAnswer {
			return errWedged
		}
		a.Feed(p.buf[:n])
		if late && err == nil {
			err = p.take(a, state)
		}
		if late && err == nil {
			err = p.telling.inTime(state)
		}
		if late && err == nil && idle != nil {
			err = idle()
		}
		if err != nil && !done() {
			return err
		}
		if late {
			switch {
			case !p.telling.over():
				look = stateLook / 10 // the shell cannot go on before
			case idle == nil:
				look = min(2*look, lastLook)
			}
			if err := p.control.SetReadDeadline(time.Now().Add(look)); err != nil {
				return err
			}
		}
	}
	return nil
}

// lookAgain tells a shell that is busy from one that cannot answer. What it
// has said before it took the last byte of its script, or before it ended,
// is there by now.
func (p *shellProc) lookAgain() (n int, err error) {
	gone := p.isGone()
	left, err := pending(p.script)
	if err != nil {
		return 0, err
	}
	n, err = readNow(p.control, p.buf)
	switch {
	case n > 0 || err != unix.EAGAIN:
		return n, err
	case gone:
		return 0, io.EOF
	case left == 0 && p.unsent == "":
		return 0, errWedged
	}
	return 0, nil
}

// readNow reads what is there. When there is nothing that is unix.EAGAIN,
// and at the end io.EOF.
func readNow(f *os.File, b []byte) (n int, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	// Not conn.Read, which would wait for another reader to finish.
	cerr := conn.Control(func(fd uintptr) { n, err = unix.Read(int(fd), b) })
	switch {
	case cerr != nil:
		err = cerr
	case n == 0 && err == nil:
		err = io.EOF
	}
	return max(n, 0), err
}

// settle makes the shell ready for the next line, and keeps its state, or
// leaves that for later. It overlaps with the shell's own work.
func (p *shellProc) settle(l *shellLine, a *protocolAnswer, state *shellState) error {
	keep := func() error { return p.keepState(a, state) }
	switch {
	case p.given.Effect == protocolPrints: // and has the same outputs, and no process
		state.stays(l.cmd.id)
		return l.quieten(p)
	case p.given.Effect == protocolLeaves:
		keep = func() error { state.stays(l.cmd.id); return nil }
	case p.given.Silent && p.traps: // those are looked at before the next line
		keep = func() error { return p.keepNow(a, state) }
	case p.given.Silent:
		keep = func() error { p.keepLater(a, state); return nil }
	}
	if l.from == protocolOpened {
		p.own.ended(l.from, p.prog.conn.srv.lastProcess(), false)
		return p.renew(l.used(), keep)
	}
	// The shell has them, or takes them, until it has said that it has not. One
	// that has lost them does not answer.
	if err := keep(); err != nil {
		return err
	}
	if !p.own.ended(l.from, p.prog.conn.srv.lastProcess(), l.from == protocolOwn || a.Own()) {
		return p.renew([]int{wire.Stdout, wire.Stderr}, func() error { return nil })
	}
	return l.quieten(p)
}

// quieten makes the outputs of a line ready for the next.
func (l *shellLine) quieten(p *shellProc) error {
	if l.bearer == nil {
		return nil
	}
	for _, ch := range l.used() {
		if err := p.outputs[ch].SetReadDeadline(time.Time{}); err != nil { // of a pump that has ended
			return err
		}
	}
	return nil
}

// renew keeps those pipes that no process is left to write to. In place of the
// others the shell gets new ones, which are in their slots when meanwhile has
// returned, and the old ones are let go of.
func (p *shellProc) renew(channels []int, meanwhile func() error) error {
	var old []*os.File
	var replace []int
	for _, ch := range channels {
		f := p.outputs[ch]
		if p.deserted(f) {
			continue
		}
		old, replace = append(old, f), append(replace, ch)
		p.outputs[ch] = nil
	}
	defer func() {
		for _, f := range old {
			f.Close()
		}
	}()
	if err := p.arm(replace...); err != nil {
		return err
	}
	if err := meanwhile(); err != nil {
		return err
	}
	if err := p.hold.settle(); err != nil {
		return err
	}
	for _, f := range old {
		if err := p.letGo(f); err != nil {
			return err
		}
	}
	return nil
}

// deserted reports whether no process can write to the pipe any more, and makes
// it ready to be read again.
func (p *shellProc) deserted(f *os.File) bool {
	_, err := readNow(f, p.buf)
	return err == io.EOF && f.SetReadDeadline(time.Time{}) == nil
}

// letGo has the descriptor store read the rest of an old output, if there is
// still a process that could write there, so that none gets SIGPIPE or waits
// because a line has ended.
func (p *shellProc) letGo(f *os.File) error {
	_, err := readNow(f, p.buf)
	if err != nil && err != unix.EAGAIN {
		return nil // no writer is left
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var sendErr error
	err = conn.Control(func(fd uintptr) { sendErr = p.hold.drain(int(fd)) })
	if err == nil {
		err = sendErr
	}
	return err
}
