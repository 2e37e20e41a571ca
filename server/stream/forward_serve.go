package stream

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sync/semaphore"

	"github.com/bulkhead-dev/sandbox/server/api"
)

// forwardMost is how many connections of one listener may be open at a time
// where [ForwardOptions] do not set it: more than the proxy of a sandbox accepts
// by its default settings, so that the proxy refuses the surplus.
const forwardMost = 320

// restFor is the wait before another accept, when the system had no room for a
// connection.
const restFor = 50 * time.Millisecond

// ForwardOptions bound what [ServeForward] carries.
type ForwardOptions struct {
	Stream Options

	// Most is how many connections may be open at a time; zero is the default.
	// Further ones are not accepted until one has ended: they wait inside.
	Most int

	// Linger is how long a program may take to read what the client wrote
	// before it closed; zero is 10 seconds.
	Linger time.Duration

	// Take waits for a place for one more connection, which leave releases. Its
	// error closes the connection. Nil reserves no place.
	Take func(ctx context.Context) (leave func(), err error)
}

// A server is the daemon's side.
type server struct {
	*session
	o    ForwardOptions
	l    net.Listener
	ctx  context.Context // ends with the context of ServeForward, and with the session
	room *semaphore.Weighted

	asked   bool // to close; the reader's
	closing sync.Once
	shut    chan struct{}  // closed when the listener is being closed
	carries sync.WaitGroup // connections, and the goroutine that accepts them
}

// ServeForward announces to the client at ws each connection that l accepts, and
// carries it. It returns when the client has gone or ctx has ended, and all
// connections have ended; l and ws are closed then. Data that the client had
// sent before it closed a connection has [ForwardOptions].Linger to reach the
// program inside, unless ctx ends.
func ServeForward(ctx context.Context, ws *websocket.Conn, l net.Listener, o ForwardOptions) {
	if o.Most <= 0 {
		o.Most = forwardMost
	}
	if o.Linger <= 0 {
		o.Linger = 10 * time.Second
	}
	s := &server{session: newSession(ws, o.Stream), o: o, l: l, room: semaphore.NewWeighted(int64(o.Most)), shut: make(chan struct{})}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	s.ctx = inner
	defer context.AfterFunc(ctx, func() { _ = ws.CloseNow() })() // the reader returns the error
	at := addressOf(l.Addr())
	if s.tell(forwardControl{Type: typeListening, At: &at}) == nil {
		s.carries.Go(func() { s.accept(ctx) })
	}
	go s.beat()
	s.read(s)
	cancel()
	_ = s.close() // there is no receiver left for the error
	s.carries.Wait()
}

// close closes the listener, once.
func (s *server) close() (err error) {
	s.closing.Do(func() {
		close(s.shut)
		err = s.l.Close()
	})
	return err
}

// reported implements side.
func (s *server) reported(c forwardControl) error {
	if c.Type != typeClose || s.asked {
		return violation("a text that is not the client's, or is told twice")
	}
	s.asked = true
	go func() { // it may take a while, for which the reader does not wait
		answer := forwardControl{Type: typeClosed}
		if err := s.close(); err != nil && !errors.Is(err, net.ErrClosed) {
			d := api.Of(err)
			answer.Error = &d
		}
		_ = s.tell(answer) // a client that has gone needs no answer
	}()
	return nil
}

// opened implements side: a client may not open connections.
func (s *server) opened(forwardFrame) error {
	return violation("a connection that is not the client's to open")
}

// accept accepts connections until the listener ends.
func (s *server) accept(ctx context.Context) {
	for {
		if s.room.Acquire(s.ctx, 1) != nil {
			return
		}
		far, err := s.l.Accept()
		if err == nil {
			s.welcome(ctx, far)
			continue
		}
		s.room.Release(1)
		if passing(err) && s.rest() {
			continue
		}
		select {
		case <-s.shut:
		default:
			d := api.Of(cause(err))
			_ = s.tell(forwardControl{Type: typeEnded, Error: &d}) // a client that has gone needs not know
		}
		return
	}
}

// cause returns err without the wrapper of package net.
func cause(err error) error {
	if o, ok := errors.AsType[*net.OpError](err); ok {
		return o.Err
	}
	return err
}

// passing reports whether a later accept may succeed.
func passing(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED)
}

func (s *server) rest() bool {
	select {
	case <-s.shut:
		return false
	case <-s.ctx.Done():
		return false
	case <-time.After(restFor):
		return true
	}
}

// welcome carries an accepted connection that is within the bound, after waiting
// for its place.
func (s *server) welcome(ctx context.Context, far net.Conn) {
	leave := func() {}
	if s.o.Take != nil {
		var err error
		if leave, err = s.o.Take(s.ctx); err != nil {
			s.room.Release(1)
			cut(far)
			return
		}
	}
	carried, done := context.WithCancel(ctx)
	free := func() {
		done()
		leave()
		s.room.Release(1)
	}
	c, err := s.open(far.LocalAddr(), far.RemoteAddr(), func(broken bool) {
		if broken {
			cut(far)
			return
		}
		linger := time.AfterFunc(s.o.Linger, func() { cut(far) })
		context.AfterFunc(carried, func() { linger.Stop() })
	})
	if err != nil {
		cut(far)
		free()
		return
	}
	stop := context.AfterFunc(ctx, func() { cut(far) })
	s.carries.Go(func() {
		defer free()
		defer stop()
		carry(c, far)
	})
}

// open announces a connection to the client; it calls ended once when the client
// has closed the connection. Only one goroutine may call it, so that numbers are
// sent in order.
func (s *server) open(local, remote net.Addr, ended func(broken bool)) (*conn, error) {
	s.mu.Lock()
	number := s.last + 1
	s.mu.Unlock()
	if number == 0 {
		return nil, violation("there are no more numbers")
	}
	c := newConn(s.session, number, local, remote)
	c.ended = ended
	content, err := json.Marshal(ends{Local: addressOf(local), Remote: addressOf(remote)})
	if err == nil {
		err = s.add(c)
	}
	if err == nil {
		err = c.send(kindOpen, content)
	}
	return c, err
}

// carry moves bytes between c and far until both directions have ended, or one
// of the two has failed, and closes both.
func carry(c *conn, far net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { inward(c, far) })
	both.Go(func() { outward(c, far) })
	both.Wait()
	_ = far.Close() // closed already is closed
	_ = c.Close()
}

// inward moves what the client sends.
func inward(c *conn, far net.Conn) {
	buf := make([]byte, MaxData)
	for {
		n, err := c.Read(buf)
		if n > 0 {
			if _, err := far.Write(buf[:n]); err != nil {
				c.abort()
				cut(far)
				return
			}
		}
		if err == nil {
			continue
		}
		half, able := far.(interface{ CloseWrite() error })
		switch {
		case !errors.Is(err, io.EOF):
			cut(far)
		case c.gone.Load() || !able: // the client wants no more data, or this is the only way to signal the end
			_ = far.Close()
		case half.CloseWrite() != nil:
			c.abort()
			cut(far)
		}
		return
	}
}

// outward moves what the program inside sends.
func outward(c *conn, far net.Conn) {
	buf := make([]byte, MaxData)
	for {
		n, err := far.Read(buf)
		if n > 0 {
			if _, err := c.Write(buf[:n]); err != nil {
				return // after a reset the other direction has ended, too; after a close there may be data left to deliver
			}
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			_ = c.CloseWrite() // after a failed CloseWrite the connection has ended anyway
		case !c.gone.Load():
			c.abort()
			cut(far)
		}
		return
	}
}

// cut closes far at once, by a reset where there is one.
func cut(far net.Conn) {
	if t, ok := far.(interface{ SetLinger(int) error }); ok {
		_ = t.SetLinger(0) // one that is closed needs none
	}
	_ = far.Close() // closed already is closed
}
