package resource

import (
	"context"
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// An action is one operation on a page, with its required and its optional
// fields.
type action struct {
	needs, takes []string
	do           func(ctx context.Context, s browser.Session, in api.DriveBrowser, out *api.BrowserAnswer) error
}

func actions() map[string]action {
	return map[string]action{
		"navigate": {needs: []string{"url"}, do: func(ctx context.Context, s browser.Session, in api.DriveBrowser, out *api.BrowserAnswer) error {
			p, err := s.Navigate(ctx, in.URL)
			out.Page = &p
			return err
		}},
		"screenshot": {takes: []string{"selector", "full", "width", "height", "jpeg"}, do: func(ctx context.Context, s browser.Session, in api.DriveBrowser, out *api.BrowserAnswer) error {
			p, err := s.Screenshot(ctx, browser.Shot{Selector: in.Selector, Full: in.Full, Width: in.Width, Height: in.Height, JPEG: in.JPEG})
			out.MIME, out.Data, out.Width, out.Height = p.MIME, p.Data, p.Width, p.Height
			return err
		}},
		"extract": {takes: []string{"selector", "parts", "maxText", "maxLinks", "maxNodes"}, do: extract},
		"pdf": {do: func(ctx context.Context, s browser.Session, _ api.DriveBrowser, out *api.BrowserAnswer) (err error) {
			out.MIME = "application/pdf"
			out.Data, err = s.PDF(ctx)
			return err
		}},
		"wait": {takes: []string{"selector", "text", "gone", "timeoutSeconds"}, do: wait},
		"click": {needs: []string{"selector"}, do: func(ctx context.Context, s browser.Session, in api.DriveBrowser, _ *api.BrowserAnswer) error {
			return s.Click(ctx, in.Selector)
		}},
		"type": {needs: []string{"selector", "text"}, do: func(ctx context.Context, s browser.Session, in api.DriveBrowser, _ *api.BrowserAnswer) error {
			return s.Type(ctx, in.Selector, in.Text)
		}},
		"upload": {needs: []string{"selector", "files"}, do: func(ctx context.Context, s browser.Session, in api.DriveBrowser, _ *api.BrowserAnswer) error {
			return s.Upload(ctx, in.Selector, in.Files)
		}},
		"download": {needs: []string{"selector"}, takes: []string{"path"}, do: func(ctx context.Context, s browser.Session, in api.DriveBrowser, out *api.BrowserAnswer) error {
			d, err := s.Download(ctx, in.Selector, in.Path)
			out.Download, out.SHA256 = &d, d.Sum
			return err
		}},
	}
}

func extract(ctx context.Context, s browser.Session, in api.DriveBrowser, out *api.BrowserAnswer) error {
	all := func(part string) bool { return slices.Contains(in.Parts, part) }
	e := browser.Extraction{
		Text: len(in.Parts) == 0 || all("text"), Links: all("links"), Tree: all("tree"), Selector: in.Selector,
		MaxText: in.MaxText, MaxLinks: in.MaxLinks, MaxNodes: in.MaxNodes,
	}
	c, err := s.Extract(ctx, e)
	out.Content = &c
	return err
}

func wait(ctx context.Context, s browser.Session, in api.DriveBrowser, _ *api.BrowserAnswer) error {
	c := browser.Condition{Text: in.Text, Timeout: time.Duration(in.TimeoutSeconds) * time.Second}
	switch {
	case (in.Selector == "") == (in.Text == ""):
		return Invalid("selector", "or text has to be there, and not both")
	case in.Gone && in.Selector == "":
		return Invalid("gone", "goes with selector")
	case in.Gone:
		c.Gone = in.Selector
	default:
		c.Visible = in.Selector
	}
	return s.Wait(ctx, c)
}

// check checks the fields of a request against those that the action takes.
func (a action) check(in api.DriveBrowser) error {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"url", in.URL != ""}, {"selector", in.Selector != ""}, {"text", in.Text != ""}, {"gone", in.Gone}, {"full", in.Full},
		{"parts", len(in.Parts) > 0}, {"files", len(in.Files) > 0}, {"path", in.Path != ""}, {"timeoutSeconds", in.TimeoutSeconds != 0},
		{"width", in.Width != 0}, {"height", in.Height != 0}, {"jpeg", in.JPEG != 0},
		{"maxText", in.MaxText != 0}, {"maxLinks", in.MaxLinks != 0}, {"maxNodes", in.MaxNodes != 0},
	} {
		needed := slices.Contains(a.needs, f.name)
		if f.set && !needed && !slices.Contains(a.takes, f.name) {
			return Invalid(f.name, "does not go with this action")
		}
		if needed && !f.set {
			return Invalid(f.name, "is missing")
		}
	}
	return nil
}

func (x *browsersResource) drive(c *Call) (any, error) {
	in, err := Body[api.DriveBrowser](c)
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
	name := c.Path("action")
	if name == "close" {
		if err := (action{}).check(in); err != nil {
			return nil, err
		}
		_, err := x.pages.End(c.Context(), at.Who)
		return api.BrowserAnswer{}, err
	}
	do, ok := actions()[name]
	if !ok {
		return nil, Hide("action", name)
	}
	if err := do.check(in); err != nil {
		return nil, err
	}
	release, err := c.Admitted(c.Context())
	if err != nil {
		return nil, err
	}
	defer release()
	var out api.BrowserAnswer
	err = x.keeper.Spend(c.Context(), func(ctx context.Context) error {
		return x.pages.Use(ctx, at.Who, func(s browser.Session) error { return do.do(ctx, s, in, &out) })
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
