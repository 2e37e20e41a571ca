//go:build linux

package server

import (
	"errors"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

const (
	// quick is how long a line may take so that what it has written is sent
	// with its end, and no goroutine waits for it meanwhile. Goroutines that do
	// cost a line as much time as a builtin needs.
	quick = time.Millisecond
	// quickOutput bounds in bytes what is sent like that. It is less than a
	// window.
	quickOutput = 16 << 10
)

// errNotQuick means that a line takes longer than that.
var errNotQuick = errors.New("the line takes its time")

// hear waits for the end of the line, and begins to carry its bytes when
// that does not come quickly.
func (l *shellLine) hear(p *shellProc, a *protocolAnswer) error {
	ended := func() bool { _, ok := a.Ended(); return ok }
	if l.cmd.inbox == nil && !l.carried() {
		if err := p.hear(a, l.shell.state, ended, quick, func() error { return errNotQuick }); err != errNotQuick {
			return err
		}
	}
	l.carry(p)
	return p.hear(a, l.shell.state, ended, firstLook, nil)
}

// deliver makes ready what the line has written, and is sent with its end,
// if nothing is carried and there is little of it. Otherwise it does nothing.
func (l *shellLine) deliver(p *shellProc) bool {
	if l.carried() {
		return false
	}
	var sizes [3]int
	total := 0
	for _, ch := range l.used() {
		n, err := pending(p.outputs[ch])
		if total += n; err != nil || total > quickOutput {
			return false
		}
		sizes[ch] = n
	}
	// A failed write is the connection's end, which its reader sees too.
	_ = l.cmd.conn.w.Hold(wire.Frame{Type: wire.TypeStarted, Stream: l.cmd.id, Payload: l.started(p)})
	for ch, n := range sizes {
		l.send(p, ch, n)
	}
	close(l.cmd.launched)
	return true
}

// send sends the next n bytes of an output, of which nothing was sent yet,
// together with the next frame that is not held back.
func (l *shellLine) send(p *shellProc, ch, n int) {
	for n > 0 {
		got, err := readNow(p.outputs[ch], p.buf[:min(n, len(p.buf))])
		if err != nil {
			return // another process that shares the pipe has read it
		}
		n -= got
		if _, err := l.cmd.credits[ch].Take(got); err != nil {
			continue // the client does not want it
		}
		_ = l.cmd.conn.w.Hold(wire.Frame{Type: wire.TypeData, Flags: uint8(ch), Stream: l.cmd.id, Payload: p.buf[:got]}) // as above
	}
}

// carry tells the client that the line runs, and starts to move bytes. What
// moves is let be.
func (l *shellLine) carry(p *shellProc) {
	if l.bearer == p {
		return
	}
	l.bearer = p
	if !l.carried() {
		l.cmd.answer(wire.TypeStarted, l.started(p))
	}
	for _, ch := range l.used() {
		l.cmd.streams.ours[ch] = p.outputs[ch]
	}
	l.cmd.carryOutputs()
	if !l.carried() { // otherwise the input is on its way already
		l.cmd.carryInput()
		close(l.cmd.launched)
	}
}

func (l *shellLine) started(p *shellProc) []byte { return wire.Started{PID: uint32(p.pid)}.Encode() }

// used returns the channels of output that the line uses.
func (l *shellLine) used() (channels []int) {
	for ch, credits := range l.cmd.credits {
		if credits != nil {
			channels = append(channels, ch)
		}
	}
	return channels
}

// carried reports whether bytes are being moved.
func (l *shellLine) carried() bool {
	select {
	case <-l.cmd.launched:
		return true
	default:
		return false
	}
}

// settle sends what the line has written, and leaves the pipes to what it
// has left running.
func (l *shellLine) settle() {
	for _, o := range l.cmd.outputs {
		if o != nil {
			o.settle()
		}
	}
	l.await()
	l.endInput()
}

// finish sends what is left of a line whose processes are gone.
func (l *shellLine) finish() {
	for _, o := range l.cmd.outputs {
		if o != nil {
			o.finish()
		}
	}
	l.await()
}

func (l *shellLine) await() {
	for _, o := range l.cmd.outputs {
		if o != nil {
			<-o.ended
		}
	}
}

func (l *shellLine) endInput() {
	if l.cmd.input != nil {
		l.cmd.input.finish()
	}
}
