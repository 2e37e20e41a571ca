// Front: this part of the package is an HTTP server on loopback whose end is the end of
// everything: whoever closes it waits until no connection, no request and no
// WebSocket of it is left. Heads are bounded in size and time, connections in
// number, and nothing but HTTP/1 is spoken.

package browser

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// Options say how to serve. All limits are positive.
type ServerOptions struct {
	Listen        func() (net.Listener, error) // nil: a free port of 127.0.0.1
	Handler       http.Handler
	HeaderBytes   int           // of one head
	HeaderTimeout time.Duration // until a head is there
	Idle          time.Duration // between two requests on one connection
	Conns         int           // at a time; more are closed at once
}

// A Server serves until it is closed.
type httpServer struct {
	addr     netip.AddrPort
	http     *http.Server
	listener *listener
	cancel   context.CancelFunc
	requests sync.WaitGroup // what handles requests, and the loop that accepts

	mu     sync.Mutex
	closed bool
}

// Open begins to listen. The context of each request ends with the server.
func OpenServer(o ServerOptions) (*httpServer, error) {
	listen := o.Listen
	if listen == nil {
		listen = func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
	}
	l, err := listen()
	if err != nil {
		return nil, sandbox.Errorf(sandbox.CodeUnavailable, "serve browser", "a loopback port cannot be listened at: %w", err)
	}
	tcp, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		_ = l.Close()
		return nil, sandbox.Errorf(sandbox.CodeInternal, "serve browser", "the listener is not one of TCP")
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &httpServer{addr: tcp.AddrPort(), cancel: cancel, listener: &listener{Listener: l, max: o.Conns, open: map[*conn]bool{}}}
	var only http.Protocols
	only.SetHTTP1(true)
	s.http = &http.Server{
		Handler:                      s.counted(o.Handler),
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            o.HeaderTimeout,
		IdleTimeout:                  o.Idle,
		MaxHeaderBytes:               o.HeaderBytes,
		ErrorLog:                     log.New(io.Discard, "", 0), // it would repeat what peers say
		BaseContext:                  func(net.Listener) context.Context { return ctx },
		Protocols:                    &only,
	}
	s.requests.Go(func() { _ = s.http.Serve(s.listener) })
	return s, nil
}

// Addr is where the server listens.
func (s *httpServer) Addr() netip.AddrPort { return s.addr }

// Close breaks every connection and waits for what was under way. It may be
// called more than once.
func (s *httpServer) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	_ = s.http.Close()
	s.listener.closeAll()
	s.requests.Wait()
}

// counted lets Close wait for handlers, those of hijacked connections too.
func (s *httpServer) counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			panic(http.ErrAbortHandler)
		}
		s.requests.Add(1)
		s.mu.Unlock()
		defer s.requests.Done()
		h.ServeHTTP(w, r)
	})
}

// Head returns what package door judges.
func headHttp(r *http.Request) guardHead {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr) // what is none is in no range
	return guardHead{
		Method: r.Method, Target: r.RequestURI, Host: r.Host, Peer: peer.Addr(), Header: r.Header,
		Body: r.ContentLength != 0 || len(r.TransferEncoding) > 0,
	}
}

// Refuse answers with a refusal and ends the connection, so that nothing that
// follows on it is taken for another request. The answer is on its way when it
// returns: the server may be closed then.
func refuseHttp(w http.ResponseWriter, r *guardRefusal) {
	plainHttp(w.Header())
	w.Header().Set("Connection", "close")
	if r.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if r.Allow != "" {
		w.Header().Set("Allow", r.Allow)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(r.Reason)+1)) // so that it is whole when it is flushed
	w.WriteHeader(r.Status)
	_, _ = io.WriteString(w, r.Reason+"\n")
	_ = http.NewResponseController(w).Flush() // whoever has gone needs no answer
}

// Plain sets the headers of an answer that is text, for nobody's cache.
func plainHttp(h http.Header) {
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
}
