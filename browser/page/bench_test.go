package page

import (
	"testing"

	"github.com/bulkhead-dev/sandbox/browser"
)

// BenchmarkScreenshot measures a picture of a page of the workspace that is
// opened for it.
func BenchmarkScreenshot(b *testing.B) {
	p := newPlace(b, nil)
	p.settings.Limits.Navigations = 1 << 30
	p.settings.Limits.ScreenshotsPerMinute = 1 << 30
	p.file(b, "x.html", `<title>x</title><style>body { font-family: sans-serif }</style><h1>Report</h1><p>text<table border=1><tr><td>1<td>2</table>`)
	s := p.open(b)
	for b.Loop() {
		visited(b, s, "x.html")
		if _, err := s.Screenshot(b.Context(), browser.Shot{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen measures a session from its beginning to its end.
func BenchmarkOpen(b *testing.B) {
	p := newPlace(b, nil)
	for b.Loop() {
		s, err := Open(b.Context(), p, browser.Rights{}, Options{})
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}
