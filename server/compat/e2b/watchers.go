package e2b

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/bulkhead-dev/sandbox/server/api"
)

// Messages of watchers that clients poll.
type (
	createWatcherResponse struct {
		WatcherID string `json:"watcherId"`
	}

	watcherRequest struct {
		WatcherID string `json:"watcherId"`
	}

	watcherEventsResponse struct {
		Events []*filesystemEvent `json:"events"`
	}
)

// Bounds of watchers that clients poll.
const (
	maxWatchers      = 16     // of one sandbox
	maxWatcherEvents = 10_000 // that wait to be fetched
	idleWatcher      = 5 * time.Minute
)

// watchers are those of all sandboxes, by id.
type watchers struct {
	mu sync.Mutex
	of map[string]*watcher
}

// A watcher collects changes until the client fetches them.
type watcher struct {
	name, token string
	stop        context.CancelFunc
	idle        *time.Timer // ends it

	mu     sync.Mutex
	events []*filesystemEvent
	err    error // why it has ended
}

// add registers a watcher, unless its sandbox has too many.
func (w *watchers) add(id string, one *watcher) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, o := range w.of {
		if o.name == one.name {
			n++
		}
	}
	if n >= maxWatchers {
		return &fault{status: http.StatusTooManyRequests, message: "the sandbox has too many watchers; remove one"}
	}
	if w.of == nil {
		w.of = map[string]*watcher{}
	}
	w.of[id] = one
	return nil
}

func (w *watchers) remove(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.of, id)
}

// find returns a watcher of the call's sandbox that the call's caller has made.
func (w *watchers) find(c *call, id string) (*watcher, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.of[id]
	if one == nil || one.name != c.name || one.token != c.token {
		return nil, &fault{status: http.StatusNotFound, message: "there is no such watcher; one that is not polled for " + idleWatcher.String() + " ends"}
	}
	one.idle.Reset(idleWatcher)
	return one, nil
}

func (d *Translator) createWatcher(ctx context.Context, c *call, in *watchRequest) (*createWatcherResponse, error) {
	// It outlives this request, and ends with the translator.
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(d.life, stop)
	w, r, err := c.watch(life, in)
	if err != nil {
		stop()
		return nil, err
	}
	id := rand.Text()
	one := &watcher{name: c.name, token: c.token, stop: stop, idle: time.AfterFunc(idleWatcher, stop)}
	if err := d.watchers.add(id, one); err != nil {
		stop()
		return nil, err
	}
	// The response of this request is written meanwhile, so the watcher has its own.
	own := *c
	own.w = &answer{}
	ready := make(chan error, 1)
	d.going.Go(func() {
		defer d.watchers.remove(id)
		defer stop()
		defer one.idle.Stop()
		err := own.follow(life, r, func(name string, data []byte) error { return one.take(w, ready, name, data) })
		if err == nil {
			err = &fault{status: http.StatusServiceUnavailable, message: "the watch has ended"}
		}
		one.end(err)
		select {
		case ready <- err:
		default:
		}
		// The client is to learn why it ended.
		select {
		case <-life.Done():
		case <-time.After(idleWatcher):
		}
	})
	select {
	case err = <-ready:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		stop()
		return nil, err
	}
	return &createWatcherResponse{id}, nil
}

// take takes one event of the watch.
func (o *watcher) take(w watch, ready chan<- error, name string, data []byte) error {
	switch name {
	case api.EventReady:
		ready <- nil
	case api.EventNote, api.EventOverflow:
		return noted(name, data)
	case api.EventError:
		return problem(data)
	case api.EventChange:
		events, err := w.events(data)
		if err != nil {
			return err
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if len(o.events) >= maxWatcherEvents {
			return connect.NewError(connect.CodeDataLoss, errors.New("more changes came than were fetched; make a new watcher"))
		}
		o.events = append(o.events, events...)
	}
	return nil
}

func (o *watcher) end(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = err
}

func (d *Translator) watcherEvents(_ context.Context, c *call, in *watcherRequest) (*watcherEventsResponse, error) {
	one, err := d.watchers.find(c, in.WatcherID)
	if err != nil {
		return nil, err
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	out := &watcherEventsResponse{Events: one.events}
	one.events = nil
	if len(out.Events) == 0 && one.err != nil {
		return nil, one.err
	}
	if out.Events == nil {
		out.Events = []*filesystemEvent{}
	}
	return out, nil
}

func (d *Translator) removeWatcher(_ context.Context, c *call, in *watcherRequest) (*empty, error) {
	one, err := d.watchers.find(c, in.WatcherID)
	if err != nil {
		return nil, err
	}
	one.stop()
	d.watchers.remove(in.WatcherID)
	return &empty{}, nil
}
