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
	conn  net.Conn
	door  *Door
	timer *time.Timer // ends the wait
	since time.Time
	left  bool // removed from the queue
}

// take serves a connection, of a door or nil, queues it, or turns it away.
func (w *Way) take(conn net.Conn, door *Door) {
	q := &w.queue
	q.mu.Lock()
	err := w.admit(conn, door, 0)
	if !errors.Is(err, errConnections) || q.waiting.Len() >= q.most || !w.plane.waits(1) {
		q.mu.Unlock()
		if err != nil {
			w.turnAway(conn, door, exhausted(err))
		}
		return
	}
	x := &waiter{conn: conn, door: door, since: time.Now()}
	place := q.waiting.PushBack(x)
	x.timer = time.AfterFunc(q.wait, func() { w.waited(place) })
	if first := q.idle.Front(); first != nil { // its program can open a new one
		q.idle.Remove(first).(net.Conn).Close()
	}
	q.mu.Unlock()
}

// admit serves a connection that was queued for waited, if the meter has room
// for it. The queue is locked.
func (w *Way) admit(conn net.Conn, door *Door, waited time.Duration) error {
	release, err := w.meter.Take()
	if err != nil {
		return err
	}
	c := &w.plane.counts
	c.connections.Add(1)
	c.open.Add(1)
	w.conns.Go(func() {
		defer func() {
			c.open.Add(-1) // before next: the connection that takes the place is counted too
			w.next(release)
		}()
		w.attend(conn, door, waited)
	})
	return nil
}

// next gives the place of an ended connection to a queued one.
func (w *Way) next(release func()) {
	q := &w.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	release()
	for first := q.waiting.Front(); first != nil; first = q.waiting.Front() {
		if x := first.Value.(*waiter); w.admit(x.conn, x.door, time.Since(x.since)) != nil {
			return
		}
		w.leave(first)
	}
}

// leave removes a connection from the queue, which is locked.
func (w *Way) leave(place *list.Element) *waiter {
	x := w.queue.waiting.Remove(place).(*waiter)
	x.timer.Stop()
	x.left = true
	w.plane.waits(-1)
	return x
}

// waited turns away a connection that was queued for too long.
func (w *Way) waited(place *list.Element) {
	q := &w.queue
	q.mu.Lock()
	x := place.Value.(*waiter)
	late := !x.left
	if late {
		w.leave(place)
		w.conns.Add(1) // the Way is not done before this connection is closed
	}
	q.mu.Unlock()
	if late {
		w.turnAway(x.conn, x.door, exhausted(errConnections))
		w.conns.Done()
	}
}

// empty turns away the queued connections when the Way or its meter has ended.
func (w *Way) empty() {
	for {
		w.queue.mu.Lock()
		first := w.queue.waiting.Front()
		if first == nil {
			w.queue.mu.Unlock()
			return
		}
		x := w.leave(first)
		w.queue.mu.Unlock()
		if w.ctx.Err() != nil {
			x.conn.Close()
			continue
		}
		w.turnAway(x.conn, x.door, exhausted(w.meter.Err()))
	}
}

// resting notes that a connection waits for its program's next request, so
// that it can be closed in favor of queued connections. The caller calls busy
// when the request arrives; busy is nil and ok is false if the connection has
// to end.
func (w *Way) resting(conn net.Conn) (busy func(), ok bool) {
	q := &w.queue
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
