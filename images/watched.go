package images

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
)

// A Watched is a Source that answers Current from memory while the engine's
// event stream is open and has reported no change of an image since the answer
// was read. Without the stream it asks the engine each time. It must be closed.
//
// The engine sends an event a moment after it has moved a tag: a call within
// that moment gets the id from before.
type Watched struct {
	Source

	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex
	calls  int
	opened bool // a goroutine reads the stream, or opens it again
	open   bool // what has changed is known
	known  map[string]currentID
	seen   int // changes; an answer counts if there were none while it was read
}

// A currentID is an answer of Current, and what is reported besides.
type currentID struct {
	id     string
	report *Event
}

const (
	// firstCalls are answered by the engine before a stream is opened: a program
	// that runs one command makes fewer, and the stream would cost it more.
	firstCalls = 3
	// maxKnown bounds the answers that are kept.
	maxKnown = 256
	// eventsBefore is how far back a new stream begins. The engine answers the
	// request before it subscribes to its own events, so that one of now could
	// be missed.
	eventsBefore = 10 * time.Second
	// reopenAfter is the wait before a broken stream is opened again.
	reopenAfter = 5 * time.Second
)

// A watcher is an engine that reports changes; the Docker client is one.
type watcher interface {
	Events(ctx context.Context, o events.ListOptions) (<-chan events.Message, <-chan error)
}

// Watched returns s with a memory of its own.
func (s Source) Watched() *Watched {
	w := &Watched{Source: s, known: map[string]currentID{}}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w
}

// Close ends the event stream. Current then asks the engine each time.
func (w *Watched) Close() error {
	w.mu.Lock()
	w.opened = true // and none is opened after this
	w.mu.Unlock()
	w.stop()
	w.work.Wait()
	return nil
}

// Current is [Source.Current].
func (w *Watched) Current(ctx context.Context, ref string, setup []string) (string, error) {
	key := strings.Join(append([]string{ref}, setup...), "\x00")
	w.mu.Lock()
	w.begin()
	have, ok := w.known[key]
	open, seen := w.open, w.seen
	w.mu.Unlock()
	if ok {
		if have.report != nil {
			w.Progress.Report(*have.report)
		}
		return have.id, nil
	}
	heard := w.Source
	var reported *Event
	if w.Progress != nil {
		heard.Progress = reportFunc(func(e Event) {
			reported = &e
			w.Progress.Report(e)
		})
	}
	id, err := heard.Current(ctx, ref, setup)
	if err != nil || !open {
		return id, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open && w.seen == seen {
		if len(w.known) >= maxKnown {
			clear(w.known)
		}
		w.known[key] = currentID{id, reported}
	}
	return id, nil
}

// reportFunc is a function as [Progress].
type reportFunc func(Event)

func (f reportFunc) Report(e Event) { f(e) }

// begin opens the stream where enough calls were made. The caller has mu.
func (w *Watched) begin() {
	if w.opened {
		return
	}
	if w.calls++; w.calls <= firstCalls {
		return
	}
	w.opened = true
	if engine, ok := w.Store.api.(watcher); ok {
		w.work.Go(func() { w.follow(engine) })
	}
}

// follow reads the stream until w is closed, and opens it again when it breaks.
func (w *Watched) follow(engine watcher) {
	for w.ctx.Err() == nil {
		w.read(engine)
		select {
		case <-w.ctx.Done():
		case <-time.After(reopenAfter):
		}
	}
}

// read reads one stream to its end.
func (w *Watched) read(engine watcher) {
	ctx, done := context.WithCancel(w.ctx)
	defer done()
	defer w.changed(false)
	changes, broken := engine.Events(ctx, events.ListOptions{
		Since:   time.Now().Add(-eventsBefore).UTC().Format(time.RFC3339Nano),
		Filters: filters.NewArgs(filters.Arg("type", string(events.ImageEventType))),
	})
	select {
	case <-broken:
		return
	default:
	}
	w.changed(true)
	for {
		select {
		case <-changes:
			w.changed(true)
		case <-broken:
			return
		}
	}
}

// changed forgets all answers. They are kept from now on if open.
func (w *Watched) changed(open bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = open
	w.seen++
	clear(w.known)
}
