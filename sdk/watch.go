package sdk

import (
	"context"
	"iter"
	"net/http"

	"github.com/bulkhead-dev/sandbox/server/api"
)

// A WatchEvent is what a watch reports: exactly one is set. Names of files come
// from inside of the sandbox and may hold anything.
type WatchEvent struct {
	Ready  *api.WatchReady // the first one: what happens from now on is reported
	Change *api.Change
	Note   *api.WatchNote // what the watch cannot see

	// Overflow says that changes were lost, because they came faster than the loop
	// took them. The watch goes on.
	Overflow *api.WatchNote
}

// A Watch says what to watch.
type Watch struct {
	Path string // the folder inside; empty is the workspace
	Flat bool   // the entries of the folder alone, and not of those below
}

// WatchFiles reports what changes in a folder. The sandbox is in use until the
// loop ends. A watch has no end of its own: an error is the last, also the end of
// ctx, and [sandbox.CodeNotFound] where the folder has gone.
func (c *API) WatchFiles(ctx context.Context, name string, w Watch) iter.Seq2[WatchEvent, error] {
	q := Request{Op: "watch files", Method: http.MethodGet, Path: one(name, "/watch"), Query: values("path", w.Path), Again: true}
	if w.Flat {
		q.Query = values("path", w.Path, "recursive", "false")
	}
	return func(yield func(WatchEvent, error) bool) {
		err := c.follow(ctx, q, func(e event) (last bool, err error) {
			var w WatchEvent
			switch e.name {
			case api.EventReady:
				w.Ready, err = reportedAt[api.WatchReady](q.Op, e)
			case api.EventChange:
				w.Change, err = reportedAt[api.Change](q.Op, e)
			case api.EventNote:
				w.Note, err = reportedAt[api.WatchNote](q.Op, e)
			case api.EventOverflow:
				w.Overflow, err = reportedAt[api.WatchNote](q.Op, e)
			default:
				return false, nil
			}
			return err == nil && !yield(w, nil), err
		})
		if err != nil {
			yield(WatchEvent{}, err)
		}
	}
}

func reportedAt[T any](op string, e event) (*T, error) {
	v, err := reported[T](op, e)
	return &v, err
}
