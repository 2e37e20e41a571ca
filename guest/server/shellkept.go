//go:build linux

package server

import (
	"errors"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// errState means that a state that was handed over cannot be taken.
var errState = errors.New("the state that was handed over cannot be kept")

// A kept says what a shell has to do with the host beyond its frames. The
// zero kept is nothing.
type kept struct {
	side    *side
	ticket  uint32
	from    string // the program whose state was handed over, or empty
	content []byte // of that state, where it came with the request
	posix   bool   // it is to be taken up by sh also where there is bash
	part    bool   // not all of it was taken up, which no line has reported yet
}

// openKept opens the stream of a shell whose state the host keeps too.
func (c *conn) openKept(f wire.Frame) error {
	m, err := wire.DecodeKeptShell(f.Payload)
	if err != nil {
		return err
	}
	if c.side == nil {
		return c.refuse(f.Stream, wire.KindUnsupported, "the guest has no channel for descriptors")
	}
	c.runShell(f.Stream, m.Shell, kept{side: c.side, ticket: m.Ticket, from: m.From})
	return nil
}

// fetch takes the state that was handed over, if there is one, and makes
// ours one that the host can read. What the host has may be anybody's by
// now, so it is copied.
func (s *shell) fetch() *wire.Failed {
	if s.kept.content != nil {
		s.state.again()
		s.state.write(s.kept.content)
		s.kept.content = nil
		if s.state.commit(); s.state.good == nil {
			return failure(wire.KindResource, errState)
		}
		s.lost = true // as below
	}
	if s.kept.side == nil {
		return nil
	}
	if err := s.state.expose(); err != nil {
		return failure(wire.KindResource, err)
	}
	if s.kept.from == "" {
		return nil
	}
	f, err := s.kept.side.claim(s.kept.ticket)
	if err != nil {
		return failure(wire.KindInvalid, err)
	}
	defer f.Close()
	if err := s.state.load(f); err != nil {
		return failure(wire.KindResource, err)
	}
	s.lost = true // to the processes that the old shell had left running, at least
	return nil
}

// takenUp goes on with a shell whose first process was started, or refused:
// one that has taken up a part of its state tells its first line, as it would
// have between two lines. Then it hands over where the state is kept.
func (s *shell) takenUp(refused *wire.Failed) *wire.Failed {
	if refused != nil && s.kept.from != "" && s.proc != nil {
		s.kept.part, refused = true, nil
	}
	if refused != nil || s.kept.side == nil {
		return refused
	}
	if err := s.kept.side.show(s.kept.ticket, s.state); err != nil {
		return failure(wire.KindResource, err)
	}
	return nil
}

// foreign reports whether the state was written by another program than the one
// that is to take it up, which would not understand it.
func (s *shell) foreign(p *shellProc) bool {
	return s.kept.from != "" && s.kept.from != p.program
}
