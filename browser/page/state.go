package page

import (
	"context"
	"slices"

	"github.com/chromedp/cdproto/cdp"
)

// A state is what is known of the main document. Slices in it are replaced,
// never changed.
type state struct {
	url    string       // that was loaded
	loader cdp.LoaderID // of the document
	loaded bool         // with everything in it
	status int64        // of its answer
	mime   string       // of its answer
	answer cdp.LoaderID // whose status that is
	rule   string       // by which our way out answered in the host's place, or empty

	asked     string         // the last address of a main document
	redirects []string       // passed on the way to the last of them
	bytes     int64          // received for the last of them
	refusal   error          // why a main document was not let be loaded, since the last navigation by us
	latest    error          // the last of all refusals
	refusals  int            // how many there were
	requests  int            // that the page go elsewhere, by itself
	asks      int            // for main documents
	permitted []cdp.LoaderID // of documents that were let load and have not come yet
	within    int            // moves within a document
	failed    cdp.LoaderID   // the last main document that did not come
	expected  string         // a file that we are opening
	mine      bool           // what we opened last is a file: the browser alone cannot make it one
	local     bool           // the main document is a file of the workspace, and one led to it

	changed chan struct{} // closed when something else is so
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

// begin notes that a main document is asked for.
func (s *state) begin() {
	s.redirects = nil
	s.bytes = 0
}

// pass notes a hop of a redirect, away from the address asked for last.
func (s *state) pass() {
	s.redirects = append(slices.Clip(s.redirects), cut(s.asked, maxURL))
}
