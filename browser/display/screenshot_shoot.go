// This file takes one picture of one page in a session of its own.

package display

import (
	"context"
	"errors"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
)

// A screenshotOpener opens a clean profile in the browser of a scope; [Display]
// is one.
type screenshotOpener interface {
	Session(ctx context.Context, r Request, rights browser.Rights) (browser.Session, error)
}

// Take opens a page in a new clean profile, takes a picture of it, and removes
// the profile. The error is CodeExecution if the browser's answer is not the
// requested picture.
func Take(ctx context.Context, o screenshotOpener, r Request, target string, shot browser.Shot) (page browser.Page, picture browser.Picture, err error) {
	s, err := o.Session(ctx, r, browser.Rights{})
	if err != nil {
		return page, picture, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if page, err = s.Navigate(ctx, target); err != nil {
		return page, picture, err
	}
	if picture, err = s.Screenshot(ctx, shot); err != nil {
		return page, picture, err
	}
	return page, picture, Check(shot, picture)
}

// Check compares a picture with the request.
func Check(shot browser.Shot, p browser.Picture) error {
	want := "image/png"
	if shot.JPEG > 0 {
		want = "image/jpeg"
	}
	if p.MIME != want || len(p.Data) == 0 {
		return sandbox.Errorf(sandbox.CodeExecution, "screenshot", "the browser made no %s but %d bytes of %q", want, len(p.Data), p.MIME)
	}
	return nil
}
