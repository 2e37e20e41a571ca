package resource

import (
	"context"
	"net/http"

	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// watchMost is how many watches of one sandbox may run at a time.
const watchMost = 8

// A WatchResource serves watches.
type WatchResource struct {
	lender filesLender
	o      WatchOptions
	seats  *watchSeats
	looks  keylock.Turns // by sandbox
}

// NewResource returns the resource.
func NewWatchResource(l filesLender, o WatchOptions) *WatchResource {
	return &WatchResource{lender: l, o: o, seats: newSeats(watchMost, "watch", "watches of", "end one of them, or watch a folder that holds both")}
}

// Routes implements [Resource].
func (x *WatchResource) Routes() []Route {
	return takingSettings([]Route{{
		ID: "watchFiles", Method: http.MethodGet, Path: api.Prefix + "/sandboxes/{name}/watch", Tag: "files", Role: token.Session,
		Summary: "Watch what changes below a path",
		Doc: "It is looked for changes about once a second, so what comes and goes in between is not told, and a file is modified when its size or time has changed. " +
			"The sandbox is in use while it is watched. Links are not followed.",
		Query:  []Param{{Name: "path", Length: 4095, Doc: "Inside; relative ones are in the workspace, which it is without"}},
		Errors: []int{404, 403, 429, 503, 504}, Stream: true, Follows: true, Timeout: Endless,
		Events: []Event{
			{Name: api.EventReady, Data: api.WatchReady{}, Doc: "What happens from now on is told"},
			{Name: api.EventChange, Data: api.Change{}, Doc: "One change"},
			{Name: api.EventNote, Data: api.WatchNote{}, Doc: "What the watch cannot see"},
			{Name: api.EventError, Data: api.Problem{}, Doc: "Why the watch has ended; the last event"},
		},
		ResponseContent: []string{api.ContentEvents}, Do: x.watch,
	}})
}

func (x *WatchResource) watch(c *Call) (any, error) {
	name := "."
	if c.Given("path") {
		name = c.Text("path")
	}
	at, err := insideFiles("path", name)
	if err != nil {
		return nil, err
	}
	box, err := Sandboxed(c, x.lender)
	if err != nil {
		return nil, err
	}
	leave, err := x.seats.Take(box.Name)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, stop := context.WithCancel(c.Context())
	defer stop()
	h, o := &hearer{call: c}, x.o
	o.Turn = func(ctx context.Context) (func(), error) { return x.looks.Enter(ctx, box.Name) }
	err = x.lender.Files(ctx, manager.Request{Who: box.Who, Flags: c.Settings, MustExist: true, Tool: c.Tool("read")}, func(s manager.Share) error {
		return runWatch(ctx, s.Bridge.Inside(), at, o, h)
	})
	if h.events == nil {
		return nil, err
	}
	defer h.events.Close()
	if err == nil {
		err = context.Cause(c.Context()) // a watch has no end of its own
	}
	if err != nil && h.failed == nil {
		_ = h.events.Send(api.EventError, c.Problem(c.Why(err))) // an error means that the client has gone
	}
	return Sent{}, nil
}

// A hearer sends events to a client. The answer begins when the watch does.
type hearer struct {
	call   *Call
	events *Events
	failed error // of a write: the client has gone
}

// Ready implements [Hearer].
func (h *hearer) Ready(entries int) error {
	h.events = h.call.Events()
	return h.send(api.EventReady, api.WatchReady{Entries: entries})
}

// Changes implements [Hearer].
func (h *hearer) Changes(changes []watchChange) error {
	for _, c := range changes {
		e := api.Change{Kind: c.Kind, Path: c.Path, Type: typeOf(c.Entry.Mode), Size: c.Entry.Size, ModifiedAt: c.Entry.Modified.UTC()}
		if err := h.send(api.EventChange, e); err != nil {
			return err
		}
	}
	return nil
}

// Note implements [Hearer].
func (h *hearer) Note(message string) error {
	return h.send(api.EventNote, api.WatchNote{Message: message})
}

func (h *hearer) send(name string, data any) error {
	if err := h.events.Send(name, data); err != nil {
		h.failed = err
		return err
	}
	return nil
}
