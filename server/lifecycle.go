package server

import (
	"context"
	"log"
	"net/http"
	"sync"
	"time"
)

const (
	maxHeader      = 32 << 10 // bytes
	headerWithin   = 10 * time.Second
	idleWithin     = 2 * time.Minute
	cutOffPatience = 10 * time.Second
	// lastWrite is for what is left of an answer when its handler has returned;
	// connections on which nothing is asked are closed at once, or after five
	// seconds where nothing ever was.
	lastWrite = 30 * time.Second
)

// HTTP returns what serves connections with s; each listener has one of its
// own. Over TLS HTTP/2 is not spoken: its streams share a connection, and
// deadlines of one would be those of all.
func (s *Server) HTTP() *http.Server {
	srv := &http.Server{
		Handler: s, ReadHeaderTimeout: headerWithin, IdleTimeout: idleWithin, MaxHeaderBytes: maxHeader,
		DisableGeneralOptionsHandler: true, ConnContext: connContext,
		ErrorLog: log.New(debugWriter{s}, "", 0),
	}
	p := &http.Protocols{}
	p.SetHTTP1(true)
	srv.Protocols = p
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers = append(s.servers, srv)
	return srv
}

// debugWriter takes what net/http has to say, which is about connections of
// others that go wrong.
type debugWriter struct{ s *Server }

func (w debugWriter) Write(p []byte) (int, error) {
	w.s.o.Log.Debug(string(p))
	return len(p), nil
}

// Drain answers every request that comes from now on with a refusal that says
// when to come again, as does /readyz, cuts those off that only follow what
// others do, and waits for the rest that runs, for at most grace; then it cuts them off. Listeners are open until then: who asks is
// told what is going on, and is not left to guess why nobody is there. What it
// has cut off it waits for until ctx ends, whose end is the error.
func (s *Server) Drain(ctx context.Context, grace time.Duration) error {
	s.draining.Store(true)
	s.turn(errDraining)
	waiting, done := context.WithTimeout(ctx, grace)
	defer done()
	idle := s.busy.empty()
	select {
	case <-idle:
	case <-waiting.Done():
	}
	s.cut(errDraining)
	patience, done := context.WithTimeout(ctx, cutOffPatience)
	defer done()
	select {
	case <-idle:
	case <-patience.Done():
		s.o.Log.Warn("requests are still running that were cut off")
	}
	s.hangUp(ctx)
	return ctx.Err()
}

// hangUp closes the listeners, and connections when the last answers are
// written.
func (s *Server) hangUp(ctx context.Context) {
	s.mu.Lock()
	servers := s.servers
	s.servers = nil
	s.mu.Unlock()
	closing, done := context.WithTimeout(ctx, lastWrite)
	defer done()
	errs := make(chan error, len(servers))
	for _, srv := range servers {
		go func() { errs <- srv.Shutdown(closing) }()
	}
	for range servers {
		if err := <-errs; err != nil && closing.Err() == nil {
			s.o.Log.WithError(err).Warn("a listener was not closed as it should be")
		}
	}
	for _, srv := range servers {
		_ = srv.Close() // connections that are left
	}
}

// A crowd counts who is inside.
type crowd struct {
	mu   sync.Mutex
	n    int
	gone []chan struct{} // closed when nobody is
}

func (c *crowd) enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

func (c *crowd) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n--; c.n > 0 {
		return
	}
	for _, g := range c.gone {
		close(g)
	}
	c.gone = nil
}

// empty is closed as soon as nobody is inside.
func (c *crowd) empty() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := make(chan struct{})
	if c.n == 0 {
		close(g)
	} else {
		c.gone = append(c.gone, g)
	}
	return g
}
