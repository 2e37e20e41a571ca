package stream

import (
	"context"
	"encoding/json"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox/internal/jsonschema"
)

// A Talk exchanges JSON over a WebSocket that may be silent for long; both sides
// send pings.
type Talk struct{ link *link }

// NewTalk returns the talk over conn, which owns conn from then on. Both sides
// must receive all the time.
func NewTalk(conn *websocket.Conn, o Options) *Talk {
	t := &Talk{newLink(conn, o)}
	conn.SetReadLimit(MaxRequest)
	t.link.live()
	return t
}

// Send sends v. It may be called at any time.
func (t *Talk) Send(v any) error { return t.link.tell(v) }

// Receive reads the next message into v, and ignores members that v does not
// have. Only one goroutine may call it. The end of ctx ends the talk.
func (t *Talk) Receive(ctx context.Context, v any) error {
	kind, b, err := t.link.read(ctx)
	if err != nil {
		return unavailable("talk", "the connection ended", err)
	}
	if kind != websocket.MessageText {
		return invalid("", "a message is no text")
	}
	if err := json.Unmarshal(b, v); err != nil || jsonschema.HasHalf(b) {
		return invalid("", "a message is no JSON that is understood here")
	}
	return nil
}

// End closes the talk; gently waits some seconds for the other side to read what
// was sent.
func (t *Talk) End(gently bool) { t.link.end(gently) }
