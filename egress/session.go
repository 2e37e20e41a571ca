package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/egress/secret"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// SessionOptions configure the egress session of one sandbox.
type SessionOptions struct {
	Sandbox string // its name, for events
	Policy  *network.Policy
	Limits  Limits

	// Secrets are put into requests to the hosts that they are bound to, whose
	// TLS is terminated for that. Nil is none. The caller owns the set and
	// closes it after the Session.
	Secrets *secret.Set
	// Authority issues the certificates for these hosts; required with
	// Secrets.
	Authority *Authority

	// CA are certificates of authorities as PEM, trusted for the hosts of
	// Secrets in addition to the Roots of the Plane.
	CA []byte

	// Ask answers questions about hosts for which the policy requires
	// approval. Its context ends when no request waits for the answer any
	// more. If Ask is nil, such hosts are refused.
	Ask func(context.Context, Question) Answer

	// HostListeners are listeners inside, each for one host. The Session owns them.
	HostListeners []HostListener
	// Direct are loopback names inside for which programs must bypass the
	// proxy; nil is all usual ones.
	Direct []string
	// Permitted returns an earlier approval that is still valid, so that no
	// question is needed; the number of questions is limited. It must return
	// quickly. If it is nil, Ask is called for each.
	Permitted func(Question) (Answer, bool)
}

// The times that are not settings.
const (
	acceptPause     = 50 * time.Millisecond
	headTime        = 10 * time.Second // for a head, a handshake, and the first bytes of a tunnel
	lingerTime      = time.Second      // for a program to read the last answer
	maxRefusedConns = 256              // concurrent refusals of connections beyond the limit
)

// errClosed ends the connections of a closed Session.
var errClosed = errors.New("the way out was closed")

// A Session is the egress session of one sandbox. It is safe for concurrent use.
type Session struct {
	plane        *Plane
	o            SessionOptions
	listener     net.Listener
	meter        *meter
	transport    *http.Transport
	roots        *x509.CertPool // nil is the system's
	callers      callers
	asker        asker
	refusedConns refusedConns
	queue        queue
	crossings    crossings

	ctx    context.Context // ends with the Session
	cancel context.CancelCauseFunc
	flow   context.Context // for connections: ends also when a limit is exceeded
	conns  sync.WaitGroup
	done   chan struct{}
}

func (p *Plane) newSession(l net.Listener, o SessionOptions) (*Session, error) {
	switch {
	case o.Policy == nil:
		return nil, failure(sandbox.CodeInternal, "there is no policy")
	case p.o.Dialer == nil:
		return nil, failure(sandbox.CodeInternal, "there is nothing that dials")
	case !o.Policy.Open():
		return nil, failure(sandbox.CodeValidation, "the settings let nothing pass, so there is no way out to open")
	}
	if o.Secrets != nil && o.Authority == nil {
		return nil, failure(sandbox.CodeInternal, "there is no authority for the hosts that secrets are bound to")
	}
	if err := o.Limits.Check(); err != nil {
		return nil, err
	}
	w := &Session{
		plane: p, o: o, listener: l, meter: newMeter(o.Limits),
		refusedConns: refusedConns{turn: make(chan struct{}, maxRefusedConns)}, done: make(chan struct{}),
		queue: queue{most: p.waitMost, wait: p.o.QueueTime},
	}
	w.ctx, w.cancel = context.WithCancelCause(context.Background())
	flow, stop := context.WithCancelCause(w.ctx)
	w.flow = flow
	go func() {
		<-w.meter.Done()
		stop(w.meter.Err())
	}()
	w.roots = roots(p.o.Roots, o.CA)
	w.transport = w.newTransport()
	w.asker = asker{ctx: w.ctx, ask: o.Ask, permitted: o.Permitted, now: p.o.Now, asked: func() { p.counts.asked.Add(1) }}
	return w, nil
}

// roots returns base, or the system's roots where it is nil, with the
// certificates in ca.
func roots(base *x509.CertPool, ca []byte) *x509.CertPool {
	if len(ca) == 0 {
		return base
	}
	if base != nil {
		base = base.Clone()
	} else if system, err := x509.SystemCertPool(); err == nil {
		base = system
	} else {
		base = x509.NewCertPool() // the machine has no roots
	}
	base.AppendCertsFromPEM(ca)
	return base
}

// headTime returns how long a program may take for a head, a handshake, and
// the first bytes of a tunnel.
func (s *Session) headTime() time.Duration { return s.plane.head }

// Done returns a channel that is closed when the Session has ended, its listener
// is closed and no connection is left.
func (s *Session) Done() <-chan struct{} { return s.done }

// Close ends the Session. It returns when no connection is left.
func (s *Session) Close() error {
	s.cancel(errClosed)
	<-s.done
	return nil
}

// serve accepts connections until the Session or its listener ends.
func (s *Session) serve() {
	closed := make(chan struct{})
	stop := context.AfterFunc(s.ctx, func() {
		defer close(closed)
		closeHostListeners(s.o.HostListeners)
		s.listener.Close()
	})
	s.conns.Go(func() {
		<-s.flow.Done()
		s.empty()
	})
	s.acceptHostListeners()
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			if s.ctx.Err() == nil && passing(err) && s.pause(acceptPause) {
				continue
			}
			break
		}
		s.take(conn, nil)
	}
	s.cancel(errClosed)
	s.meter.Close()
	s.empty()
	if stop() {
		closeHostListeners(s.o.HostListeners)
		s.listener.Close()
	} else {
		<-closed // Accept may end before the address is free
	}
	s.asker.wait()
	s.conns.Wait()
	s.transport.CloseIdleConnections()
	s.plane.forget(s)
	close(s.done)
}

// passing reports whether an accept error is temporary.
func passing(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED)
}

// pause waits, and reports false if the Session ended meanwhile.
func (s *Session) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// attend serves a connection to its end. A panic of the proxy ends that
// connection only.
func (s *Session) attend(conn net.Conn, listener *HostListener, waited time.Duration) {
	stop := context.AfterFunc(s.flow, func() { conn.Close() })
	defer func() {
		if recover() != nil {
			s.plane.counts.panics.Add(1)
		}
		stop()
		conn.Close()
	}()
	c := newClient(s.flow, s, conn)
	c.waited = waited
	if waited > 0 {
		c.of(s.callers.only()) // if there are several, the credentials tell the command
	}
	if listener != nil {
		c.caller = s.callers.only() // a connection of a host listener carries no credentials
		c.tunnel(listener.target())
		return
	}
	c.serve()
}
