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
	// lastWrite is the time for the rest of an answer when its handler has
	// returned; idle connections are closed at once, or after five seconds where
	// no request ever arrived.
	lastWrite = 30 * time.Second
)

// HTTP returns the server for connections to s; each listener has its own. It
// does not serve HTTP/2 over TLS: the streams of HTTP/2 share a connection, and
// the deadlines of one stream would apply to all.
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

// debugWriter logs the messages of net/http, which are about failed connections
// of clients, at debug level.
type debugWriter struct{ s *Server }

func (w debugWriter) Write(p []byte) (int, error) {
	w.s.o.Log.Debug(string(p))
	return len(p), nil
}

// Drain makes the server shut down. From now on it refuses every request, with a
// time after which the client may retry, and /readyz fails. It cuts off requests
// that only follow what others do, waits at most grace for the other running
// requests, and then cuts them off. Listeners stay open until then, so that
// clients learn that the server is draining. Drain waits for the requests that
// it has cut off; if ctx ends first it returns the error of ctx.
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

// hangUp closes the listeners, and each connection when its last answer is
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

// An inFlight counts running requests.
type inFlight struct {
	mu   sync.Mutex
	n    int
	gone []chan struct{} // closed when none is running
}

func (c *inFlight) enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

func (c *inFlight) leave() {
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

// empty returns a channel that is closed as soon as no request is running.
func (c *inFlight) empty() <-chan struct{} {
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
