package page

import (
	"context"
	"io"
	"sync"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/coder/websocket"
)

// A wire is the connection to a browser, shared by all its protocol sessions:
// the browser as a whole, the page, its frames and workers. Each has a line of
// its own. It is safe for concurrent use.
type wire struct {
	conn *websocket.Conn
	done chan struct{} // closed when the connection is gone

	mu    sync.Mutex
	lines map[target.SessionID]*line
	lost  error
	busy  sync.WaitGroup
}

// A line is one session of the protocol. It is a chromedp transport of its own
// and so serves any kind of target.
type line struct {
	wire    *wire
	id      target.SessionID
	session cdp.Session            // the other end
	event   func(*cdproto.Message) // called in order, must not block
	replies chan *cdproto.Message
	ended   chan struct{}
	once    sync.Once
}

var _ chromedp.Transport = (*line)(nil)

// newWire serves the connection until it ends.
func newWire(conn *websocket.Conn) *wire {
	w := &wire{conn: conn, done: make(chan struct{}), lines: make(map[target.SessionID]*line)}
	w.busy.Add(1)
	go func() {
		defer w.busy.Done()
		w.read()
	}()
	return w
}

// read dispatches messages until the connection ends.
func (w *wire) read() {
	defer close(w.done)
	for {
		_, data, err := w.conn.Read(context.Background())
		if err != nil {
			w.mu.Lock()
			w.lost = err
			w.mu.Unlock()
			return
		}
		msg := new(cdproto.Message)
		if jsonv2.Unmarshal(data, msg, chromedp.DefaultUnmarshalOptions) != nil {
			continue // the waiting call has a deadline
		}
		w.mu.Lock()
		l := w.lines[msg.SessionID]
		w.mu.Unlock()
		switch {
		case l == nil:
		case msg.Method != "":
			l.event(msg)
		default:
			msg.SessionID = "" // chromedp's end of a line has no session ids
			select {
			case l.replies <- msg:
			case <-l.ended:
			}
		}
	}
}

// open starts a line; "" is the browser as a whole. The line ends with the
// context, the wire, or [line.Close].
func (w *wire) open(ctx context.Context, id target.SessionID, event func(*cdproto.Message)) (cdp.Session, error) {
	l := &line{wire: w, id: id, event: event, replies: make(chan *cdproto.Message, 16), ended: make(chan struct{})}
	w.mu.Lock()
	w.lines[id] = l
	w.mu.Unlock()
	quiet := func(string, ...any) {}
	session, err := chromedp.NewBrowserTransport(ctx, l, chromedp.WithBrowserLogf(quiet), chromedp.WithBrowserErrorf(quiet))
	if err != nil {
		l.Close()
		return nil, err
	}
	w.mu.Lock()
	l.session = session
	w.mu.Unlock()
	return session, nil
}

// line returns the session of an open line, or nil.
func (w *wire) line(id target.SessionID) cdp.Session {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.lines[id]; l != nil {
		return l.session
	}
	return nil
}

// hangUp ends the line of a session that the browser has ended.
func (w *wire) hangUp(id target.SessionID) {
	w.mu.Lock()
	l := w.lines[id]
	w.mu.Unlock()
	if l != nil && id != "" {
		l.Close()
	}
}

// expect raises the limit of a message by so many bytes until the returned
// function is called.
func (w *wire) expect(bytes int64) (enough func()) {
	w.conn.SetReadLimit(max(maxMessage, min(maxPicture, maxMessage+bytes)))
	return func() { w.conn.SetReadLimit(maxMessage) }
}

// has reports whether there is a line for that session.
func (w *wire) has(id target.SessionID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lines[id] != nil
}

// close ends the connection and waits for its reader.
func (w *wire) close() {
	w.conn.CloseNow()
	w.busy.Wait()
}

// reason returns why the connection ended.
func (w *wire) reason() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// Read implements [chromedp.Transport]: it returns replies only.
func (l *line) Read(ctx context.Context, msg *cdproto.Message) error {
	select {
	case reply := <-l.replies:
		*msg = *reply
		return nil
	case <-l.ended:
	case <-l.wire.done:
	case <-ctx.Done():
	}
	return io.EOF
}

// Write implements [chromedp.Transport].
func (l *line) Write(ctx context.Context, msg *cdproto.Message) error {
	sent := *msg
	sent.SessionID = l.id
	data, err := jsonv2.Marshal(&sent, chromedp.DefaultMarshalOptions)
	if err != nil {
		return err
	}
	// A context that ends in the middle of a message would end the wire for
	// all lines, so that of the line is not used here.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTime)
	defer cancel()
	return l.wire.conn.Write(ctx, websocket.MessageText, data)
}

// Close implements [chromedp.Transport].
func (l *line) Close() error {
	l.once.Do(func() {
		close(l.ended)
		l.wire.mu.Lock()
		defer l.wire.mu.Unlock()
		if l.wire.lines[l.id] == l {
			delete(l.wire.lines, l.id)
		}
	})
	return nil
}
