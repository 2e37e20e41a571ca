//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image/png"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
)

// page is what is looked at.
const page = `<!doctype html><title>Report</title><style>td { border: 1px solid } tr:nth-child(odd) { background: #ddf }</style>
<h1>Tests passed</h1><table><tr><td>one<td>1<tr><td>two<td>2<tr><td>three<td>3</table>`

// withBrowsers makes an operation of browsers, which needs the browser image.
// ways are those of the operation.
func (s *Session) withBrowsers(make func(context.Context, *rigBrowsers) (operation, error), ways ...string) func(context.Context) (operation, error) {
	return func(ctx context.Context) (operation, error) {
		b, err := s.Rig.OpenBrowsers(ctx)
		why, err := unsupported(err)
		if err != nil {
			return operation{}, err
		}
		if why == "" {
			return make(ctx, b)
		}
		op := operation{}
		for _, w := range ways {
			op.ways = append(op.ways, way{name: w, lacks: why})
		}
		return op, nil
	}
}

// browserStart makes the container of a browser and waits until it answers,
// beside the engine and Chromium alone. Both are removed after the clock has
// stopped.
func (s *Session) browserStart(_ context.Context, b *rigBrowsers) (operation, error) {
	req := browserOf("start")
	name := s.Rig.Spec.Name + "-browser"
	ours := func(ctx context.Context) error {
		started, err := b.Start(ctx, req)
		if err == nil && (!started.Created || !started.Sandbox) {
			err = wrong("the browser was started as %+v", started)
		}
		return err
	}
	stop := func(ctx context.Context) error {
		_, _, err := b.Stop(ctx, req, false)
		return err
	}
	plain := func(ctx context.Context) error {
		addr, err := b.Plain(ctx, name)
		if err != nil {
			return errors.Join(err, s.Rig.Remove(ctx, name))
		}
		_, err = debugger(ctx, "http://"+addr+"/")
		return err
	}
	remove := func(ctx context.Context) error { return s.Rig.Remove(ctx, name) }
	return operation{rounds: 10, cold: true, settle: 500 * time.Millisecond, ways: []way{
		{name: WayEngine, turn: 1, take: timed(plain, remove)},
		{name: WaySocket, turn: 1, take: timed(ours, stop)},
	}, done: func() error { return sweep(remove, stop) }}, nil
}

// browserShot opens a page of the workspace in a session that is there, and
// takes its picture, or takes one of the page that is open.
func (s *Session) browserShot(open bool) func(context.Context, *rigBrowsers) (operation, error) {
	return func(ctx context.Context, b *rigBrowsers) (operation, error) {
		req := browserOf("shot")
		stop := func(ctx context.Context) error {
			_, _, err := b.Stop(ctx, req, true)
			return err
		}
		if err := b.Page(ctx, req, "page.html", page); err != nil {
			return operation{}, err
		}
		view, err := b.Session(ctx, req, browser.Rights{})
		if err != nil {
			return operation{}, errors.Join(err, sweep(stop))
		}
		done := func() error { return errors.Join(view.Close(), sweep(stop)) }
		if _, err := view.Navigate(ctx, "page.html"); err != nil {
			return operation{}, errors.Join(err, done())
		}
		var last browser.Picture
		shoot := func(ctx context.Context) error {
			if open {
				if _, err := view.Navigate(ctx, "page.html"); err != nil {
					return err
				}
			}
			var err error
			last, err = view.Screenshot(ctx, browser.Shot{})
			return err
		}
		look := func(context.Context) error {
			img, err := png.Decode(bytes.NewReader(last.Data))
			if err == nil && img.Bounds().Dx() != last.Width {
				err = wrong("the picture is %v", img.Bounds())
			}
			return err
		}
		return operation{rounds: 10, done: done, ways: []way{{name: WaySocket, turn: 4, take: timed(shoot, look)}}}, nil
	}
}

// browserTrip is one command of the DevTools protocol and its answer, through
// a bridge and its guest, beside one at a port of the host.
func (s *Session) browserTrip(ctx context.Context, b *rigBrowsers) (operation, error) {
	req, name := browserOf("trip"), s.Rig.Spec.Name+"-browser"
	var conns []*websocket.Conn
	done := func() error {
		for _, c := range conns {
			_ = c.CloseNow() // fails if the peer has closed it
		}
		return sweep(func(ctx context.Context) error { return s.Rig.Remove(ctx, name) }, func(ctx context.Context) error {
			_, _, err := b.Stop(ctx, req, true)
			return err
		})
	}
	served, err := b.Serve(ctx, req)
	if err != nil {
		return operation{}, errors.Join(err, done())
	}
	addr, err := b.Plain(ctx, name)
	if err != nil {
		return operation{}, errors.Join(err, done())
	}
	op := operation{rounds: 30, done: func() error { return errors.Join(served.Close(), done()) }}
	for _, w := range []struct{ name, url string }{{WayEngine, "http://" + addr + "/"}, {WaySocket, served.HTTPURL}} {
		at, err := debugger(ctx, w.url)
		if err != nil {
			return op, errors.Join(err, op.done())
		}
		c, _, err := websocket.Dial(ctx, at, nil)
		if err != nil {
			return op, errors.Join(err, op.done())
		}
		conns = append(conns, c)
		op.ways = append(op.ways, way{name: w.name, turn: 20, take: timed(func(ctx context.Context) error { return trip(ctx, c) }, nil)})
	}
	return op, nil
}

// trip asks a browser for its version.
func trip(ctx context.Context, c *websocket.Conn) error {
	if err := c.Write(ctx, websocket.MessageText, []byte(`{"id":1,"method":"Browser.getVersion"}`)); err != nil {
		return err
	}
	_, text, err := c.Read(ctx)
	if err == nil && !strings.Contains(string(text), `"product"`) {
		err = wrong("the browser answers %q", text)
	}
	return err
}

// debugger waits until a browser answers below base, and returns the address
// of its WebSocket.
func debugger(ctx context.Context, base string) (string, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"json/version", nil)
		if err != nil {
			return "", err
		}
		if resp, err := client.Do(req); err == nil {
			var said struct {
				URL string `json:"webSocketDebuggerUrl"`
			}
			err = json.NewDecoder(resp.Body).Decode(&said)
			resp.Body.Close()
			if err == nil && said.URL != "" {
				return said.URL, nil
			}
		}
		if err := pause(ctx, 15*time.Millisecond); err != nil {
			return "", err
		}
	}
}

// sweep takes away what an operation leaves, whatever has ended it.
func sweep(all ...func(context.Context) error) error {
	ctx, done := context.WithTimeout(context.Background(), sampleWithin)
	defer done()
	var errs []error
	for _, f := range all {
		if err := f(ctx); !sandbox.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
