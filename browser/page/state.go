package page

import (
	"context"
	"slices"

	"github.com/chromedp/cdproto/cdp"
)

// A state is the known state of the main document. Slices in it are replaced,
// never modified.
type state struct {
	url    string       // that was loaded
	loader cdp.LoaderID // of the document
	loaded bool         // with everything in it
	status int64        // of its answer
	mime   string       // of its answer
	answer cdp.LoaderID // whose status that is
	rule   string       // rule of an answer from the egress proxy in the host's place, or ""

	asked     string         // the last address of a main document
	redirects []string       // passed on the way to the last of them
	bytes     int64          // received for the last of them
	refusal   error          // why a main document was refused, since the last Navigate
	latest    error          // the last refusal
	refusals  int            // number of refusals
	requests  int            // navigations started by the page itself
	asks      int            // for main documents
	permitted []cdp.LoaderID // permitted documents that are not loaded yet
	within    int            // moves within a document
	failed    cdp.LoaderID   // the last main document that failed to load
	expected  string         // the file being opened
	mine      bool           // Navigate opened a file last; the browser alone cannot set this
	local     bool           // the main document is a file of the workspace, and one led to it

	changed chan struct{} // closed when the state changes
}

// watch waits until the state satisfies enough.
func (t *tab) watch(ctx context.Context, enough func(state) bool) error {
	for {
		s := t.look()
		if enough(s) {
			return nil
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-t.ctx.Done():
			return context.Cause(t.ctx)
		}
	}
}

// begin notes that a main document is requested.
func (s *state) begin() {
	s.redirects = nil
	s.bytes = 0
}

// pass notes a redirect from the last requested URL.
func (s *state) pass() {
	s.redirects = append(slices.Clip(s.redirects), cut(s.asked, maxURL))
}
