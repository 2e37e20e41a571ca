package sdk

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

// Browsers lists the browsers of the session that the sandbox name belongs to.
func (c *API) Browsers(ctx context.Context, name string) (api.BrowserList, error) {
	return get[api.BrowserList](ctx, c, "list browsers", one(name, "/browser"), nil)
}

// StartBrowser brings the browser up and returns when it answers. Addresses
// that are asked for are those of the daemon's machine, and hold secrets.
func (c *API) StartBrowser(ctx context.Context, name string, r api.StartBrowser) (api.Browser, error) {
	return post[api.Browser](ctx, c, "start browser", one(name, "/browser"), r)
}

// viewing bounds the start of a browser that is to be shown.
const viewing = 3 * time.Minute

// ViewBrowser starts the browser with a display where it has none yet, and connects to
// its VNC server, which takes no input: the connection carries the protocol of RFC 6143
// with the password that is returned. ctx bounds the connecting and not the
// connection. A browser has one viewer: a later one ends the earlier.
func (c *API) ViewBrowser(ctx context.Context, name string) (conn net.Conn, password string, err error) {
	ctx, cancel := context.WithTimeout(ctx, viewing)
	defer cancel()
	ws, _, err := c.Socket(ctx, "view browser", one(name, "/browser/display"), nil)
	if err != nil {
		return nil, "", err
	}
	var first api.DisplayStart
	kind, data, err := ws.Read(ctx)
	if err == nil && kind == websocket.MessageText {
		err = json.Unmarshal(data, &first)
	}
	if err != nil {
		_ = ws.CloseNow()
		return nil, "", sandbox.Errorf(sandbox.CodeUnavailable, "view browser", "the display has ended before it was shown: %w", err)
	}
	return stream.NewConn(ws, inner("127.0.0.1:vnc")), first.Password, nil
}

// StopBrowser removes the browser with all profiles in it; with force also one
// that is in use. That there is none is no failure.
func (c *API) StopBrowser(ctx context.Context, name string, force bool) error {
	q := url.Values{"force": {strconv.FormatBool(force)}}
	return c.Call(ctx, Request{Op: "stop browser", Method: http.MethodDelete, Path: one(name, "/browser"), Query: q}, nil)
}

// DriveBrowser does something with the page of the session, which stays from
// call to call; [API.Page] has a method for each action.
func (c *API) DriveBrowser(ctx context.Context, name, action string, r api.DriveBrowser) (api.BrowserAnswer, error) {
	return post[api.BrowserAnswer](ctx, c, "browser "+action, one(name, "/browser/"+url.PathEscape(action)), r)
}

// A Page is the one page that a session has behind a daemon. It is brought up
// with its browser when it is used first, is shared by everybody who drives the
// session's browser through the daemon, and stays until Close, or until no client
// has used it for ten minutes. It is safe for concurrent use, and calls take
// turns.
type Page struct {
	c    *API
	name string
}

var _ browser.Session = (*Page)(nil)

// Page is that of the session that the sandbox name belongs to. Nothing is asked
// yet.
func (c *API) Page(name string) *Page { return &Page{c, name} }

// do drives the page and holds that what has to be answered is there.
func (p *Page) do(ctx context.Context, action string, r api.DriveBrowser, answered func(api.BrowserAnswer) bool) (api.BrowserAnswer, error) {
	a, err := p.c.DriveBrowser(ctx, p.name, action, r)
	if err == nil && answered != nil && !answered(a) {
		err = &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "browser " + action, Message: "the daemon has not sent the outcome"}
	}
	return a, err
}

// Navigate implements browser.Reader.
func (p *Page) Navigate(ctx context.Context, address string) (browser.Page, error) {
	a, err := p.do(ctx, "navigate", api.DriveBrowser{URL: address}, func(a api.BrowserAnswer) bool { return a.Page != nil })
	if err != nil {
		return browser.Page{}, err
	}
	return *a.Page, nil
}

// Screenshot implements browser.Reader.
func (p *Page) Screenshot(ctx context.Context, o browser.Shot) (browser.Picture, error) {
	r := api.DriveBrowser{Selector: o.Selector, Full: o.Full, Width: o.Width, Height: o.Height, JPEG: o.JPEG}
	a, err := p.do(ctx, "screenshot", r, func(a api.BrowserAnswer) bool { return len(a.Data) > 0 })
	return browser.Picture{Data: a.Data, MIME: a.MIME, Width: a.Width, Height: a.Height}, err
}

// Extract implements browser.Reader.
func (p *Page) Extract(ctx context.Context, o browser.Extraction) (browser.Content, error) {
	r := api.DriveBrowser{Selector: o.Selector, MaxText: o.MaxText, MaxLinks: o.MaxLinks, MaxNodes: o.MaxNodes}
	for _, part := range []struct {
		name   string
		wanted bool
	}{{"text", o.Text}, {"links", o.Links}, {"tree", o.Tree}} {
		if part.wanted {
			r.Parts = append(r.Parts, part.name)
		}
	}
	a, err := p.do(ctx, "extract", r, func(a api.BrowserAnswer) bool { return a.Content != nil })
	if err != nil {
		return browser.Content{}, err
	}
	return *a.Content, nil
}

// PDF implements browser.Reader.
func (p *Page) PDF(ctx context.Context) ([]byte, error) {
	a, err := p.do(ctx, "pdf", api.DriveBrowser{}, func(a api.BrowserAnswer) bool { return len(a.Data) > 0 })
	return a.Data, err
}

// Wait implements browser.Reader. A Timeout is rounded up to seconds.
func (p *Page) Wait(ctx context.Context, w browser.Condition) error {
	r := api.DriveBrowser{Selector: w.Visible, Text: w.Text, TimeoutSeconds: int((w.Timeout + time.Second - 1) / time.Second)}
	if w.Gone != "" {
		if w.Visible != "" {
			return &sandbox.Error{Code: sandbox.CodeValidation, Op: "browser wait", Field: "gone", Message: "only one thing can be waited for"}
		}
		r.Selector, r.Gone = w.Gone, true
	}
	_, err := p.do(ctx, "wait", r, nil)
	return err
}

// Click implements browser.Writer.
func (p *Page) Click(ctx context.Context, selector string) error {
	_, err := p.do(ctx, "click", api.DriveBrowser{Selector: selector}, nil)
	return err
}

// Type implements browser.Writer.
func (p *Page) Type(ctx context.Context, selector, text string) error {
	_, err := p.do(ctx, "type", api.DriveBrowser{Selector: selector, Text: text}, nil)
	return err
}

// Upload implements browser.Writer.
func (p *Page) Upload(ctx context.Context, selector string, files []string) error {
	_, err := p.do(ctx, "upload", api.DriveBrowser{Selector: selector, Files: files}, nil)
	return err
}

// Download implements browser.Writer.
func (p *Page) Download(ctx context.Context, selector, folder string) (browser.Download, error) {
	a, err := p.do(ctx, "download", api.DriveBrowser{Selector: selector, Path: folder}, func(a api.BrowserAnswer) bool { return a.Download != nil })
	if err != nil {
		return browser.Download{}, err
	}
	d := *a.Download
	d.Sum = a.SHA256
	return d, nil
}

// Close ends the page and forgets its profile, for everybody. The browser
// stays.
func (p *Page) Close() error {
	_, err := p.do(context.Background(), "close", api.DriveBrowser{}, nil) // within the Timeout of the client
	return err
}
