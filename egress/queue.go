package egress

import (
	"container/list"
	"errors"
	"net"
	"sync"
	"time"
)

// The bounds of a queue that are not settings. A connection that waits is a
// descriptor and less than a kilobyte.
const (
	maxWaiting = 4096        // connections that wait, of one sandbox
	queueTime  = time.Minute // that one of them waits, unless [Options.QueueTime] says otherwise
)

// A queue holds the connections of one sandbox for which limits.connections
// leaves no room yet, in the order in which they came. While one waits, the
// connections that are served are as many as may be.
type queue struct {
	most int           // that wait at a time
	wait time.Duration // that each waits at most

	mu      sync.Mutex
	waiting list.List // of *waiter
	idle    list.List // of net.Conn: served, between two requests
}

// A waiter is a connection that waits for its turn.
type waiter struct {
	conn  net.Conn
	door  *Door
	timer *time.Timer // ends the wait
	since time.Time
	left  bool // the queue
}

// take serves a connection, of a door or nil, has it wait for its turn, or turns it away.
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
	if first := q.idle.Front(); first != nil { // its program opens another one when it needs it
		q.idle.Remove(first).(net.Conn).Close()
	}
	q.mu.Unlock()
}

// admit serves a connection, which has waited for so long, when the meter has room
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
			c.open.Add(-1) // first: the connection that takes the place counts too
			w.next(release)
		}()
		w.attend(conn, door, waited)
	})
	return nil
}

// next gives the place of a connection that has ended to the ones that wait.
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

// leave takes a connection out of the queue, which is locked.
func (w *Way) leave(place *list.Element) *waiter {
	x := w.queue.waiting.Remove(place).(*waiter)
	x.timer.Stop()
	x.left = true
	w.plane.waits(-1)
	return x
}

// waited turns a connection away whose turn did not come in time.
func (w *Way) waited(place *list.Element) {
	q := &w.queue
	q.mu.Lock()
	x := place.Value.(*waiter)
	late := !x.left
	if late {
		w.leave(place)
		w.conns.Add(1) // the Way is not done while it holds this connection
	}
	q.mu.Unlock()
	if late {
		w.turnAway(x.conn, x.door, exhausted(errConnections))
		w.conns.Done()
	}
}

// empty turns the connections away that wait when the Way or its meter has
// ended.
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

// resting notes that a connection waits for its program's next request, which
// the connections that wait for a turn need not wait for. It returns what is to
// be called when the request has come, and false when the connection has to
// end.
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
		q.idle.Remove(place) // does nothing when it is not there any more
		q.mu.Unlock()
	}, true
}
