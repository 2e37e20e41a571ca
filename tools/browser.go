package tools

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

// browse does something with the page of the session, which stays from call to
// call until it is closed.
func (c *call) browse(ctx context.Context, in schema.Browser) (Answer, error) {
	d := schema.BrowserResult{Action: in.Action, Path: in.Path}
	if in.Action == "close" {
		open, err := c.tools.pages.End(ctx, c.session.Who)
		text := "the page is closed"
		if !open {
			text = "there was no page open"
		}
		return Answer{Text: text, Data: d}, err
	}
	var a Answer
	err := c.tools.o.Manager.Spend(ctx, func(ctx context.Context) error {
		return c.tools.pages.Use(ctx, c.session.Who, func(s browser.Session) (err error) {
			a, err = c.act(ctx, s, in, d)
			return err
		})
	})
	return a, err
}

// act carries out one action.
func (c *call) act(ctx context.Context, s browser.Session, in schema.Browser, d schema.BrowserResult) (Answer, error) {
	done := func(text string, err error) (Answer, error) {
		if err != nil {
			return Answer{}, err
		}
		return Answer{Text: text, Data: d}, nil
	}
	switch in.Action {
	case "navigate":
		p, err := s.Navigate(ctx, in.URL)
		d.URL, d.Status, d.MIME, d.Title, d.Redirects, d.Bytes = p.URL, p.Status, p.MIME, p.Title, p.Redirects, p.Bytes
		return done(opening(p), err)
	case "screenshot":
		return c.shoot(ctx, s, in, d)
	case "extract":
		return extracted(ctx, s, in, d)
	case "pdf":
		data, err := s.PDF(ctx)
		if err == nil {
			err = c.keep(ctx, in.Path, data)
		}
		d.Bytes = int64(len(data))
		return done(fmt.Sprintf("wrote %s, %d bytes", nameShow(in.Path), len(data)), err)
	case "wait":
		w := browser.Condition{Visible: in.Selector, Text: in.Text, Timeout: time.Duration(in.Timeout) * time.Second}
		if in.Gone {
			w.Visible, w.Gone = "", in.Selector
		}
		return done("it is so", s.Wait(ctx, w))
	case "click":
		return done("clicked", s.Click(ctx, in.Selector))
	case "type":
		return done("typed", s.Type(ctx, in.Selector, in.Text))
	case "upload":
		return done(fmt.Sprintf("gave %d files to the page", len(in.Files)), s.Upload(ctx, in.Selector, in.Files))
	case "download":
		got, err := s.Download(ctx, in.Selector, in.Path)
		d.Path, d.Bytes, d.URL = got.Path, got.Size, got.URL
		return done(fmt.Sprintf("downloaded %s, %d bytes", nameShow(got.Path), got.Size), err)
	}
	return Answer{}, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "browser", Field: "action", Message: "the action " + shown(in.Action) + " is not known here"}
}

// opening says where a navigation came to.
func opening(p browser.Page) string {
	rows := []string{nameShow(p.URL)}
	if p.Title != "" {
		rows = append(rows, "title: "+nameShow(p.Title))
	}
	if p.Status != 0 {
		rows = append(rows, fmt.Sprintf("status: %d", p.Status))
	}
	if len(p.Redirects) > 0 {
		rows = append(rows, fmt.Sprintf("redirected %d times", len(p.Redirects)))
	}
	return strings.Join(rows, "\n")
}

// shoot takes a picture of the page, for the agent or into a file.
func (c *call) shoot(ctx context.Context, s browser.Session, in schema.Browser, d schema.BrowserResult) (Answer, error) {
	shot, err := s.Screenshot(ctx, browser.Shot{Selector: in.Selector, Full: in.Full})
	if err != nil {
		return Answer{}, err
	}
	d.MIME, d.Width, d.Height, d.Bytes = shot.MIME, shot.Width, shot.Height, int64(len(shot.Data))
	a := Answer{Text: fmt.Sprintf("a picture of %d by %d pixels, %d bytes", shot.Width, shot.Height, len(shot.Data)), Data: d}
	if in.Path != "" {
		a.Text = "wrote " + nameShow(in.Path) + ": " + a.Text
		return a, c.keep(ctx, in.Path, shot.Data)
	}
	if len(shot.Data) > pictureMaxBytes {
		return Answer{}, &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "browser", Field: "path",
			Message: fmt.Sprintf("the picture has %d bytes, and at most %d are shown", len(shot.Data), pictureMaxBytes), Hint: "give a path to write it to, or the selector of a part"}
	}
	a.Pictures = []Picture{{MIME: shot.MIME, Data: shot.Data}}
	return a, nil
}

// keep writes what a page came to into a file of the workspace.
func (c *call) keep(ctx context.Context, path string, data []byte) error {
	return c.changing(ctx, func(f *fsbridge.Bridge) error {
		return f.Write(ctx, path, bytes.NewReader(data), sandbox.WriteOptions{})
	})
}

// extracted tells what is on the page.
func extracted(ctx context.Context, s browser.Session, in schema.Browser, d schema.BrowserResult) (Answer, error) {
	e := browser.Extraction{Selector: in.Selector, Text: len(in.Parts) == 0}
	for _, p := range in.Parts {
		switch p {
		case "text":
			e.Text = true
		case "links":
			e.Links = true
		case "tree":
			e.Tree = true
		}
	}
	got, err := s.Extract(ctx, e)
	if err != nil {
		return Answer{}, err
	}
	d.URL, d.Title, d.Text, d.Truncated = got.URL, got.Title, got.Text, got.Truncated
	rows := []string{nameShow(got.URL), "title: " + nameShow(got.Title), "", got.Text}
	for _, l := range got.Links {
		d.Links = append(d.Links, schema.BrowserLink(l))
		rows = append(rows, "- "+nameShow(l.Text)+" "+nameShow(l.URL))
	}
	for _, n := range got.Tree {
		d.Tree = append(d.Tree, schema.BrowserNode(n))
		row := strings.Repeat("  ", min(max(n.Depth, 0), 40)) + n.Role
		if n.Name != "" {
			row += " " + nameShow(n.Name)
		}
		if n.Value != "" {
			row += " = " + nameShow(n.Value)
		}
		rows = append(rows, row)
	}
	note := ""
	if got.Truncated {
		note = "there is more on the page; name a part of it with selector"
	}
	return Answer{Text: lines(strings.Join(rows, "\n"), remarks(note)), Data: d}, nil
}
