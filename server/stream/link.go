package stream

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
)

// Options bound a stream; the zero value has the defaults of both sides.
type Options struct {
	// Beat is how long a side may receive nothing before it sends a ping, and
	// how long the answer may take; zero is 20 seconds.
	Beat time.Duration

	// SendWithin bounds the sending of one frame; zero is 30 seconds. A peer
	// that reads more slowly is cut off.
	SendWithin time.Duration

	// RequestWithin bounds the wait for the first frame; zero is 10 seconds.
	RequestWithin time.Duration
}

// OrDefaults returns o with the defaults in the place of zero values.
func (o Options) OrDefaults() Options {
	for _, d := range []struct {
		at      *time.Duration
		instead time.Duration
	}{{&o.Beat, 20 * time.Second}, {&o.SendWithin, 30 * time.Second}, {&o.RequestWithin, 10 * time.Second}} {
		if *d.at <= 0 {
			*d.at = d.instead
		}
	}
	return o
}

// A link is a WebSocket with bounds. Only one goroutine may read; any may write.
type link struct {
	conn *websocket.Conn
	o    Options
	buf  []byte // of the last frame that was read

	heard  atomic.Bool // since the last beat
	behind atomic.Bool // the reader waits for a program that does not read
	lost   func()      // unblocks the reader when the peer has gone; may be nil

	beating sync.Mutex
	beat    *time.Timer // nil before the first and after the last beat
	over    bool        // guarded by beating
}

func newLink(conn *websocket.Conn, o Options) *link {
	conn.SetReadLimit(MaxControl)
	return &link{conn: conn, o: o.OrDefaults()}
}

// read returns the next frame. Its bytes are valid until the next call. The
// context bounds the wait; its end ends the link.
func (l *link) read(ctx context.Context) (websocket.MessageType, []byte, error) {
	kind, r, err := l.conn.Reader(ctx)
	if err != nil {
		return 0, nil, err
	}
	if l.buf == nil {
		l.buf = make([]byte, 0, 4<<10)
	}
	b := l.buf[:0]
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err != nil {
			l.buf = b
			l.heard.Store(true)
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return kind, b, err
		}
	}
}

// data sends frame, whose first byte is the channel.
func (l *link) data(frame []byte) error { return l.write(websocket.MessageBinary, frame) }

// tell sends v as JSON.
func (l *link) tell(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return l.write(websocket.MessageText, b)
}

func (l *link) write(kind websocket.MessageType, b []byte) error {
	// The context must not be a command's: the end of a context that bounds a
	// write ends the socket.
	ctx, cancel := context.WithTimeout(context.Background(), l.o.SendWithin)
	defer cancel()
	return l.conn.Write(ctx, kind, b)
}

// live sends pings until the link is closed. A missing pong ends the link.
func (l *link) live() {
	l.beating.Lock()
	defer l.beating.Unlock()
	if !l.over {
		l.beat = time.AfterFunc(l.o.Beat, l.check)
	}
}

func (l *link) check() {
	if !l.heard.Swap(false) {
		ctx, cancel := context.WithTimeout(context.Background(), l.o.Beat)
		err := l.conn.Ping(ctx)
		cancel()
		if l.dead(err) {
			_ = l.conn.CloseNow() // the reader returns the error
			if l.lost != nil {
				l.lost()
			}
			return
		}
	}
	l.live()
}

// dead reports whether a ping that ended with err shows that the peer has gone.
// While the reader waits for a program it does not read the pong, so a missing
// pong shows nothing then; a ping that cannot even be sent does.
func (l *link) dead(err error) bool {
	// A reader that goes on sets heard before it resets behind: in the other
	// order this check could find neither.
	behind := l.behind.Load()
	switch {
	case err == nil || l.heard.Load():
		return false
	case behind:
		return !errors.Is(err, context.DeadlineExceeded)
	}
	return true
}

// end closes the link, with a handshake where the peer may still want to read
// what was sent last.
func (l *link) end(gently bool) {
	l.beating.Lock()
	l.over = true
	if l.beat != nil {
		l.beat.Stop()
	}
	l.beating.Unlock()
	if gently {
		_ = l.conn.Close(websocket.StatusNormalClosure, "") // a peer that does not answer is cut
		return
	}
	_ = l.conn.CloseNow()
}

// unavailable returns the error for a socket that ended too early.
func unavailable(op, message string, cause error) error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Message: message, Err: cause}
}
