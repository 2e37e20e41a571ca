// This file holds the daemon's resource for the browser of a session: it starts
// and stops the browser, drives one page that stays open from call to call, and
// lets a person or a program connect where the settings allow that.

package resource

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/stream"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// A Displays keeps the browsers of scopes; *display.Displays is one.
type Displays interface {
	Start(ctx context.Context, r display.Request) (display.Started, error)
	Serve(ctx context.Context, r display.Request) (display.Served, error)
	Watch(ctx context.Context, r display.Request, control bool) (display.Watched, error)
	View(ctx context.Context, r display.Request) (display.Viewed, error)
	Session(ctx context.Context, r display.Request, rights browser.Rights) (browser.Session, error)
	Stop(ctx context.Context, r display.Request, force bool) (removed bool, name string, err error)
}

// A BrowsersKeeper reports on browsers; *manager.Manager is one.
type BrowsersKeeper interface {
	Finder
	Find(ctx context.Context, tenant, name, provider string) (manager.Row, error)
	BrowserName(who config.Who, flags *config.SandboxSettings) (name string, p sandbox.Provider, err error)
	Spend(ctx context.Context, fn func(context.Context) error, kinds ...budget.Kind) error
	Unpaid(ctx context.Context) error
}

// A browsersResource has the routes, and the open pages and connections. It has
// to be closed.
type browsersResource struct {
	displays Displays
	keeper   BrowsersKeeper
	log      logrus.FieldLogger
	pages    *display.Tabs

	mu     sync.Mutex
	lives  map[config.Who][]display.Life
	closed bool
}

// NewBrowsers returns the resource.
func NewBrowsers(d Displays, k BrowsersKeeper, log logrus.FieldLogger) *browsersResource {
	x := &browsersResource{displays: d, keeper: k, log: log, lives: map[config.Who][]display.Life{}}
	x.pages = display.NewTabs(func(ctx context.Context, who config.Who) (browser.Session, error) {
		return d.Session(ctx, display.Request{Who: who}, browser.Rights{Write: true})
	})
	return x
}

// Close ends every page and connection. Browsers stay. It waits for running
// operations on pages, at most until ctx ends.
func (x *browsersResource) Close(ctx context.Context) error {
	x.mu.Lock()
	x.closed = true
	lives := x.lives
	x.lives = map[config.Who][]display.Life{}
	x.mu.Unlock()
	for _, l := range lives {
		x.end(l)
	}
	return x.pages.Close(ctx)
}

func (x *browsersResource) end(lives []display.Life) {
	for _, l := range lives {
		if err := l.Close(); err != nil {
			x.log.WithError(err).Warn("a way into a browser is not closed in order")
		}
	}
}

const (
	base = api.Prefix + "/sandboxes/{name}/browser"
	// starting is how long a browser may take to start.
	starting = 3 * time.Minute
	// watching is how long a display and a connection of a program stay open.
	watching = time.Hour
	// maxLives bounds the connections to its browser that a session has open.
	maxLives = 4
)

// Routes implements [Resource].
func (x *browsersResource) Routes() []Route {
	return append([]Route{{
		ID: "listBrowsers", Method: http.MethodGet, Path: base, Tag: "browser", Role: token.Session,
		Summary: "List the browsers of the session", Response: api.BrowserList{}, Errors: []int{404}, Do: x.list,
	}, {
		ID: "startBrowser", Method: http.MethodPost, Path: base, Tag: "browser", Role: token.Session,
		Summary: "Start the browser", Doc: "It answers when the browser does. The addresses that are asked for are good for an hour, not longer than the caller's token, at the machine of the server, and hold secrets.",
		Request: api.StartBrowser{}, Response: api.Browser{}, Errors: []int{404, 409, 429, 501}, Timeout: starting, Do: x.start,
	}, {
		ID: "stopBrowser", Method: http.MethodDelete, Path: base, Tag: "browser", Role: token.Session,
		Summary: "Remove the browser with all profiles in it", Doc: "The workspace stays. That there is none is no failure. One that other sessions share takes a token for all of them.",
		Query:  []Param{{Name: "force", Type: Boolean, Doc: "Also when it is in use"}},
		Errors: []int{404, 409, 501}, Timeout: starting, Do: x.stop,
	}, {
		ID: "viewBrowser", Method: http.MethodGet, Path: base + "/display", Tag: "browser", Role: token.Session, Socket: true, Timeout: Endless,
		Summary: "Show the display over a WebSocket", Doc: "It starts the browser. A text frame has the password of the display, and binary frames carry the protocol of VNC (RFC 6143). " +
			"The display takes no input. A browser has one viewer: a later one ends the earlier. Without a display in the settings it takes an admin.",
		Errors: []int{404, 409, 429, 501}, Do: x.view,
	}, {
		ID: "driveBrowser", Method: http.MethodPost, Path: base + "/{action}", Tag: "browser", Role: token.Session,
		Summary: "Act on the page of the session", Doc: "The actions are navigate, screenshot, extract, pdf, wait, click, type, upload, download and close. The page stays from call to call, until close or ten minutes without a call.",
		Request: api.DriveBrowser{}, Response: api.BrowserAnswer{}, Errors: []int{404, 409, 429, 501}, Timeout: starting, Do: x.drive,
	}}, x.ofSessions()...)
}

func (x *browsersResource) list(c *Call) (any, error) {
	at, err := Find(c, x.keeper)
	if err != nil {
		return nil, err
	}
	out := api.BrowserList{Items: []api.Browser{}}
	b, err := x.described(c.Context(), at.Who)
	switch {
	case sandbox.IsNotFound(err), sandbox.CodeOf(err) == sandbox.CodeUnsupported:
	case err != nil:
		return nil, err
	default:
		out.Items = append(out.Items, b)
	}
	return out, nil
}

// described returns the state of the browser of a session's scope.
func (x *browsersResource) described(ctx context.Context, who config.Who) (api.Browser, error) {
	name, _, err := x.keeper.BrowserName(who, nil)
	if err != nil {
		return api.Browser{}, err
	}
	row, err := x.keeper.Find(ctx, who.Tenant, name, "")
	if err != nil {
		return api.Browser{}, err
	}
	return api.Browser{Name: row.Name, Status: string(row.Status), CreatedAt: row.CreatedAt.UTC()}, nil
}

func (x *browsersResource) start(c *Call) (any, error) {
	in, err := Body[api.StartBrowser](c)
	if err != nil {
		return nil, err
	}
	at, err := Sandboxed(c, x.keeper)
	if err != nil {
		return nil, err
	}
	if tool := c.Tool("browser"); tool != "" {
		if err := at.Usable.Tool(tool).Err(); err != nil {
			return nil, err
		}
	}
	req := display.Request{Who: at.Who, For: watching}
	if in.Display {
		req.Flags = displayed(c)
	}
	if in.Watch || in.CDP { // usage of the browser through it cannot be metered
		if err := x.keeper.Unpaid(c.Context()); err != nil {
			return nil, err
		}
	}
	var s display.Started
	err = x.keeper.Spend(c.Context(), func(ctx context.Context) (err error) {
		s, err = x.displays.Start(ctx, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	if in.Display && s.Headless {
		return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: "browser", Field: "browser.headless", Resource: s.Name, Message: "this browser has no display",
			Hint: "set browser.headless to false and browser.enableNoVnc to true"}
	}
	out := api.Browser{Name: s.Name, Status: string(sandbox.StatusRunning)}
	if b, err := x.described(c.Context(), at.Who); err == nil {
		out = b
	}
	if err := x.letIn(c, req, in, &out); err != nil {
		return nil, err
	}
	return out, nil
}

// letIn opens the requested connections, all or none.
func (x *browsersResource) letIn(c *Call, req display.Request, in api.StartBrowser, out *api.Browser) (err error) {
	var opened []display.Life
	defer func() {
		if err != nil {
			x.end(opened)
		}
	}()
	open := func(l display.Life) error {
		opened = append(opened, l)
		return x.keep(c, req.Who, l)
	}
	if in.Watch {
		w, err := x.displays.Watch(c.Context(), req, false)
		if err != nil {
			return err
		}
		if err := open(w.Life); err != nil {
			return err
		}
		out.WatchURL = w.URL
	}
	if in.CDP {
		s, err := x.displays.Serve(c.Context(), req)
		if err != nil {
			return err
		}
		if err := open(s.Life); err != nil {
			return err
		}
		out.CDPURL = s.WebSocketDebuggerURL
	}
	return nil
}

// displayed returns the settings of a browser with a display for callers that may
// choose settings of a single call, and nil for others.
func displayed(c *Call) *config.SandboxSettings {
	if !c.Admin() {
		return nil
	}
	return &config.SandboxSettings{Browser: &config.BrowserSettings{Headless: new(false), EnableNoVNC: new(true)}}
}

// view shows the display to the caller until one of the two ends.
func (x *browsersResource) view(c *Call) (any, error) {
	at, err := Sandboxed(c, x.keeper)
	if err != nil {
		return nil, err
	}
	if tool := c.Tool("browser"); tool != "" {
		if err := at.Usable.Tool(tool).Err(); err != nil {
			return nil, err
		}
	}
	if err := x.keeper.Unpaid(c.Context()); err != nil { // what the browser uses while it is shown cannot be metered
		return nil, err
	}
	req := display.Request{Who: at.Who, Flags: displayed(c), For: watching}
	ctx, done := context.WithTimeout(c.Context(), starting)
	defer done()
	v, err := x.displays.View(ctx, req)
	if err != nil {
		return nil, err
	}
	defer v.Conn.Close()
	if err := x.keep(c, req.Who, v.Life); err != nil {
		x.end([]display.Life{v.Life})
		return nil, err
	}
	defer x.end([]display.Life{v.Life})
	conn, err := websocket.Accept(c.Writer, c.Request, nil)
	if err != nil {
		return Sent{}, nil // it has answered
	}
	first, err := json.Marshal(api.DisplayStart{Password: v.Password})
	if err != nil {
		return Sent{}, conn.CloseNow()
	}
	shown, stop := context.WithCancel(c.Context())
	defer stop()
	go func() {
		select {
		case <-v.Done():
			stop()
		case <-shown.Done():
		}
	}()
	if conn.Write(shown, websocket.MessageText, first) == nil {
		stream.Relay(shown, conn, untilEnd{v.Conn, stop})
	}
	return Sent{}, conn.CloseNow()
}

// untilEnd is a connection that calls end when nothing more can be read from it: VNC
// has no use for one direction alone.
type untilEnd struct {
	net.Conn
	end func()
}

// Read implements [io.Reader].
func (u untilEnd) Read(p []byte) (int, error) {
	n, err := u.Conn.Read(p)
	if err != nil {
		u.end()
	}
	return n, err
}

// keep holds a connection to the browser open until it ends, its time is over,
// it is closed, or the token that asked for it is no longer valid: the
// connection needs no secret other than its own. Where the session has too many
// it returns an error, and the caller closes the connection.
func (x *browsersResource) keep(c *Call, who config.Who, l display.Life) error {
	x.mu.Lock()
	open := slices.DeleteFunc(x.lives[who], over) // a later watch has ended the earlier
	full := x.closed || len(open) >= maxLives
	if !full {
		open = append(open, l)
	}
	if len(open) > 0 {
		x.lives[who] = open
	}
	x.mu.Unlock()
	if full {
		return &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "browser", Message: "the session has too many ways into its browser open", Hint: "stop the browser, or wait until one ends"}
	}
	go func() {
		ctx, done := context.WithTimeout(context.Background(), watching)
		defer done()
		ctx, stop := c.Caller.Watch(ctx)
		defer stop()
		select {
		case <-l.Done():
		case <-ctx.Done():
			x.end([]display.Life{l})
		}
		x.forget(who, l)
	}()
	return nil
}

// over reports whether a connection has ended.
func over(l display.Life) bool {
	select {
	case <-l.Done():
		return true
	default:
		return false
	}
}

func (x *browsersResource) forget(who config.Who, l display.Life) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var left []display.Life
	for _, other := range x.lives[who] {
		if other != l {
			left = append(left, other)
		}
	}
	if x.lives[who] = left; len(left) == 0 {
		delete(x.lives, who)
	}
}

func (x *browsersResource) stop(c *Call) (any, error) {
	at, err := Own(c, x.keeper)
	if err != nil {
		return nil, err
	}
	_, _, err = x.remove(c.Context(), display.Request{Who: at.Who}, c.True("force"))
	return nil, err
}

// remove ends the page and the connections of a session, and removes its
// browser.
func (x *browsersResource) remove(ctx context.Context, r display.Request, force bool) (removed bool, name string, err error) {
	if _, err := x.pages.End(ctx, r.Who); err != nil && ctx.Err() != nil {
		return false, "", err // any other failure ends with the browser
	}
	x.mu.Lock()
	lives := x.lives[r.Who]
	delete(x.lives, r.Who)
	x.mu.Unlock()
	x.end(lives)
	return x.displays.Stop(ctx, r, force)
}
