package page

import (
	"bytes"
	"context"
	"image"
	_ "image/jpeg" // format of a picture with a quality
	_ "image/png"  // format of a picture without one
	"math"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"

	"github.com/bulkhead-dev/sandbox/browser"
)

// The window, in CSS pixels, which are pixels: a page is never scaled.
const (
	defaultWidth  = 1280
	defaultHeight = 800
	maxSide       = 16384 // of a picture
	rateWindow    = time.Minute
	pixelBytes    = 6 // of a message, for one pixel: four, written as text
)

// Screenshot implements [browser.Reader].
func (s *session) Screenshot(ctx context.Context, o browser.Shot) (browser.Picture, error) {
	if o.Width == 0 {
		o.Width = defaultWidth
	}
	if o.Height == 0 {
		o.Height = defaultHeight
	}
	switch {
	case o.Width < 1 || o.Width > maxSide || o.Height < 1 || o.Height > maxSide:
		return browser.Picture{}, invalid("width", "a window has sides from 1 to "+count(maxSide)+" pixels")
	case o.JPEG < 0 || o.JPEG > 100:
		return browser.Picture{}, invalid("jpeg", "the quality is none from 1 to 100")
	case o.Selector != "" && o.Full:
		return browser.Picture{}, invalid("selector", "a picture shows an element or the whole page, not both")
	}
	if err := s.affordable(float64(o.Width), float64(o.Height)); err != nil {
		return browser.Picture{}, err
	}
	var out browser.Picture
	err := s.act(ctx, s.settings.Limits.Navigation, func(ctx context.Context, t *tab) error {
		if err := s.countShot(); err != nil {
			return err
		}
		var err error
		out, err = t.shoot(ctx, o)
		return err
	})
	return out, err
}

// affordable returns an error if a picture of that size is beyond the limit.
func (s *session) affordable(width, height float64) error {
	limit := s.settings.Limits.ScreenshotPixels
	// NaN compares as neither more nor less than the limit.
	if pixels := math.Ceil(width) * math.Ceil(height); !(pixels <= float64(limit)) || width > maxSide || height > maxSide {
		return beyond("screenshotPixels", "the picture would have more than "+count(limit)+" pixels, or a side of more than "+count(maxSide))
	}
	return nil
}

// countShot enforces the rate of pictures.
func (s *session) countShot() error {
	now := s.now()
	recent := s.shots[:0]
	for _, at := range s.shots {
		if age := now.Sub(at); age >= 0 && age < rateWindow {
			recent = append(recent, at)
		}
	}
	s.shots = recent
	if limit := s.settings.Limits.ScreenshotsPerMinute; len(s.shots) >= limit {
		return beyond("screenshotsPerMinute", "the session has taken "+count(limit)+" pictures within a minute")
	}
	s.shots = append(s.shots, now)
	return nil
}

// window sets the size of the page's window.
func (t *tab) window(ctx context.Context, width, height int) error {
	if t.width == width && t.height == height {
		return nil
	}
	_, err := call(ctx, t, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: int64(width), Height: int64(height), DeviceScaleFactor: 1,
	})
	if err == nil {
		t.width, t.height = width, height
	}
	return err
}

// shoot takes a picture.
func (t *tab) shoot(ctx context.Context, o browser.Shot) (browser.Picture, error) {
	if err := t.window(ctx, o.Width, o.Height); err != nil {
		return browser.Picture{}, err
	}
	clip, err := t.clip(ctx, o)
	if err != nil {
		return browser.Picture{}, err
	}
	p := page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng, OptimizeForSpeed: new(true)}
	if o.JPEG > 0 {
		p.Format, p.Quality = page.CaptureScreenshotFormatJpeg, new(int64(o.JPEG))
	}
	if clip != nil {
		if err := t.session.affordable(clip.Width, clip.Height); err != nil {
			return browser.Picture{}, err
		}
		p.Clip, p.CaptureBeyondViewport = clip, new(true)
	}
	defer t.session.wire.expect(t.session.settings.Limits.ScreenshotPixels * pixelBytes)()
	taken, err := call(ctx, t, page.CaptureScreenshot, p)
	if err != nil {
		return browser.Picture{}, err
	}
	size, form, err := image.DecodeConfig(bytes.NewReader(taken.Data))
	if err != nil || form != string(p.Format) {
		return browser.Picture{}, failed("the browser gives no picture of the form that was asked for")
	}
	if err := t.session.affordable(float64(size.Width), float64(size.Height)); err != nil {
		return browser.Picture{}, err
	}
	return browser.Picture{Data: taken.Data, MIME: "image/" + form, Width: size.Width, Height: size.Height}, nil
}

// clip returns the region that a picture shows; nil is the window.
func (t *tab) clip(ctx context.Context, o browser.Shot) (*page.Viewport, error) {
	switch {
	case o.Full:
		size, err := call(ctx, t, page.GetLayoutMetrics, cdp.Empty{})
		if err != nil {
			return nil, err
		}
		if size.CSSContentSize == nil {
			return nil, failed("the page has no size")
		}
		return whole(0, 0, max(size.CSSContentSize.Width, float64(o.Width)), max(size.CSSContentSize.Height, float64(o.Height))), nil
	case o.Selector != "":
		return t.around(ctx, o.Selector)
	}
	return nil, nil
}

// around returns the box of an element, in page coordinates.
func (t *tab) around(ctx context.Context, selector string) (*page.Viewport, error) {
	el, err := t.element(ctx, selector)
	if err != nil {
		return nil, err
	}
	if _, err := call(ctx, t, dom.ScrollIntoViewIfNeeded, dom.ScrollIntoViewIfNeededParams{ObjectID: el}); err != nil {
		return nil, failed("the element is not shown")
	}
	var box struct{ X, Y, W, H float64 }
	if err := t.on(ctx, el, &box, "", `
		const r = Element.prototype.getBoundingClientRect.call(this);
		return {X: r.x + scrollX, Y: r.y + scrollY, W: r.width, H: r.height}`); err != nil {
		return nil, err
	}
	if !(box.W >= 1 && box.H >= 1) {
		return nil, failed("the element is not shown")
	}
	return whole(box.X, box.Y, box.W, box.H), nil
}

// whole returns the smallest box of whole pixels around another.
func whole(x, y, w, h float64) *page.Viewport {
	left, top := max(0, math.Floor(x)), max(0, math.Floor(y))
	return &page.Viewport{X: left, Y: top, Width: math.Ceil(x + w - left), Height: math.Ceil(y + h - top), Scale: 1}
}
