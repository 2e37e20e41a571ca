package resource

import (
	"context"
	"net/http"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// ofSessions returns the routes for the command line: they name the session
// instead of its sandbox, which need not exist, and take flags.
func (x *browsersResource) ofSessions() []Route {
	const base, tag = api.Prefix + "/browser/", "sessions"
	some := []int{409, 429, 501}
	return []Route{{
		ID: "startSessionBrowser", Method: http.MethodPost, Path: base + "start", Tag: tag, Role: token.Session,
		Summary: "Start the browser of the session, as sandbox browser start does",
		Request: api.Browse{}, Response: api.BrowserStarted{}, Errors: some, Timeout: starting, Do: x.startOf,
	}, {
		ID: "stopSessionBrowser", Method: http.MethodPost, Path: base + "stop", Tag: tag, Role: token.Session,
		Summary: "Remove the browser of the session with all profiles in it", Doc: "One that other sessions share takes a token for all of them.",
		Request: api.Browse{}, Response: api.BrowserStopped{}, Errors: some, Timeout: starting, Do: x.stopOf,
	}, {
		ID: "takePicture", Method: http.MethodPost, Path: base + "picture", Tag: tag, Role: token.Session,
		Summary: "Take a picture of a page in a clean profile",
		Doc:     "The page that the session has open stays as it is.",
		Request: api.Browse{}, Response: api.BrowserAnswer{}, Errors: append(some, 404), Timeout: starting, Do: x.pictureOf,
	}}
}

// asked reads which browser is meant. It refuses sessions without a sandbox, and
// agents whose tools include no browser.
func (x *browsersResource) asked(c *Call) (in api.Browse, req display.Request, scope sandbox.Scope, err error) {
	if in, err = Body[api.Browse](c); err != nil {
		return in, req, "", err
	}
	req.Who = c.Who
	if req.Flags, err = Layer(c, in.Flags); err != nil {
		return in, req, "", err
	}
	u, err := InsideWith(x.keeper, c.Who, req.Flags)
	if err != nil {
		return in, req, "", err
	}
	if tool := c.Tool("browser"); tool != "" {
		err = u.Tool(tool).Err()
	}
	return in, req, u.Scope, err
}

func (x *browsersResource) startOf(c *Call) (any, error) {
	_, req, _, err := x.asked(c)
	if err != nil {
		return nil, err
	}
	var s display.Started
	err = x.keeper.Spend(c.Context(), func(ctx context.Context) (err error) {
		s, err = x.displays.Start(ctx, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	return api.BrowserStarted(s), nil
}

func (x *browsersResource) stopOf(c *Call) (any, error) {
	in, req, scope, err := x.asked(c)
	if err == nil {
		err = Unshared(c, req.Who, scope, "")
	}
	if err != nil {
		return nil, err
	}
	removed, name, err := x.remove(c.Context(), req, in.Force)
	if err != nil {
		return nil, err
	}
	return api.BrowserStopped{Removed: removed, Name: name}, nil
}

func (x *browsersResource) pictureOf(c *Call) (any, error) {
	in, req, _, err := x.asked(c)
	if err != nil {
		return nil, err
	}
	if in.Target == "" {
		return nil, Invalid("target", "is missing")
	}
	release, err := c.Admitted(c.Context())
	if err != nil {
		return nil, err
	}
	defer release()
	var (
		page browser.Page
		p    browser.Picture
	)
	err = x.keeper.Spend(c.Context(), func(ctx context.Context) (err error) {
		page, p, err = display.Take(ctx, x.displays, req, in.Target, in.Shot())
		return err
	})
	if err != nil {
		return nil, err
	}
	return api.BrowserAnswer{Page: &page, MIME: p.MIME, Data: p.Data, Width: p.Width, Height: p.Height}, nil
}
