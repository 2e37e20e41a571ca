// This file holds an HTTP server on loopback that can be closed completely:
// Close waits until no connection, no request and no WebSocket of it is left.
// Heads are bounded in size and time, connections in number, and only HTTP/1
// is served.

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

// ServerOptions say how to serve. All limits are positive.
type ServerOptions struct {
	Listen        func() (net.Listener, error) // nil: a free port of 127.0.0.1
	Handler       http.Handler
	HeaderBytes   int           // size limit of one head
	HeaderTimeout time.Duration // until a head is complete
	Idle          time.Duration // between two requests on one connection
	Conns         int           // open at a time; further ones are closed at once
}

// An httpServer serves until it is closed.
type httpServer struct {
	addr     netip.AddrPort
	http     *http.Server
	listener *listener
	cancel   context.CancelFunc
	requests sync.WaitGroup // handlers of requests and the accept loop

	mu     sync.Mutex
	closed bool
}

// OpenServer starts a server. The context of each request ends when the server
// is closed.
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
		ErrorLog:                     log.New(io.Discard, "", 0), // it would repeat text sent by peers
		BaseContext:                  func(net.Listener) context.Context { return ctx },
		Protocols:                    &only,
	}
	s.requests.Go(func() { _ = s.http.Serve(s.listener) })
	return s, nil
}

// Addr returns the address that the server listens on.
func (s *httpServer) Addr() netip.AddrPort { return s.addr }

// Close breaks every connection and waits for the handlers under way. It may
// be called more than once.
func (s *httpServer) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	_ = s.http.Close()
	s.listener.closeAll()
	s.requests.Wait()
}

// counted wraps h so that Close waits for its handlers, those of hijacked
// connections included.
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

// headHttp returns the head of r for the loopback guard.
func headHttp(r *http.Request) guardHead {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr) // an invalid address is in no range
	return guardHead{
		Method: r.Method, Target: r.RequestURI, Host: r.Host, Peer: peer.Addr(), Header: r.Header,
		Body: r.ContentLength != 0 || len(r.TransferEncoding) > 0,
	}
}

// refuseHttp sends a refusal and closes the connection, so that data after the
// request is not taken for another request. The response is flushed before it
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
	w.Header().Set("Content-Length", strconv.Itoa(len(r.Reason)+1)) // so that the flushed response is complete
	w.WriteHeader(r.Status)
	_, _ = io.WriteString(w, r.Reason+"\n")
	_ = http.NewResponseController(w).Flush() // a client that has disconnected needs no response
}

// plainHttp sets the headers of a text response that must not be cached.
func plainHttp(h http.Header) {
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
}
