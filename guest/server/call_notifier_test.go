//go:build linux

package server

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

func newTestOutputDigest(send func(wire.Attempt)) *outputDigest {
	return &outputDigest{reported: map[string]bool{}, idle: make(chan struct{}), send: send}
}

// TestStuckResolver holds that a path which takes long is followed to its end,
// while another resolver looks after the shim.
func TestStuckResolver(t *testing.T) { synctest.Test(t, testStuckResolver) }

func testStuckResolver(t *testing.T) {
	hang, relieved := make(chan struct{}), make(chan struct{})
	e := &callNotifier{resolvers: make(chan struct{}, maxResolvers), resolve: func(*notifierSighting) []wire.Attempt {
		<-hang
		return []wire.Attempt{{Path: "/late"}}
	}}
	reported := make(chan wire.Attempt, 1)
	w := newTestOutputDigest(func(m wire.Attempt) { reported <- m })
	goesOn := make(chan bool, 1)
	go func() { goesOn <- e.follow(nil, w.begin(), func() { close(relieved) }) }()
	<-relieved
	close(hang)
	if m := <-reported; m.Path != "/late" {
		t.Errorf("%+v", m)
	}
	if <-goesOn {
		t.Error("two look after one stage")
	}
	if !e.follow(nil, w.begin(), func() { t.Error("relief for one that is fast") }) {
		t.Error("one that was fast does not go on")
	}
}

// TestAllResolversStuck holds that calls are let go on when no path can be
// followed any more.
func TestAllResolversStuck(t *testing.T) {
	e := &callNotifier{resolvers: make(chan struct{}, maxResolvers), resolve: func(*notifierSighting) []wire.Attempt {
		t.Error("there are more resolvers than may be")
		return nil
	}}
	for range maxResolvers {
		e.resolvers <- struct{}{}
	}
	w := newTestOutputDigest(nil)
	begin := time.Now()
	if !e.follow(nil, w.begin(), nil) || time.Since(begin) < patience {
		t.Error("nobody looks after the stage any more")
	}
	w.close()
	select {
	case <-w.idle:
	default:
		if w.pending != 0 {
			t.Errorf("%d sightings are followed", w.pending)
		}
	}
}

func TestOutputDigest(t *testing.T) { synctest.Test(t, testOutputDigest) }

func testOutputDigest(t *testing.T) {
	var reported []string
	w := newTestOutputDigest(func(m wire.Attempt) { reported = append(reported, m.Path) })
	for i := range 200 {
		if w.begin() == nil {
			break
		}
		w.tell(wire.Attempt{Path: "/" + strconv.Itoa(i)})
		w.tell(wire.Attempt{Path: "/" + strconv.Itoa(i)})
		w.end()
	}
	if len(reported) != wire.MaxAttempts || w.begin() != nil {
		t.Errorf("%d were told", len(reported))
	}

	w = newTestOutputDigest(func(wire.Attempt) {})
	last := w.begin()
	closed := make(chan struct{})
	go func() {
		w.close()
		close(closed)
	}()
	for w.begin() != nil { // until it is over
		w.end()
	}
	select {
	case <-closed:
		t.Error("it does not wait for the last sighting")
	default:
	}
	last.end()
	<-closed
	w.close() // again

	var nobody *outputDigest
	if nobody.begin() != nil {
		t.Error("nobody has begun")
	}
	nobody.close()
}
