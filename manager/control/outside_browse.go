package control

import (
	"context"

	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant/operation"
	"github.com/bulkhead-dev/sandbox/manager"
)

// Browse drives browsers that the desk keeps. The desk is asked for when a
// browser is first needed, since it is made of the manager that this is for.
func Browse(keeper func() (*display.Desk, error)) manager.Browse {
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
