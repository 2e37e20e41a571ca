package resource_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// A desk is an in-memory [Displays] that records its calls and their sessions.
type displays struct {
	mu     sync.Mutex
	asked  []string
	open   int // sessions
	lives  []*life
	watch  *life // the last one, which the next ends
	closed bool  // the settings allow no display
	gone   bool  // the browser of the next action
	flags  *config.SandboxSettings
	screen net.Conn // the VNC server's end of the last view

	supersedes bool // a watch ends the one before, as those of browsers do
}

func (d *displays) note(what string, r display.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, what+" "+r.Who.Tenant+"/"+r.Who.Session)
}

func (d *displays) Start(_ context.Context, r display.Request) (display.Started, error) {
	d.note("start", r)
	d.flags = r.Flags
	return display.Started{Name: "sbx-browser-x"}, nil
}

func (d *displays) Serve(_ context.Context, r display.Request) (display.Served, error) {
	d.note("serve", r)
	return display.Served{Life: d.life(), WebSocketDebuggerURL: "ws://127.0.0.1:1/secret"}, nil
}

func (d *displays) Watch(_ context.Context, r display.Request, control bool) (display.Watched, error) {
	d.note("watch", r)
	if d.closed || control {
		return display.Watched{}, &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "watch", Field: "browser.enableNoVnc", Message: "the settings let nobody watch"}
	}
	l := d.life()
	if d.supersedes && d.watch != nil {
		d.watch.Close()
	}
	d.watch = l
	return display.Watched{Life: l, URL: "http://127.0.0.1:1/once", Expires: time.Now()}, nil // the link, when it was used
}

func (d *displays) View(_ context.Context, r display.Request) (display.Viewed, error) {
	d.note("view", r)
	d.flags = r.Flags
	if d.closed && (r.Flags == nil || r.Flags.Browser == nil) {
		return display.Viewed{}, &sandbox.Error{Code: sandbox.CodeValidation, Op: "watch", Field: "browser.enableNoVnc", Message: "this browser has no display"}
	}
	near, far := net.Pipe()
	l := d.life()
	if d.supersedes && d.watch != nil {
		d.watch.Close()
	}
	d.watch, d.screen = l, far
	return display.Viewed{Life: l, Conn: near, Password: "p4ssw0rd"}, nil
}

func (d *displays) Stop(_ context.Context, r display.Request, force bool) (bool, string, error) {
	d.note("stop", r)
	return true, "sbx-browser-x", nil
}

func (d *displays) Session(_ context.Context, r display.Request, rights browser.Rights) (browser.Session, error) {
	d.note("session", r)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open++
	return &session{d: d}, nil
}

func (d *displays) life() *life {
	l := &life{done: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lives = append(d.lives, l)
	return l
}

func (d *displays) sessions() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open
}

type life struct {
	once sync.Once
	done chan struct{}
}

func (l *life) Done() <-chan struct{} { return l.done }
func (l *life) Err() error            { return nil }
func (l *life) Close() error          { l.once.Do(func() { close(l.done) }); return nil }

// A session records the address of its page.
type session struct {
	browser.Session
	d  *displays
	at string
}

func (s *session) Navigate(_ context.Context, address string) (browser.Page, error) {
	if s.d.gone {
		s.d.gone = false
		return browser.Page{}, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "navigate", Message: "the browser is gone"}
	}
	if strings.Contains(address, "denied") {
		return browser.Page{}, &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "navigate", Message: "no rule allows it"}
	}
	s.at = address
	return browser.Page{URL: address, Status: 200, Title: "A title"}, nil
}

func (s *session) Extract(_ context.Context, e browser.Extraction) (browser.Content, error) {
	return browser.Content{URL: s.at, Text: "text"}, nil
}

func (s *session) Screenshot(context.Context, browser.Shot) (browser.Picture, error) {
	return browser.Picture{Data: []byte("\x89PNG"), MIME: "image/png", Width: 2, Height: 1}, nil
}

func (s *session) Type(context.Context, string, string) error { return nil }

func (s *session) Close() error {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.d.open--
	return nil
}

func newRig(t *testing.T) (*served.Rig, *displays, string) { return newRigWith(t, "") }

func newRigWith(t *testing.T, settings string) (*served.Rig, *displays, string) {
	d := &displays{}
	r := served.New(t, served.Options{Settings: settings, Resources: func(r *served.Rig) []resource.Resource {
		x := resource.NewBrowsers(d, r.Manager, r.Log)
		t.Cleanup(func() {
			if err := x.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		return []resource.Resource{x}
	}})
	return r, d, "/v1/sandboxes/" + r.Ready("acme", "s1") + "/browser"
}

func TestPagesStay(t *testing.T) {
	t.Parallel()
	r, d, base := newRig(t)
	drive := func(action, body string) api.BrowserAnswer {
		t.Helper()
		return served.JSON[api.BrowserAnswer](t, r.Want(200, "acme", "POST", base+"/"+action, body))
	}
	if a := drive("navigate", `{"url":"https://one.test/"}`); a.Page == nil || a.Page.Status != 200 {
		t.Errorf("%+v", a)
	}
	if a := drive("extract", `{"parts":["links"]}`); a.Content == nil || a.Content.URL != "https://one.test/" {
		t.Errorf("%+v", a)
	}
	if a := drive("screenshot", `{"full":true}`); a.MIME != "image/png" || !bytes.Equal(a.Data, []byte("\x89PNG")) || a.Width != 2 {
		t.Errorf("%+v", a)
	}
	drive("type", `{"selector":"#q","text":"words"}`)
	if n := d.sessions(); n != 1 {
		t.Errorf("%d sessions", n)
	}
	r.Want(403, "acme", "POST", base+"/navigate", `{"url":"https://denied.test/"}`)
	drive("close", "")
	if a := drive("extract", ""); a.Content.URL != "" || d.sessions() != 1 {
		t.Errorf("%+v, %d sessions", a.Content, d.sessions())
	}
	d.gone = true
	r.Want(503, "acme", "POST", base+"/navigate", `{"url":"https://one.test/"}`)
	drive("navigate", `{"url":"https://two.test/"}`)
	r.Want(204, "acme", "DELETE", base, "")
	if n := d.sessions(); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

func TestStart(t *testing.T) {
	t.Parallel()
	r, d, base := newRig(t)
	b := served.JSON[api.Browser](t, r.Want(200, "acme", "POST", base, `{"watch":true,"cdp":true}`))
	if b.Name != "sbx-browser-x" || b.WatchURL == "" || b.CDPURL == "" {
		t.Errorf("%+v", b)
	}
	if b := served.JSON[api.Browser](t, r.Want(200, "acme", "POST", base, "")); b.WatchURL != "" || b.CDPURL != "" {
		t.Errorf("%+v", b)
	}
	r.Want(200, "acme", "POST", base, `{"watch":true,"cdp":true}`)
	ways := slices.Clone(d.lives)
	r.Want(429, "acme", "POST", base, `{"watch":true}`) // gives up what it had begun
	for i, l := range ways {
		select {
		case <-l.done:
			t.Errorf("way %d has ended with its link", i)
		default:
		}
	}
	r.Want(204, "acme", "DELETE", base+"?force", "")
	for i, l := range d.lives {
		select {
		case <-l.done:
		default:
			t.Errorf("way %d is open", i)
		}
	}
	d.closed = true
	r.Want(403, "acme", "POST", base, `{"watch":true}`)
	if l := served.JSON[api.BrowserList](t, r.Want(200, "acme", "GET", base, "")); len(l.Items) != 0 {
		t.Errorf("%+v", l)
	}
	for _, a := range d.asked {
		if !strings.HasSuffix(a, " acme/s1") {
			t.Error(a)
		}
	}
}

// TestAllWaysOrNone holds that of two connections that are requested together
// neither stays open, or counts, when the other fails.
func TestAllWaysOrNone(t *testing.T) {
	t.Parallel()
	r, d, base := newRig(t)
	r.Want(200, "acme", "POST", base, `{"watch":true,"cdp":true}`)
	r.Want(200, "acme", "POST", base, `{"watch":true}`)
	r.Want(429, "acme", "POST", base, `{"watch":true,"cdp":true}`)
	for i, l := range d.lives {
		select {
		case <-l.done:
			if i < 3 {
				t.Errorf("way %d of another call has ended", i)
			}
		default:
			if i >= 3 {
				t.Errorf("way %d is open, and nobody was told of it", i)
			}
		}
	}
	testenv.Until(t, "there is room for the fourth way", func() bool {
		return r.Ask("acme", "POST", base, `{"cdp":true}`).Status == 200
	})
}

// TestWhatHasEndedTakesNoRoom holds that a session with the maximum of
// connections gets a new display in the place of the one that this ends.
func TestWhatHasEndedTakesNoRoom(t *testing.T) {
	t.Parallel()
	r, d, base := newRig(t)
	d.supersedes = true
	for range 3 {
		r.Want(200, "acme", "POST", base, `{"cdp":true}`)
	}
	for range 20 {
		r.Want(200, "acme", "POST", base, `{"watch":true}`)
	}
	r.Want(429, "acme", "POST", base, `{"cdp":true}`)
}

// TestWaysEndWithTheirToken holds that a connection to the browser ends with the
// token that asked for it, though the connection itself does not present that
// token.
func TestWaysEndWithTheirToken(t *testing.T) {
	t.Parallel()
	r, d, base := newRig(t)
	lost, id, err := r.Tokens.Create(token.Claims{Role: token.Tenant, Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	short, _, err := r.Tokens.Create(token.Claims{Role: token.Session, Tenant: "acme", Session: "s1", Expires: time.Now().Add(5 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	r.Want(200, lost, "POST", base, `{"cdp":true}`)
	r.Want(200, lost, "POST", base, `{"watch":true}`)
	r.Want(200, "acme", "POST", base, `{"cdp":true}`)
	if _, err := r.Tokens.Revoke(id); err != nil {
		t.Fatal(err)
	}
	for i, l := range d.lives[:2] {
		select {
		case <-l.done:
		case <-time.After(30 * time.Second):
			t.Errorf("way %d outlives its token, which was revoked", i)
		}
	}
	if answer := r.Ask(short, "POST", base, `{"cdp":true}`); answer.Status == 200 { // else it has expired already
		select {
		case <-d.lives[3].done:
		case <-time.After(30 * time.Second):
			t.Error("a way outlives its token, which has expired")
		}
	}
	select {
	case <-d.lives[2].done:
		t.Error("a way ends with the token of another")
	default:
	}
}

// TestSharedBrowser holds that a session cannot remove a browser that all
// sessions of an agent share, and can drive it.
func TestSharedBrowser(t *testing.T) {
	t.Parallel()
	r, d, base := newRigWith(t, `{"agents": {"defaults": {"sandbox": {"provider": "local", "scope": "agent", "tools": {"alsoAllow": ["browser"]}}}}}`)
	r.Want(200, "acme", "POST", base, `{"cdp":true}`)
	r.Want(200, "acme-s1", "POST", base+"/navigate", `{"url":"https://one.test/"}`)
	r.Want(403, "acme-s2", "DELETE", base+"?force", "")
	r.Want(403, "acme-s2", "POST", "/v1/browser/stop", `{"force":true}`)
	if slices.ContainsFunc(d.asked, func(a string) bool { return strings.HasPrefix(a, "stop") }) {
		t.Errorf("the browser of the others is stopped: %v", d.asked)
	}
	select {
	case <-d.lives[0].done:
		t.Error("the way of another session is closed")
	default:
	}
	r.Want(200, "acme-s1", "POST", base+"/close", "")
	r.Want(200, "acme", "POST", "/v1/browser/stop", `{"force":true}`)
	r.Want(204, "acme", "DELETE", base+"?force", "")
}

// A poor keeper has no payer to charge.
type poor struct{ resource.BrowsersKeeper }

func (poor) Spend(context.Context, func(context.Context) error, ...budget.Kind) error {
	return &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "spend", Message: "the budget is used up"}
}

// TestWhatIsDoneIsPaidFor holds that no operation runs in a browser whose usage
// cannot be charged, and that such a browser can still be stopped.
func TestWhatIsDoneIsPaidFor(t *testing.T) {
	t.Parallel()
	d := &displays{}
	r := served.New(t, served.Options{Resources: func(r *served.Rig) []resource.Resource {
		x := resource.NewBrowsers(d, poor{BrowsersKeeper: r.Manager}, r.Log)
		t.Cleanup(func() {
			if err := x.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		return []resource.Resource{x}
	}})
	base := "/v1/sandboxes/" + r.Ready("acme", "s1") + "/browser"
	for path, body := range map[string]string{base: "{}", base + "/navigate": `{"url":"https://one.test/"}`, "/v1/browser/start": "{}", "/v1/browser/picture": `{"target":"x.html"}`} {
		r.Want(429, "acme", "POST", path, body)
	}
	if len(d.asked) > 0 {
		t.Errorf("it is done: %v", d.asked)
	}
	r.Want(200, "acme", "POST", "/v1/browser/stop", "{}")
}

// TestPagesLeaveRoom holds that a tenant with many sessions leaves pages to
// others.
func TestPagesLeaveRoom(t *testing.T) {
	t.Parallel()
	r, _, _ := newRig(t)
	open := func(tenant, session string) served.Answer {
		return r.Ask(tenant, "POST", "/v1/sandboxes/"+r.Ready(tenant, session)+"/browser/navigate", `{"url":"https://one.test/"}`)
	}
	n := 0
	for ; open("acme", fmt.Sprint(n)).Status == 200; n++ {
		if n > 64 {
			t.Fatal("a tenant opens pages without end")
		}
	}
	if got := open("evil", "a"); n == 0 || got.Status != 200 {
		t.Errorf("after %d pages of one tenant another's is answered %d %s", n, got.Status, got.Body)
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	r, d, base := newRig(t)
	for _, tt := range []struct {
		as, method, path, body string
		status                 int
	}{
		{"evil", "GET", "", "", 404}, {"acme-s2", "GET", "", "", 404}, {"evil", "POST", "", "{}", 404}, {"evil", "DELETE", "", "", 404},
		{"evil", "POST", "/navigate", `{"url":"https://one.test/"}`, 404}, {"nobody", "POST", "/navigate", `{"url":"x"}`, 401},
		{"acme", "POST", "/eval", `{}`, 404}, {"acme", "POST", "/navigate", `{}`, 422}, {"acme", "POST", "/navigate", `{"url":"x","full":true}`, 422},
		{"acme", "POST", "/click", `{"selector":"a","width":1}`, 422}, {"acme", "POST", "/screenshot", `{"maxText":1}`, 422}, {"acme", "POST", "/screenshot", `{"jpeg":101}`, 422},
		{"acme", "POST", "/wait", `{}`, 422}, {"acme", "POST", "/wait", `{"selector":"a","text":"b"}`, 422}, {"acme", "POST", "/wait", `{"text":"b","gone":true}`, 422},
		{"acme", "POST", "/extract", `{"parts":["html"]}`, 422}, {"acme", "POST", "/close", `{"url":"x"}`, 422}, {"acme", "POST", "/click", `{"selector":1}`, 422},
		{"acme", "POST", "", `{"control":true}`, 422},
	} {
		r.Want(tt.status, tt.as, tt.method, base+tt.path, tt.body)
	}
	if n := d.sessions(); n > 1 {
		t.Errorf("%d sessions", n)
	}
	var none struct{}
	if err := json.Unmarshal([]byte(r.Want(200, "acme", "POST", base+"/close", "").Body), &none); err != nil {
		t.Error(err)
	}
}

// TestOfSessions holds that the command line uses the browser of a session that
// has no sandbox, and which callers may change its settings.
func TestOfSessions(t *testing.T) {
	t.Parallel()
	r, d, _ := newRig(t)
	post := func(status int, as, session, what, body string) string {
		t.Helper()
		return r.Want(status, as, "POST", "/v1/browser/"+what, body, "Sandbox-Session", session).Body
	}
	if s := post(200, "acme", "new", "start", ""); !strings.Contains(s, `"name":"sbx-browser-x"`) {
		t.Error(s)
	}
	if s := post(200, "acme", "new", "stop", `{"force":true}`); !strings.Contains(s, `"removed":true`) {
		t.Error(s)
	}
	var a api.BrowserAnswer
	if err := json.Unmarshal([]byte(post(200, "acme", "new", "picture", `{"target":"x.html"}`)), &a); err != nil || a.Page == nil || a.Page.URL != "x.html" || string(a.Data) != "\x89PNG" {
		t.Errorf("%+v, %v", a, err)
	}
	if n := d.sessions(); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
	want := []string{"start acme/new", "stop acme/new", "session acme/new"}
	if !slices.Equal(d.asked, want) {
		t.Errorf("%v, want %v", d.asked, want)
	}
	post(422, "acme", "new", "picture", `{}`)
	post(403, "acme", "new", "picture", `{"target":"https://denied.test/"}`)
	const flags = `{"flags":{"settings":{"network":{"allowedDomains":["a.test"]}}}}`
	post(403, "acme", "new", "start", flags)
	post(403, "acme-s1", "s1", "stop", flags)
	post(200, "", "new", "start", flags)
	if f := d.flags; f == nil || f.Network == nil || len(f.Network.AllowedDomains) != 1 {
		t.Errorf("%+v", f)
	}
	post(403, "acme-s1", "s2", "start", "")
	if s := r.Want(403, "acme", "POST", "/v1/browser/start", "", "Sandbox-Tenant", "evil").Body; !strings.Contains(s, "PERMISSION_DENY") {
		t.Error(s)
	}
}

// TestDisplay holds that the display of a browser comes over a WebSocket with its
// password, that admins get one where the settings have none, and that it ends with
// either side and with a later one.
func TestDisplay(t *testing.T) {
	t.Parallel()
	r, d, base := newRig(t)
	d.supersedes = true
	ctx, done := context.WithTimeout(t.Context(), time.Minute) // only what fails lasts so long
	defer done()
	show := func(as string) *websocket.Conn {
		t.Helper()
		conn, res, err := websocket.Dial(ctx, "ws://daemon"+base+"/display", &websocket.DialOptions{
			HTTPClient: &http.Client{Transport: &http.Transport{DialContext: r.Dial}}, HTTPHeader: http.Header{"Authorization": {"Bearer " + r.Secret(as)}, "Sandbox-Tenant": {"acme"}},
		})
		if err != nil {
			if res == nil {
				t.Fatal(err)
			}
			return nil
		}
		t.Cleanup(func() { conn.CloseNow() })
		kind, text, err := conn.Read(ctx)
		var start api.DisplayStart
		if err != nil || kind != websocket.MessageText || json.Unmarshal(text, &start) != nil || start.Password != "p4ssw0rd" {
			t.Fatalf("%v %q, %v", kind, text, err)
		}
		return conn
	}
	ended := func(conn *websocket.Conn) {
		t.Helper()
		for {
			if _, _, err := conn.Read(ctx); err != nil {
				if ctx.Err() != nil {
					t.Error("the socket stays open")
				}
				return
			}
		}
	}
	first := show("acme")
	if d.flags != nil {
		t.Errorf("a tenant has chosen settings: %+v", d.flags)
	}
	if _, err := io.WriteString(d.screen, "RFB 003.008\n"); err != nil {
		t.Fatal(err)
	}
	if kind, data, err := first.Read(ctx); err != nil || kind != websocket.MessageBinary || string(data) != "RFB 003.008\n" {
		t.Errorf("%v %q, %v", kind, data, err)
	}
	if err := first.Write(ctx, websocket.MessageBinary, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(d.screen, got); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	second := show("acme")
	ended(first)
	d.screen.Close() // the VNC server has gone
	ended(second)
	third, screen := show("acme"), d.screen
	third.CloseNow()
	if _, err := io.ReadAll(screen); err != nil { // ends with the client
		t.Error(err)
	}
	<-d.watch.done
	d.closed = true
	if conn := show("acme"); conn != nil {
		t.Error("a tenant has a display that the settings do not give")
	}
	if conn := show("root"); conn == nil || d.flags == nil || *d.flags.Browser.Headless || !*d.flags.Browser.EnableNoVNC {
		t.Errorf("an admin has none: %+v", d.flags)
	}
	r.Want(204, "acme", "DELETE", base+"?force", "")
	<-d.watch.done
}
