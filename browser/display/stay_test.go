package display

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/config"
)

// An answering is a container in which a browser answers.
type answering struct {
	server *httptest.Server
	closes atomic.Int64
	stuck  bool // the egress listener never opens

	created bool
	dialed  func() // called first; nil is nothing
}

func (r *answering) Name() string               { return "room" }
func (r *answering) Network() string            { return "none" }
func (r *answering) Created() bool              { return r.created }
func (r *answering) Settings() browser.Settings { return browser.Settings{CDPPort: 9222} }

func (r *answering) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	if r.dialed != nil {
		r.dialed()
	}
	var d net.Dialer
	return d.DialContext(ctx, network, r.server.Listener.Addr().String())
}

func (r *answering) Start(context.Context, sandbox.Command) (sandbox.Process, error) {
	return nil, sandbox.Errorf(sandbox.CodeUnsupported, "start", "nothing runs here")
}

func (r *answering) OpenEgress(ctx context.Context, _ int) (netip.AddrPort, func(), bool, error) {
	if r.stuck {
		<-ctx.Done()
		return netip.AddrPort{}, nil, false, ctx.Err()
	}
	return netip.AddrPort{}, func() {}, false, nil
}

func (r *answering) Workspace(context.Context) (browser.Workspace, error) {
	return browser.Workspace{}, nil
}

func (r *answering) Close() error {
	r.closes.Add(1)
	return nil
}

func newAnswering(t *testing.T) (*answering, logrus.FieldLogger) {
	r := &answering{}
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"Browser":"x","webSocketDebuggerUrl":"ws://x/devtools/browser/a1"}`)
	}))
	t.Cleanup(r.server.Close)
	log := logrus.New()
	log.SetOutput(io.Discard)
	return r, log
}

// TestStuckWayHoldsNobodyUp checks that a client can give up, and the
// container is released, while the egress listener never opens.
func TestStuckWayHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	r, log := newAnswering(t)
	r.stuck = true
	ctx, cancel := context.WithCancel(t.Context())
	open := func(context.Context) (Opened, error) {
		cancel() // the client gives up while the listener is opening
		return r, nil
	}
	var all stays
	if s, err := all.enter(ctx, "room", log, open); err == nil {
		_ = s.Close()
	}
	if n := r.closes.Load(); n != 1 {
		t.Errorf("the container was let go of %d times", n)
	}
}

// TestWhoGoesTakesNothingAlong checks that a client that gives up while it is
// connecting does not end the browser and its egress listener for the others.
func TestWhoGoesTakesNothingAlong(t *testing.T) {
	t.Parallel()
	r, log := newAnswering(t)
	open := func(context.Context) (Opened, error) { return r, nil }
	var all stays
	first, err := all.enter(t.Context(), "room", log, open)
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := all.enter(gone, "room", log, open); err == nil {
		t.Error("a client that has gone was let in")
	}
	if n := r.closes.Load(); n != 0 {
		t.Errorf("the container was let go of %d times", n)
	}
	conn, err := first.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	_ = first.Close()
	if n := r.closes.Load(); n != 1 {
		t.Errorf("in the end the container was let go of %d times", n)
	}
}

// A keeper is a Backend of one container, with fixed settings.
type keeper struct {
	Backend
	room    *answering
	removed atomic.Int64
}

func (k *keeper) Resolve(Request) (config.Resolved, error) { return config.Resolved{}, nil }

func (k *keeper) Open(context.Context, Request, bool) (Opened, error) { return k.room, nil }

func (k *keeper) Remove(context.Context, Request, bool) (string, bool, error) {
	k.removed.Add(1)
	return "room", true, nil
}

// TestWhoGoesRemovesNothing checks that a caller that gives up while the
// browser is probed does not cause its removal, unless the browser was created
// for that caller.
func TestWhoGoesRemovesNothing(t *testing.T) {
	t.Parallel()
	for _, created := range []bool{false, true} {
		r, log := newAnswering(t)
		k := &keeper{room: r}
		ctx, cancel := context.WithCancel(t.Context())
		r.created, r.dialed = created, cancel
		if _, err := New(k, log).Start(ctx, Request{}); err == nil {
			t.Fatal("it was started")
		}
		if removed := k.removed.Load() > 0; removed != created {
			t.Errorf("created %v: removed %v", created, removed)
		}
	}
}
