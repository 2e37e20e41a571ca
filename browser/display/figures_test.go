package display_test

import (
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/browser"
)

// Limits for a busy machine; the benchmarks measure an idle one.
const (
	readyWithin = 12 * time.Second
	shotWithin  = 5 * time.Second
)

// TestFigures checks the time until a new browser answers, from an existing
// image, and the time for a picture of a page of the workspace.
func TestFigures(t *testing.T) {
	r := on(t, "", "")
	ctx := patient(t)
	best := time.Hour // of three: a busy engine may be slow once
	for range 3 {
		s, err := r.Start(ctx, of("a"))
		must(t, err)
		t.Logf("ready after %v", s.Ready.Round(time.Millisecond))
		if best = min(best, s.Ready); !s.Created {
			t.Error("it was there before")
		}
		if _, _, err := r.Stop(ctx, of("a"), false); err != nil {
			t.Fatal(err)
		}
	}
	if best > readyWithin {
		t.Errorf("ready after %v at best", best)
	}
	r.workspacePage(of("a"), "page.html", shop)
	s, err := r.Session(ctx, of("a"), browser.Rights{})
	must(t, err)
	defer s.Close()
	best = time.Hour
	for range 3 {
		begin := time.Now()
		_, err := s.Navigate(ctx, "page.html")
		must(t, err)
		p, err := s.Screenshot(ctx, browser.Shot{Width: 640, Height: 480})
		must(t, err)
		took := time.Since(begin)
		t.Logf("page and picture after %v", took.Round(time.Millisecond))
		best = min(best, took)
		checkPicture(t, p.Data, 640, 480)
	}
	if best > shotWithin {
		t.Errorf("page and picture took %v at best", best)
	}
}
