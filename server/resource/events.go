package resource

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/server/api"
)

// heartbeat is the interval of the comments that keep an idle stream alive.
const heartbeat = 15 * time.Second

// Events is a streamed answer: server-sent events. It is safe for concurrent
// use. The first write that fails ends it, and later events are dropped. Where
// the client has gone the request's context ends then too; where there is no
// room for what is written, Do goes on, and when it returns the server cuts the
// connection, so that the client does not take the answer for a whole one.
type Events struct {
	w    http.ResponseWriter
	stop chan struct{}
	done sync.WaitGroup

	mu  sync.Mutex
	err error
}

// Events begins the answer. From then on errors have to be sent as events, see
// api.EventError. Close must always be called.
func (c *Call) Events() *Events {
	h := c.Writer.Header()
	h.Set("Content-Type", api.ContentEvents)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	c.Writer.WriteHeader(http.StatusOK)
	e := &Events{w: c.Writer, stop: make(chan struct{})}
	e.write([]byte(": begin\n\n"))
	e.done.Go(e.beat)
	return e
}

// Send writes one event with data as JSON.
func (e *Events) Send(name string, data any) error { return e.SendID("", name, data) }

// SendID is Send for an event with an id, which has no line breaks; empty is none.
func (e *Events) SendID(id, name string, data any) error {
	body, err := json.Marshal(data) // on one line
	if err != nil {
		return err
	}
	var b bytes.Buffer
	b.Grow(len(id) + len(name) + len(body) + 24)
	if id != "" {
		b.WriteString("id: ")
		b.WriteString(id)
		b.WriteByte('\n')
	}
	b.WriteString("event: ")
	b.WriteString(name)
	b.WriteString("\ndata: ")
	b.Write(body)
	b.WriteString("\n\n")
	return e.write(b.Bytes())
}

func (e *Events) write(p []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		_, e.err = e.w.Write(p)
	}
	if e.err == nil {
		e.err = http.NewResponseController(e.w).Flush()
	}
	return e.err
}

func (e *Events) beat() {
	t := time.NewTicker(heartbeat)
	defer t.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-t.C:
			if e.write([]byte(":\n\n")) != nil {
				return
			}
		}
	}
}

// Close ends the stream.
func (e *Events) Close() {
	close(e.stop)
	e.done.Wait()
}
