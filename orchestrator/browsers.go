//go:build !sandbox_front

package orchestrator

import (
	"sync/atomic"

	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/manager"
)

// browsers is the browser display of a Orchestrator, made on first use.
type browsers struct {
	open func() (*display.Display, error)
	used atomic.Bool
}

func (h *Orchestrator) newDisplay() (*display.Display, error) {
	m, err := h.Manager()
	if err != nil {
		return nil, err
	}
	return display.New(manager.BrowserBackend(m), h.o.Log), nil
}

// Browsers returns the display that drives the browsers of sessions, the same
// one each time, because one display owns what a browser serves. It ends with
// the Orchestrator.
func (h *Orchestrator) Browsers() (*display.Display, error) {
	h.browsers.used.Store(true)
	return h.browsers.open()
}

// close ends every way into a browser.
func (b *browsers) close() error {
	if !b.used.Load() {
		return nil
	}
	d, err := b.open()
	if err != nil {
		return nil // the first use reported the error
	}
	return d.Close()
}
