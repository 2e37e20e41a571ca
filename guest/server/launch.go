//go:build linux

package server

import (
	"errors"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// launchWithin bounds the way from the request to the running program. It
// is long because a program may lie on a slow disk.
const launchWithin = time.Minute

// unhurried is the size in bytes of a request that the socket of a shim
// may not take at once.
const unhurried = 64 << 10

// prepare makes the request for the shim and opens the streams. It does
// not wait for anything.
func (m *command) prepare() *wire.Failed {
	srv := m.conn.srv
	body, refused := srv.nursery.maker.Request(m.start)
	if refused != nil {
		return stepFailure(*refused)
	}
	st, err := openStreams(m.start, srv.nullFD)
	if err != nil {
		return streamFailure(err, m.start.Flags&wire.FlagTTY != 0)
	}
	m.body, m.streams = body, st
	return nil
}

// launchOn has a shim start the program with streams that are there
// already.
func (m *command) launchOn(st *streams) *wire.Failed {
	body, refused := m.conn.srv.nursery.maker.Request(m.start)
	if refused != nil {
		return stepFailure(*refused)
	}
	m.body, m.streams = body, st
	defer func() { m.body = nil }()
	return m.launch()
}

// hurry gives the request to a shim if that takes no waiting: one is ready
// and its socket holds the whole of it. It saves a short command the way
// through another goroutine.
func (m *command) hurry() {
	if len(m.body) > unhurried {
		return
	}
	proc := m.stages().ready()
	if proc == nil {
		return
	}
	m.own(proc)
	if proc.request(m.body, m.streams.child) != nil {
		proc.close() // it has died, and the next one is tried by launch
		return
	}
	m.asked = proc
}

// stages is the pool of the shims that the command may have.
func (m *command) stages() *pool { return m.conn.srv.poolFor(m.counted) }

// own has what the processes of a shim do count as the command's.
func (m *command) own(proc *shimProc) {
	proc.outputDigest.Store(m.outputDigest)
	m.forks.below(proc.pid)
	proc.forks.Store(m.forks)
}

// giveBack gives back a shim without processes.
func (m *command) giveBack(proc *shimProc) {
	proc.outputDigest.Store(nil)
	proc.forks.Store(nil)
	m.conn.srv.poolFor(proc.counts).put(proc)
}

// launch has a shim start the program.
func (m *command) launch() *wire.Failed {
	srv, proc := m.conn.srv, m.asked
	if proc == nil {
		var err error
		if proc, err = m.takeShim(); err != nil {
			return failure(wire.KindResource, err)
		}
	}
	m.streams.handedOver()
	r, err := proc.reportWithin(launchWithin)
	switch {
	case err != nil:
		// The program may run by now, and nothing else would ever end it.
		m.shim = proc
		m.sweep()
		return failure(wire.KindInternal, errors.New("the stage of the command does not answer"))
	case r.Kind == shimFailed:
		m.giveBack(proc)
		return stepFailure(r)
	}
	m.mu.Lock()
	m.shim, m.pid, m.spent = proc, int(r.PID), spent{r.User, r.System}
	m.mu.Unlock()
	srv.joinSession(int(r.PID))
	return nil
}

// takeShim takes a shim and sends it the request. A shim that died while
// it was idle has not taken the request, and the next one is tried.
func (m *command) takeShim() (*shimProc, error) {
	for tries := 0; ; tries++ {
		proc, err := m.stages().take()
		if err != nil {
			return nil, err
		}
		m.own(proc)
		err = proc.request(m.body, m.streams.child)
		if err == nil {
			return proc, nil
		}
		proc.close()
		m.conn.srv.nursery.kill(proc.pid) // it may be stopped, and then would not notice
		if !errors.Is(err, errUnsent) || tries == maxIdle {
			return nil, err
		}
	}
}
