package orchestrator

import (
	"context"

	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant/operation"
	"github.com/bulkhead-dev/sandbox/manager"
)

// Browse drives the browsers of a browser display. It calls keeper when a
// browser is first needed, because the display is made from the manager that
// gets the result of Browse.
func Browse(keeper func() (*display.Display, error)) manager.Browse {
	return func(life context.Context, who config.Who) manager.Browsing {
		return operation.NewBrowseExecutor(life, func(ctx context.Context, r browser.Rights) (browser.Session, error) {
			d, err := keeper()
			if err != nil {
				return nil, err
			}
			return d.Session(ctx, display.Request{Who: who}, r)
		})
	}
}
