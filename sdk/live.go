package sdk

import (
	"context"
	"iter"
	"net/http"

	"github.com/bulkhead-dev/sandbox/server/api"
)

// A LiveEvent is what a daemon reports of what goes on: exactly one is set.
type LiveEvent struct {
	Sandboxes *api.LiveSandboxes
	Figures   *api.LiveFigures
	Approvals *api.ApprovalList
	Records   *api.LiveRecords
}

// FollowEvents reports what goes on: all sandboxes first, and then what changes. all
// is for admins and means every tenant's. It has no end of its own: an error is the
// last, also the end of ctx.
func (c *API) FollowEvents(ctx context.Context, all bool) iter.Seq2[LiveEvent, error] {
	q := Request{Op: "follow events", Method: http.MethodGet, Path: api.Prefix + "/events", Again: true}
	if all {
		q.Query = values("all", "true")
	}
	return func(yield func(LiveEvent, error) bool) {
		err := c.follow(ctx, q, func(e event) (last bool, err error) {
			var l LiveEvent
			switch e.name {
			case api.EventSandboxes:
				l.Sandboxes, err = reportedAt[api.LiveSandboxes](q.Op, e)
			case api.EventFigures:
				l.Figures, err = reportedAt[api.LiveFigures](q.Op, e)
			case api.EventApprovals:
				l.Approvals, err = reportedAt[api.ApprovalList](q.Op, e)
			case api.EventRecords:
				l.Records, err = reportedAt[api.LiveRecords](q.Op, e)
			default:
				return false, nil
			}
			return err == nil && !yield(l, nil), err
		})
		if err != nil {
			yield(LiveEvent{}, err)
		}
	}
}
