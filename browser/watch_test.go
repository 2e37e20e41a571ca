package browser

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
)

// watchWithin is how long tests wait.
const watchWithin = time.Minute

// A screen is the inside of a container: a noVNC server, and the file of
// passwords.
type screen struct {
	*httptest.Server
	mu        sync.Mutex
	heads     []string // of requests
	passwords []byte
	fail      error // of setting passwords
	gone      error // of dialling
	answer    http.HandlerFunc
}

func newDisplay(t *testing.T) *screen {
	t.Helper()
	d := &screen{passwords: []byte("nobody")}
	d.Server = httptest.NewServer(http.HandlerFunc(d.serve))
	t.Cleanup(func() {
		d.CloseClientConnections()
		d.Close()
	})
	return d
}

func (d *screen) serve(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	var head strings.Builder
	head.WriteString(r.Method + " " + r.RequestURI + "\nHost: " + r.Host + "\n")
	_ = r.Header.Write(&head)
	d.heads = append(d.heads, head.String())
	answer := d.answer
	d.mu.Unlock()
	switch {
	case answer != nil:
		answer(w, r)
	case r.URL.Path == "/vnc.html":
		h := w.Header()
		h.Set("Content-Type", "application/x-evil")
		h.Set("Set-Cookie", "evil=1")
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Content-Security-Policy", "default-src *")
		_, _ = io.WriteString(w, "<html>noVNC</html>")
	case r.URL.Path == "/websockify":
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = ws.CloseNow() }()
		_ = ws.Write(r.Context(), websocket.MessageBinary, []byte("RFB 003.008\n"))
		_, _, _ = ws.Read(r.Context())
	default:
		http.NotFound(w, r)
	}
}

func (d *screen) dial(ctx context.Context) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone != nil {
		return nil, d.gone
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", d.Listener.Addr().String())
}

func (d *screen) set(_ context.Context, old, content []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail == nil && (old == nil || bytes.Equal(old, d.passwords)) {
		d.passwords = content
	}
	return d.fail
}

func (d *screen) lets(password string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Contains(string(d.passwords), password)
}

func (d *screen) asked() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.heads)
}

// openWatch opens a watch of d with options modified by change.
func openWatch(t *testing.T, d *screen, change func(*WatchOptions)) *Watch {
	t.Helper()
	o := WatchOptions{Dial: d.dial, SetPasswords: d.set, headers: watchWithin}
	if change != nil {
		change(&o)
	}
	w, err := OpenWatch(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// watchSay sends bytes on a connection of their own and returns the response.
// {A} is the address of the watch, {B} its folder, {L} its link, {C} its
// cookie.
func watchSay(t *testing.T, w *Watch, bytes string) (status int, head http.Header, body string) {
	t.Helper()
	c, err := net.Dial("tcp", w.server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_, port, _ := net.SplitHostPort(w.server.Addr().String())
	fill := strings.NewReplacer("{A}", w.server.Addr().String(), "{B}", w.secrets.base(), "{L}", w.secrets.link,
		"{C}", w.secrets.cookie, "{P}", port, "\n", "\r\n")
	if _, err := io.WriteString(c, fill.Replace(bytes)); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(bytes, " ")
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw := []byte(nil)
	if resp.StatusCode != http.StatusSwitchingProtocols {
		if raw, err = io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
	}
	return resp.StatusCode, resp.Header, string(raw)
}

const (
	useLink  = "GET /open/{L} HTTP/1.1\nHost: {A}\n\n"
	asFile   = "GET {B}vnc.html HTTP/1.1\nHost: {A}\nCookie: other=1; sandbox-watch={C}\n\n"
	asSocket = "GET {B}websockify HTTP/1.1\nHost: {A}\nCookie: sandbox-watch={C}\nOrigin: http://{A}\n" +
		"Upgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n\n"
)

// TestLink checks that the link works once, where it leads, and what it sets.
func TestLink(t *testing.T) {
	for _, control := range []bool{false, true} {
		d := newDisplay(t)
		w := openWatch(t, d, func(o *WatchOptions) { o.Control = control })
		status, head, _ := watchSay(t, w, useLink)
		to, err := url.Parse(head.Get("Location"))
		if status != 303 || err != nil {
			t.Fatalf("status %d, to %q", status, head.Get("Location"))
		}
		words, err := url.ParseQuery(to.Fragment)
		if err != nil || to.Path != w.secrets.base()+"vnc.html" || to.RawQuery != "" || to.Host != "" {
			t.Errorf("the link leads to %v, %v", to, err)
		}
		if words.Get("password") != w.Password() || words.Get("path") != w.secrets.folder+"/websockify" || words.Get("autoconnect") != "1" {
			t.Errorf("noVNC is told %v", words)
		}
		file := string(d.passwords)
		full, view, _ := strings.Cut(strings.TrimSuffix(file, "\n"), "\n__BEGIN_VIEWONLY__\n")
		if len(full) != 8 || len(view) != 8 || full == view {
			t.Fatalf("passwords %q", file)
		}
		if want := map[bool]string{false: view, true: full}[control]; w.Password() != want || w.ViewOnly() == control ||
			words.Get("view_only") != map[bool]string{false: "true", true: "false"}[control] {
			t.Errorf("control %v: password %q of %q, told %v", control, w.Password(), file, words)
		}
		cookie := head.Get("Set-Cookie")
		for _, word := range []string{"HttpOnly", "SameSite=Strict", "Path=" + w.secrets.base() + ";", w.secrets.cookie} {
			if !strings.Contains(cookie, word) {
				t.Errorf("%q is not in the cookie %q", word, cookie)
			}
		}
		if strings.Contains(cookie, "Domain") || strings.Contains(w.URL(), w.Password()) {
			t.Errorf("cookie %q, link %q", cookie, w.URL())
		}
		if status, _, _ := watchSay(t, w, useLink); status != 401 {
			t.Errorf("the second use: status %d, want 401", status)
		}
	}
}

func TestLinkExpires(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	w := openWatch(t, newDisplay(t), func(o *WatchOptions) { o.Now = func() time.Time { return now } })
	if got := w.LinkExpires().Sub(now); got != time.Minute {
		t.Errorf("the link lives %v, want a minute", got)
	}
	now = now.Add(time.Minute)
	if status, _, _ := watchSay(t, w, useLink); status != 401 {
		t.Errorf("status %d, want 401", status)
	}
}

// TestLinkByTwo checks that of many concurrent uses of the link one succeeds.
func TestLinkByTwo(t *testing.T) {
	w := openWatch(t, newDisplay(t), nil)
	var all sync.WaitGroup
	var mu sync.Mutex
	won := map[int]int{}
	for range 16 {
		all.Go(func() {
			status, _, _ := watchSay(t, w, useLink)
			mu.Lock()
			defer mu.Unlock()
			won[status]++
		})
	}
	all.Wait()
	if won[303] != 1 || won[401] != 15 {
		t.Errorf("answers %v, want one that leads on", won)
	}
}

// TestFile checks the headers of a noVNC page.
func TestFile(t *testing.T) {
	d := newDisplay(t)
	w := openWatch(t, d, nil)
	status, head, body := watchSay(t, w, asFile)
	if status != 200 || body != "<html>noVNC</html>" {
		t.Fatalf("%d %q", status, body)
	}
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
		"Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "Set-Cookie": "", "Access-Control-Allow-Origin": "",
	} {
		if got := head.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	policy := head.Values("Content-Security-Policy")
	if len(policy) != 1 || !strings.Contains(policy[0], "default-src 'none'") || strings.Contains(policy[0], "unsafe") ||
		!strings.Contains(policy[0], "connect-src 'self' ws://"+w.server.Addr().String()+";") {
		t.Errorf("policy %q", policy)
	}
	if want := "GET /vnc.html\nHost: localhost\nAccept-Encoding: identity\r\nConnection: close\r\n"; len(d.heads) != 1 || d.heads[0] != want {
		t.Errorf("the server inside was asked %q", d.heads)
	}
}

func TestDisplay(t *testing.T) {
	d := newDisplay(t)
	w := openWatch(t, d, nil)
	ctx, cancel := context.WithTimeout(t.Context(), watchWithin)
	defer cancel()
	host := w.server.Addr().String()
	ws, _, err := websocket.Dial(ctx, "ws://"+host+w.secrets.base()+"websockify", &websocket.DialOptions{
		HTTPHeader: http.Header{"Origin": {"http://" + host}, "Cookie": {"sandbox-watch=x; sandbox-watch=" + w.secrets.cookie}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	if _, data, err := ws.Read(ctx); err != nil || string(data) != "RFB 003.008\n" {
		t.Errorf("%q, %v", data, err)
	}
	for _, word := range []string{"Cookie", "Origin", w.secrets.cookie} {
		if strings.Contains(d.heads[0], word) {
			t.Errorf("%s reached the server inside: %s", word, d.heads[0])
		}
	}
	w.Close()
	if _, _, err := ws.Read(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("the viewer does not notice the end: %v", err)
	}
	if d.lets(w.Password()) || !d.lets("__BEGIN_VIEWONLY__\n") {
		t.Errorf("the password still lets in: %q", d.passwords)
	}
}

// TestEnds checks every way in which a watch ends, and its passwords.
func TestEnds(t *testing.T) {
	removed := make(chan struct{})
	tests := []struct {
		name   string
		change func(*WatchOptions)
		end    func(*testing.T, *screen, *Watch)
	}{
		{"closed", nil, func(_ *testing.T, _ *screen, w *Watch) { w.Close() }},
		{"time is over", func(o *WatchOptions) { o.For = time.Millisecond }, func(*testing.T, *screen, *Watch) {}},
		{"removed while idle", func(o *WatchOptions) {
			o.Gone = func(ctx context.Context) error {
				select {
				case <-removed:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}, func(*testing.T, *screen, *Watch) { close(removed) }},
		{"removed when used", nil, func(t *testing.T, d *screen, w *Watch) {
			d.mu.Lock()
			d.gone = sandbox.Errorf(sandbox.CodeNotFound, "dial", "no such container")
			d.mu.Unlock()
			if status, _, _ := watchSay(t, w, asFile); status != 502 {
				t.Errorf("status %d, want 502", status)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDisplay(t)
			w := openWatch(t, d, tt.change)
			tt.end(t, d, w)
			select {
			case <-w.Done():
			case <-time.After(watchWithin):
				t.Fatal("the watch does not end")
			}
			if d.lets(w.secrets.full) || d.lets(w.secrets.view) {
				t.Error("the passwords still let in")
			}
		})
	}
}

// TestLaterWatch checks that the end of one watch keeps the passwords of the
// next.
func TestLaterWatch(t *testing.T) {
	d := newDisplay(t)
	first, second := openWatch(t, d, nil), openWatch(t, d, nil)
	first.Close()
	if !d.lets(second.Password()) {
		t.Error("the end of the first watch took the passwords of the second")
	}
}

func TestPasswordsCannotBeSet(t *testing.T) {
	d := newDisplay(t)
	d.fail = sandbox.Errorf(sandbox.CodeUnavailable, "write", "the guest is away")
	if _, err := OpenWatch(t.Context(), WatchOptions{Dial: d.dial, SetPasswords: d.set}); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("%v, want unavailable", err)
	}
	d.fail = nil
	fault := errors.New("no port")
	_, err := OpenWatch(t.Context(), WatchOptions{Dial: d.dial, SetPasswords: d.set, Listen: func() (net.Listener, error) { return nil, fault }})
	if !errors.Is(err, fault) || strings.HasPrefix(string(d.passwords), "nobody") {
		t.Errorf("%v, passwords %q", err, d.passwords)
	}
}
