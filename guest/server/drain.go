//go:build linux

package server

import (
	"sync"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// enter notes that c is served, and refuses it when the guest is ending.
func (s *Server) enter(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	s.talking[c] = struct{}{}
	return true
}

func (s *Server) leave(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.talking, c)
}

// drainAndClose tells every client that the sandbox is stopping, and closes their
// connections. It runs before the first process is ended, so that a client
// learns that the end of its commands is not known, and not that they were
// killed, as if a client had asked for that. It takes little more than
// lastWordWithin, also when a client does not read.
func (s *Server) drainAndClose() {
	s.mu.Lock()
	s.stopping = true
	talking := make([]*conn, 0, len(s.talking))
	for c := range s.talking {
		talking = append(talking, c)
	}
	s.mu.Unlock()
	var reported sync.WaitGroup
	for _, c := range talking {
		reported.Go(func() {
			c.lastWord(wire.GoAway{Min: wire.MinVersion, Max: wire.Version, Reason: "the sandbox is being stopped", Stopping: true})
			c.f.Close() // no Exit gets out from here on
		})
	}
	reported.Wait()
}
