package images

import (
	"context"
	"errors"
	"testing"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/image"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// fakeStream is a fakeEngine that reports changes.
type fakeStream struct {
	*fakeEngine
	opened  chan struct{}
	changes chan events.Message
	broken  chan error
}

func (f fakeStream) Events(context.Context, events.ListOptions) (<-chan events.Message, <-chan error) {
	select {
	case f.opened <- struct{}{}:
	default:
	}
	return f.changes, f.broken
}

func TestWatchedFollowsTheEngine(t *testing.T) {
	f := fakeStream{newFake(), make(chan struct{}, 1), make(chan events.Message), make(chan error)}
	put := func(id string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		own := ownPlatform()
		f.images["app:1"] = image.InspectResponse{ID: id, Os: own.OS, Architecture: own.Architecture}
	}
	put("sha256:a")
	w := Source{Store: New(f, Config{})}.Watched()
	defer w.Close()
	current := func() string {
		t.Helper()
		id, err := w.Current(t.Context(), "app:1", nil)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	open := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.open
	}
	for range firstCalls {
		current()
	}
	if len(f.opened) > 0 {
		t.Error("a program that makes few calls opens a stream")
	}
	current()
	testenv.Until(t, "a stream is opened", open)
	current()
	before := f.asked("inspect")
	for range 10 {
		current()
	}
	if n := f.asked("inspect") - before; n != 0 {
		t.Errorf("the engine was asked %d times for what has not changed", n)
	}
	put("sha256:b")
	f.changes <- events.Message{Type: events.ImageEventType, Action: events.ActionTag}
	testenv.Until(t, "the new id is returned", func() bool { return current() == "sha256:b" })
	current()

	// Without the stream nothing is known.
	f.broken <- errors.New("the engine was restarted")
	testenv.Until(t, "a broken stream does not count", func() bool { return !open() })
	put("sha256:c")
	if id := current(); id != "sha256:c" {
		t.Errorf("with a broken stream it answers %s from memory", id)
	}
	w.Close()
	put("sha256:d")
	if id := current(); id != "sha256:d" {
		t.Errorf("when closed it answers %s from memory", id)
	}
}

// TestWatchedDropsWhatChangedMeanwhile has an image change while it is read.
func TestWatchedDropsWhatChangedMeanwhile(t *testing.T) {
	f := fakeStream{newFake(), make(chan struct{}, 1), make(chan events.Message), make(chan error)}
	own := ownPlatform()
	f.images["app:1"] = image.InspectResponse{ID: "sha256:a", Os: own.OS, Architecture: own.Architecture}
	w := Source{Store: New(f, Config{})}.Watched()
	defer w.Close()
	w.changed(true)
	f.onInspect = func(context.Context, string) error {
		w.changed(true)
		return nil
	}
	if _, err := w.Current(t.Context(), "app:1", nil); err != nil {
		t.Fatal(err)
	}
	if len(w.known) != 0 {
		t.Error("an answer that may be from before the change is kept")
	}
}
