package egress

import (
	"container/list"
	"errors"
	"net"
	"sync"
	"time"
)

// The bounds of a queue that are not settings. A queued connection costs a
// descriptor and less than a kilobyte.
const (
	maxWaiting = 4096        // queued connections of one sandbox
	queueTime  = time.Minute // queueing time, unless [Options.QueueTime] is set
)

// A queue holds the connections of one sandbox for which limits.connections
// leaves no room yet, in order of arrival. While the queue is not empty, the
// maximum number of connections is being served.
type queue struct {
	most int           // maximum length
	wait time.Duration // maximum queueing time

	mu      sync.Mutex
	waiting list.List // of *waiter
	idle    list.List // of net.Conn: served, between two requests
}

// A waiter is a queued connection.
type waiter struct {
	conn     net.Conn
	listener *HostListener
	timer    *time.Timer // ends the wait
	since    time.Time
	left     bool // removed from the queue
}

// take serves a connection, of a host listener or nil, queues it, or refuses it.
func (s *Session) take(conn net.Conn, listener *HostListener) {
	q := &s.queue
	q.mu.Lock()
	err := s.admit(conn, listener, 0)
	if !errors.Is(err, errConnections) || q.waiting.Len() >= q.most || !s.plane.waits(1) {
		q.mu.Unlock()
		if err != nil {
			s.refuseConn(conn, listener, exhausted(err))
		}
		return
	}
	x := &waiter{conn: conn, listener: listener, since: time.Now()}
	place := q.waiting.PushBack(x)
	x.timer = time.AfterFunc(q.wait, func() { s.waited(place) })
	if first := q.idle.Front(); first != nil { // its program can open a new one
		q.idle.Remove(first).(net.Conn).Close()
	}
	q.mu.Unlock()
}

// admit serves a connection that was queued for waited, if the meter has room
// for it. The queue is locked.
func (s *Session) admit(conn net.Conn, listener *HostListener, waited time.Duration) error {
	release, err := s.meter.Take()
	if err != nil {
		return err
	}
	c := &s.plane.counts
	c.connections.Add(1)
	c.open.Add(1)
	s.conns.Go(func() {
		defer func() {
			c.open.Add(-1) // before next: the connection that takes the place is counted too
			s.next(release)
		}()
		s.attend(conn, listener, waited)
	})
	return nil
}

// next gives the place of an ended connection to a queued one.
func (s *Session) next(release func()) {
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	release()
	for first := q.waiting.Front(); first != nil; first = q.waiting.Front() {
		if x := first.Value.(*waiter); s.admit(x.conn, x.listener, time.Since(x.since)) != nil {
			return
		}
		s.leave(first)
	}
}

// leave removes a connection from the queue, which is locked.
func (s *Session) leave(place *list.Element) *waiter {
	x := s.queue.waiting.Remove(place).(*waiter)
	x.timer.Stop()
	x.left = true
	s.plane.waits(-1)
	return x
}

// waited refuses a connection that was queued for too long.
func (s *Session) waited(place *list.Element) {
	q := &s.queue
	q.mu.Lock()
	x := place.Value.(*waiter)
	late := !x.left
	if late {
		s.leave(place)
		s.conns.Add(1) // the Session is not done before this connection is closed
	}
	q.mu.Unlock()
	if late {
		s.refuseConn(x.conn, x.listener, exhausted(errConnections))
		s.conns.Done()
	}
}

// empty refuses the queued connections when the Session or its meter has ended.
func (s *Session) empty() {
	for {
		s.queue.mu.Lock()
		first := s.queue.waiting.Front()
		if first == nil {
			s.queue.mu.Unlock()
			return
		}
		x := s.leave(first)
		s.queue.mu.Unlock()
		if s.ctx.Err() != nil {
			x.conn.Close()
			continue
		}
		s.refuseConn(x.conn, x.listener, exhausted(s.meter.Err()))
	}
}

// resting notes that a connection waits for its program's next request, so
// that it can be closed in favor of queued connections. The caller calls busy
// when the request arrives; busy is nil and ok is false if the connection has
// to end.
func (s *Session) resting(conn net.Conn) (busy func(), ok bool) {
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting.Len() > 0 {
		return nil, false
	}
	place := q.idle.PushBack(conn)
	return func() {
		q.mu.Lock()
		q.idle.Remove(place) // does nothing if it was already removed
		q.mu.Unlock()
	}, true
}
