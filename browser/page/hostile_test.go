package page

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// A forged container contains a browser that lies.
type forged struct {
	browser.Container
	at netip.AddrPort
}

func (f *forged) Settings() browser.Settings {
	return browser.Settings{CDPPort: int(f.at.Port()), Schemes: []string{"https"}}
}

func (f *forged) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, f.at.String())
}

func (f *forged) OpenEgress(context.Context, int) (netip.AddrPort, func(), bool, error) {
	return netip.AddrPort{}, nil, false, nil
}

// An hourglass is a context that expires when the test says so.
type hourglass struct {
	context.Context
	empty chan struct{}
}

func (h hourglass) Done() <-chan struct{} { return h.empty }

func (h hourglass) Err() error {
	select {
	case <-h.empty:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestForgedBrowser checks that an attacker in the browser's place gains
// nothing by it, and blocks no caller.
func TestForgedBrowser(t *testing.T) {
	said := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
	}
	var over atomic.Pointer[func()] // ends the time of the session that is opened
	talk := func(messages ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer c.CloseNow()
			for _, m := range messages {
				if c.Write(r.Context(), websocket.MessageText, []byte(m)) != nil {
					return
				}
			}
			for len(messages) > 0 { // keeps listening, and sends nothing more
				if _, _, err := c.Read(r.Context()); err != nil {
					return
				}
				time.AfterFunc(500*time.Millisecond, *over.Load()) // what was said has been heard by then
			}
		}
	}
	fine := said(`{"webSocketDebuggerUrl":"ws://x/devtools/browser/1"}`)
	tests := map[string]struct {
		version, browser http.HandlerFunc
		code             sandbox.Code
	}{
		"no version":    {http.NotFound, http.NotFound, sandbox.CodeUnavailable},
		"garbage":       {said("garbage"), http.NotFound, sandbox.CodeUnavailable},
		"another place": {said(`{"webSocketDebuggerUrl":"ws://x/elsewhere/1"}`), http.NotFound, sandbox.CodeUnavailable},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/devtools/browser/1", http.StatusFound)
		}, fine, sandbox.CodeUnavailable},
		"no protocol":    {fine, said("hello"), sandbox.CodeUnavailable},
		"ends at once":   {fine, talk(), sandbox.CodeUnavailable},
		"never answers":  {fine, talk(`garbage`, `{}`, `[]`, `{"id":77}`, `{"id":1,"sessionId":"X"}`, `{"method":"Target.attachedToTarget","params":7}`), sandbox.CodeTimeout},
		"answers errors": {fine, talk(`{"id":1,"error":{"code":-32000,"message":"no"}}`), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			mux := http.NewServeMux()
			mux.HandleFunc("/json/version", tt.version)
			mux.HandleFunc("/devtools/browser/1", tt.browser)
			server := httptest.NewServer(mux)
			_, port, err := net.SplitHostPort(server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			n, err := strconv.ParseUint(port, 10, 16)
			if err != nil {
				t.Fatal(err)
			}
			ctx := hourglass{t.Context(), make(chan struct{})}
			end := sync.OnceFunc(func() { close(ctx.empty) })
			over.Store(&end)
			defer time.AfterFunc(testenv.Patience, end).Stop() // which none waits for
			s, err := Open(ctx, &forged{at: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(n))}, browser.Rights{}, Options{})
			if err == nil {
				s.Close()
				t.Fatal("it is a session")
			}
			if code := sandbox.CodeOf(err); tt.code != "" && code != tt.code {
				t.Errorf("%s: %v", code, err)
			}
			server.CloseClientConnections()
			server.Close()
			testenv.None(t, before)
		})
	}
}
