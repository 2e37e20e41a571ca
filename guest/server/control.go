//go:build linux

package server

import (
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
			go func() {
				<-m.launched
				m.signalGroup(unix.Signal(s.Number))
			}()
		}
		return err
	case wire.TypeResize:
		s, err := wire.DecodeResize(f.Payload)
		if err == nil {
			go func() {
				<-m.launched
				_ = m.streams.resize(s.Rows, s.Cols) // closed already is fine
			}()
		}
		return err
	case wire.TypeKill:
		s, err := wire.DecodeKill(f.Payload)
		if err == nil {
			go m.kill(time.Duration(s.GraceMillis) * time.Millisecond)
		}
		return err
	}
	return wire.Violation("unexpected frame type on a stream")
}
