package resource

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// watchMost is how many watches of one sandbox may run at a time.
const watchMost = 8

// A WatchResource serves watches.
type WatchResource struct {
	manager filesManager
	o       WatchOptions
	seats   *watchSeats
	looks   keylock.Turns // by sandbox
}

// NewResource returns the resource.
func NewWatchResource(l filesManager, o WatchOptions) *WatchResource {
	return &WatchResource{manager: l, o: o, seats: newSeats(watchMost, "watch", "watches of", "end one of them, or watch a folder that holds both")}
}

// Routes implements [Resource].
func (x *WatchResource) Routes() []Route {
	return takingSettings([]Route{{
		ID: "watchFiles", Method: http.MethodGet, Path: api.Prefix + "/sandboxes/{name}/watch", Tag: "files", Role: token.Session,
		Summary: "Watch what changes in a folder",
		Doc: "The kernel reports each change: create, write, remove, rename and chmod. What lies in a folder that comes to be, or is moved in, is reported as created. " +
			"A watch that polls says so in its first event. The sandbox is in use while it is watched. Links are not followed. " +
			"A watch takes in 16384 folders, and a sandbox has 8 watches: more is 429.",
		Query: []Param{{Name: "path", Length: 4095, Doc: "The folder inside; relative ones are in the workspace, which it is without"},
			{Name: "recursive", Type: Boolean, Doc: "Also the folders below, which is so without; false: the entries of the folder alone"}},
		Errors: []int{404, 403, 429, 503, 504}, Stream: true, Follows: true, Timeout: Endless,
		Events: []Event{
			{Name: api.EventReady, Data: api.WatchReady{}, Doc: "What happens from now on is reported"},
			{Name: api.EventChange, Data: api.Change{}, Doc: "One change"},
			{Name: api.EventNote, Data: api.WatchNote{}, Doc: "What the watch cannot see"},
			{Name: api.EventOverflow, Data: api.WatchNote{}, Doc: "Changes were lost, because they came faster than they were taken; the watch goes on"},
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
	box, err := Sandboxed(c, x.manager)
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
	h, o := &hearer{call: c, root: at}, x.o
	recursive := !c.Given("recursive") || c.True("recursive")
	o.Turn = func(ctx context.Context) (func(), error) { return x.looks.Enter(ctx, box.Name) }
	err = x.manager.Files(ctx, manager.Request{Who: box.Who, Flags: c.Settings, MustExist: true, Tool: c.Tool("read")}, func(s manager.Share) error {
		return runWatch(ctx, s.Bridge.Inside(), at, recursive, o, h)
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
	root   string // the watched folder
	events *Events
	failed error // of a write: the client has gone
}

// Ready implements [watchHearer].
func (h *hearer) Ready(entries int, polls bool) error {
	h.events = h.call.Events()
	return h.send(api.EventReady, api.WatchReady{Entries: entries, Polls: polls})
}

// Changes implements [watchHearer].
func (h *hearer) Changes(changes []watchChange) error {
	for _, c := range changes {
		e := api.Change{Kind: string(c.Kind), Name: h.relative(c.Path), Path: c.Path}
		if c.To != "" {
			e.To = h.relative(c.To)
		}
		if !c.Gone {
			e.Type, e.Mode = typeOf(c.Entry.Mode), fmt.Sprintf("%04o", c.Entry.Mode.Perm())
			e.Size, e.ModifiedAt = c.Entry.Size, c.Entry.Modified.UTC()
		}
		if err := h.send(api.EventChange, e); err != nil {
			return err
		}
	}
	return nil
}

// relative returns the name of a path in the watched folder.
func (h *hearer) relative(path string) string {
	if path == h.root {
		return "."
	}
	return strings.TrimPrefix(path, strings.TrimSuffix(h.root, "/")+"/")
}

// Note implements [watchHearer].
func (h *hearer) Note(code sandbox.Code, folder, message string) error {
	return h.send(api.EventNote, api.WatchNote{Code: string(code), Name: folder, Message: message})
}

// Overflow implements [watchHearer].
func (h *hearer) Overflow() error {
	return h.send(api.EventOverflow, api.WatchNote{Code: string(sandbox.CodeBudgetExceeded), Message: "changes came faster than they were taken, and some were lost; list the folder to see what is there"})
}

func (h *hearer) send(name string, data any) error {
	if err := h.events.Send(name, data); err != nil {
		h.failed = err
		return err
	}
	return nil
}
