package browsers

import (
	"net/http"

	"github.com/bulkhead-dev/sandbox/browser/desk/order"
	"github.com/bulkhead-dev/sandbox/browser/desk/shoot"
	"github.com/bulkhead-dev/sandbox/daemon/api"
	answer "github.com/bulkhead-dev/sandbox/daemon/browsers/form"
	"github.com/bulkhead-dev/sandbox/daemon/conduct"
	"github.com/bulkhead-dev/sandbox/daemon/conduct/form"
	"github.com/bulkhead-dev/sandbox/daemon/named"
	"github.com/bulkhead-dev/sandbox/daemon/route"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// ofSessions are the routes that the command line needs: they name the session
// instead of its sandbox, which need not be there, and take flags.
func (x *Resource) ofSessions() []route.Route {
	const base, tag = api.Prefix + "/browser/", "conduct"
	some := []int{409, 429, 501}
	return []route.Route{{
		ID: "startSessionBrowser", Method: http.MethodPost, Path: base + "start", Tag: tag, Role: token.Session,
		Summary: "Bring the browser of the session up, as sandbox browser start does",
		Request: form.Browse{}, Response: form.BrowserStarted{}, Errors: some, Timeout: starting, Do: x.startOf,
	}, {
		ID: "stopSessionBrowser", Method: http.MethodPost, Path: base + "stop", Tag: tag, Role: token.Session,
		Summary: "Remove the browser of the session with all profiles in it",
		Request: form.Browse{}, Response: form.BrowserStopped{}, Errors: some, Timeout: starting, Do: x.stopOf,
	}, {
		ID: "takePicture", Method: http.MethodPost, Path: base + "picture", Tag: tag, Role: token.Session,
		Summary: "Take a picture of a page in a clean profile, as sandbox browser screenshot does",
		Doc:     "The page that the session has open stays as it is.",
		Request: form.Browse{}, Response: answer.BrowserAnswer{}, Errors: append(some, 404), Timeout: starting, Do: x.pictureOf,
	}}
}

// asked reads whose browser is meant. Nothing is done for a session without a
// wall, nor for an agent whose tools have no browser.
func (x *Resource) asked(c *route.Call) (form.Browse, order.Request, error) {
	in, err := route.Body[form.Browse](c)
	if err != nil {
		return in, order.Request{}, err
	}
	req := order.Request{Who: c.Who}
	if req.Flags, err = conduct.Layer(c, in.Flags); err != nil {
		return in, req, err
	}
	u, err := named.InsideWith(x.keeper, c.Who, req.Flags)
	if err != nil {
		return in, req, err
	}
	if tool := c.Tool("browser"); tool != "" {
		err = u.Tool(tool).Err()
	}
	return in, req, err
}

func (x *Resource) startOf(c *route.Call) (any, error) {
	_, req, err := x.asked(c)
	if err != nil {
		return nil, err
	}
	s, err := x.desk.Start(c.Context(), req)
	if err != nil {
		return nil, err
	}
	return form.BrowserStarted(s), nil
}

func (x *Resource) stopOf(c *route.Call) (any, error) {
	in, req, err := x.asked(c)
	if err != nil {
		return nil, err
	}
	removed, name, err := x.remove(c.Context(), req, in.Force)
	if err != nil {
		return nil, err
	}
	return form.BrowserStopped{Removed: removed, Name: name}, nil
}

func (x *Resource) pictureOf(c *route.Call) (any, error) {
	in, req, err := x.asked(c)
	if err != nil {
		return nil, err
	}
	if in.Target == "" {
		return nil, route.Invalid("target", "is missing")
	}
	release, err := c.Admitted(c.Context())
	if err != nil {
		return nil, err
	}
	defer release()
	page, p, err := shoot.Take(c.Context(), x.desk, req, in.Target, in.Shot())
	if err != nil {
		return nil, err
	}
	return answer.BrowserAnswer{Page: &page, MIME: p.MIME, Data: p.Data, Width: p.Width, Height: p.Height}, nil
}
