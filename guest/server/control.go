//go:build linux

package server

import (
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// event implements stream.
func (m *command) event(f wire.Frame) error {
	switch f.Type {
	case wire.TypeData:
		return m.data(f)
	case wire.TypeCredit:
		return m.credit(f)
	case wire.TypeStop:
		return m.stop(f)
	}
	return m.control(f)
}

// data takes bytes for standard input.
func (m *command) data(f wire.Frame) error {
	if f.Channel() != wire.Stdin || m.inbox == nil {
		return wire.Violation("data on a channel that is not open")
	}
	if len(f.Payload) > 0 {
		if err := m.inbox.Put(f.Payload); err != nil {
			select {
			case <-m.gone: // the channel ended with the command
				return nil
			default:
				return err
			}
		}
	}
	if f.EOF() {
		m.inbox.Close(nil)
	}
	return nil
}

func (m *command) credit(f wire.Frame) error {
	ch := f.Channel()
	if ch >= 3 || m.credits[ch] == nil {
		return wire.Violation("credit for a channel that is not open")
	}
	g, err := wire.DecodeCredit(f.Payload)
	if err != nil {
		return err
	}
	return m.credits[ch].Grant(g.N)
}

// stop ends an output that the client does not want any more. Its pipe
// stays open and is drained, as with a detached command.
func (m *command) stop(f wire.Frame) error {
	ch := f.Channel()
	if ch >= 3 || m.credits[ch] == nil {
		return wire.Violation("stop of a channel that is not open")
	}
	m.credits[ch].Close(errDetached)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped[ch] = true
	if o := m.outputs[ch]; o != nil { // otherwise it is dropped from the start
		go o.dropRest()
	}
	return nil
}

// control handles the frames that act on the processes of the command.
func (m *command) control(f wire.Frame) error {
	switch f.Type {
	case wire.TypeSignal:
		s, err := wire.DecodeSignal(f.Payload)
		if err == nil {
			m.inTurn(order{s.Number, func() { m.signalGroup(unix.Signal(s.Number)) }})
		}
		return err
	case wire.TypeResize:
		s, err := wire.DecodeResize(f.Payload)
		if err == nil {
			m.inTurn(order{0, func() {
				_ = m.streams.resize(s.Rows, s.Cols) // closed already is fine
			}})
		}
		return err
	case wire.TypeUse:
		return m.use(f)
	case wire.TypeKill:
		s, err := wire.DecodeKill(f.Payload)
		if err == nil {
			go m.kill(time.Duration(s.GraceMillis) * time.Millisecond)
		}
		return err
	}
	return wire.Violation("unexpected frame type on a stream")
}

// An order is what a frame asks to be done to the program. It must not wait
// for anything.
type order struct {
	signal uint8 // 0 for a new size
	follow func()
}

// inTurn follows an order as soon as the program runs: in the order of the
// frames, and before input that comes after. So of two sizes the later one
// stays, a program that was stopped and continued runs, and who answers a
// question on a terminal may have resized it before.
//
// Until the program runs, the latest of a kind waits: signals do not add up
// for a process either, so there are never more than there are signals.
func (m *command) inTurn(o order) {
	m.mu.Lock()
	runs := m.runs
	if !runs {
		same := func(w order) bool { return w.signal == o.signal }
		m.orders = append(slices.DeleteFunc(m.orders, same), o)
	}
	m.mu.Unlock()
	if runs {
		o.follow() // by the only goroutine that reads frames
	}
}

// catchUp follows the orders that have waited for the program to run.
func (m *command) catchUp() {
	for {
		m.mu.Lock()
		orders := m.orders
		m.orders = nil
		m.runs = len(orders) == 0
		m.mu.Unlock()
		if len(orders) == 0 {
			return
		}
		for _, o := range orders {
			o.follow()
		}
	}
}
