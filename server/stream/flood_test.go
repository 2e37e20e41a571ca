package stream_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

// A stubborn process does not end, and its kills block until the test releases
// them.
type stubborn struct {
	sandbox.Process
	ended, letGo chan struct{}
	now, most    atomic.Int64
}

func (p *stubborn) Wait() (sandbox.Exit, error) {
	<-p.ended
	return sandbox.Exit{Code: 137}, nil
}

func (p *stubborn) Kill(context.Context) error {
	n := p.now.Add(1)
	defer p.now.Add(-1)
	for most := p.most.Load(); n > most && !p.most.CompareAndSwap(most, n); most = p.most.Load() {
	}
	<-p.letGo
	return nil
}

// TestFloodOfKills holds that a client that sends many kills costs no more than
// one that sends a few, and that each is answered.
func TestFloodOfKills(t *testing.T) {
	p := &stubborn{ended: make(chan struct{}), letGo: make(chan struct{})}
	served := make(chan error, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			served <- err
			return
		}
		served <- stream.Serve(context.Background(), conn, stream.Options{}, func(context.Context, stream.Request, sandbox.Command) (sandbox.Process, error) { return p, nil })
	}))
	defer s.Close()
	ctx, done := context.WithTimeout(t.Context(), patience)
	defer done()
	conn, _, err := websocket.Dial(ctx, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	send := func(text string) {
		if err := conn.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	hear := func() string {
		_, b, err := conn.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	send(`{"args":["x"],"noStdin":true}`)
	if got := hear(); !strings.Contains(got, "started") {
		t.Fatal(got)
	}
	const flood = 500
	refused := 0
	for i := range flood {
		send(fmt.Sprintf(`{"type":"kill","id":%d}`, i+1))
		if i < 10 { // some are under way
			continue
		}
		if got := hear(); strings.Contains(got, "SANDBOX.BUSY") {
			refused++
		}
	}
	close(p.letGo)
	close(p.ended)
	if most := p.most.Load(); most == 0 || most > 10 || refused < flood-20 {
		t.Errorf("%d kills were under way at one time, %d refused", most, refused)
	}
	for !strings.Contains(hear(), `"exit"`) {
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
