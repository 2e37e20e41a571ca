package manager

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/registry"
	"github.com/bulkhead-dev/sandbox/registry/pool"
)

// slots are the slots of the pool that this program has open: started, their
// guest connected, without a claim. A caller that takes one has it alone in
// this program; the registry decides between programs.
type slots struct {
	mu      sync.Mutex
	open    map[string]*slot // by name
	keeps   bool             // this program has refilled: what it has open is what there is
	started []time.Time      // when slots were started lately
	refills sync.Mutex       // one Refill at a time
	wanted  poolWants        // of the last one; guarded by refills
	rest    poolRest         // of the last one, where there was nothing to do; guarded by refills

	wakes   chan struct{}        // has one when Refill is due at once
	lacking time.Time            // since when the pool is not full; zero where it is; guarded by mu
	claimed time.Time            // when this program has claimed a slot last; guarded by mu
	ended   bool                 // the program ends; guarded by mu
	failing map[string]failure   // by shape, "" for all; guarded by mu
	status  map[string]pool.Want // what the last Refill kept, by shape; guarded by mu

	reported map[string]string // errors that the log has had, by what they are about; guarded by mu

	settling chan struct{} // has one for each claim that is being forced to the disk

	asking sync.Mutex           // while an image is asked for; before what follows
	images map[string]imageSeen // by reference and setup
	fault  func(string)         // of tests: hears of every step on disk before it is done; or nil
}

// report writes err to the log unless it was the last one about what: refilling goes
// round for as long as the program lives.
func (s *slots) report(log logrus.FieldLogger, what string, err error, message string) {
	s.mu.Lock()
	known := s.reported[what] == err.Error()
	if !known {
		if s.reported == nil || len(s.reported) >= maxReported {
			s.reported = map[string]string{}
		}
		s.reported[what] = err.Error()
	}
	s.mu.Unlock()
	if !known {
		log.WithError(err).Warn(message)
	}
}

// maxReported bounds the errors that are remembered.
const maxReported = 256

// An imageSeen is what an image was when it was asked for.
type imageSeen struct {
	id string
	at time.Time
}

// imageFresh is how long what an image is counts for claims: of many that come
// together one asks.
const imageFresh = 2 * time.Second

// imagesOf is Current of all, which it asks once in a while.
func (s *slots) imagesOf(all Images, now func() time.Time) func(ctx context.Context, ref string, setup []string) (string, error) {
	return func(ctx context.Context, ref string, setup []string) (string, error) {
		key := strings.Join(append([]string{ref}, setup...), "\x00")
		s.asking.Lock()
		defer s.asking.Unlock()
		if seen, ok := s.images[key]; ok && now().Sub(seen.at).Abs() < imageFresh {
			return seen.id, nil
		}
		id, err := all.Current(ctx, ref, setup)
		if err != nil {
			return "", err
		}
		if s.images == nil || len(s.images) >= maxImages {
			s.images = map[string]imageSeen{}
		}
		s.images[key] = imageSeen{id, now()}
		return id, nil
	}
}

// maxImages bounds the images that are remembered.
const maxImages = 64

// step tells tests what is about to be done.
func (s *slots) step(name string) {
	if s.fault != nil {
		s.fault(name)
	}
}

// A slot is an open one.
type slot struct {
	sandbox.Sandbox
	rec registry.Record // with its Spec
}

func newSlots() *slots {
	return &slots{open: map[string]*slot{}, settling: make(chan struct{}, settleAtOnce), wakes: make(chan struct{}, 1), failing: map[string]failure{}}
}

// A failure is what has gone wrong, so many times one after the other.
type failure struct {
	times int
	until time.Time // before which it is not tried again
	err   error
}

// wake makes the caller that waits for [Manager.RefillDue] refill the pool at
// once.
// It lacks something from at on.
func (s *slots) wake(at time.Time) {
	s.mu.Lock()
	if s.lacking.IsZero() {
		s.lacking = at
	}
	s.mu.Unlock()
	s.due()
}

// due has the pool looked at at once.
func (s *slots) due() {
	select {
	case s.wakes <- struct{}{}:
	default: // it is due already
	}
}

// refillPause is how long no slot is claimed before others are made while some are
// left, and refillPauseMost for how long that is waited for.
const refillPause, refillPauseMost = 150 * time.Millisecond, 2 * time.Second

// taken notes that a slot was claimed.
func (s *slots) taken(at time.Time) {
	s.mu.Lock()
	s.claimed = at
	s.mu.Unlock()
	s.wake(at)
}

// pause returns how long to wait for the end of a burst of claims: making slots takes
// the processors from those who claim. Where none is left, nothing is waited for.
func (s *slots) pause(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) == 0 || s.lacking.IsZero() || now.Sub(s.lacking).Abs() >= refillPauseMost {
		return 0
	}
	if since := now.Sub(s.claimed); since >= 0 {
		return max(0, refillPause-since)
	}
	return 0 // the clock was set back
}

// full notes that nothing lacks any more, and returns since when something has.
func (s *slots) full() (since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, s.lacking = s.lacking, time.Time{}
	return since
}

// failed notes how a start of the shape, or with "" a whole round, has ended.
func (s *slots) failed(shape string, err error, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.failing, shape)
		return
	}
	f := s.failing[shape]
	if now.Before(f.until) { // several that ran at one time are one failure
		return
	}
	f.times, f.err = f.times+1, err
	f.until = now.Add(pool.Backoff(f.times))
	s.failing[shape] = f
}

// holds reports whether the pool starts no sandbox of the shape, because the last
// start failed and its back-off has not passed.
func (s *slots) holds(shape string, now time.Time) bool {
	return s.rests(shape, now) > 0
}

// rests returns for how long the shape is left alone.
func (s *slots) rests(shape string, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.failing[shape]
	if !ok {
		return 0
	}
	return min(max(0, f.until.Sub(now)), pool.Backoff(f.times)) // clocks are set back
}

// end notes that the program ends.
func (s *slots) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

// ends reports whether the program ends.
func (s *slots) ends() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// take returns the oldest open slot of the shape, or nil.
func (s *slots) take(provider, shape string) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	var best *slot
	for _, n := range s.open {
		r := n.rec
		if r.Provider == provider && r.Shape == shape && (best == nil || r.CreatedAt.Before(best.rec.CreatedAt)) {
			best = n
		}
	}
	if best != nil {
		delete(s.open, best.rec.Name)
	}
	return best
}

// put keeps n until a call claims it, unless the slot is open already.
func (s *slots) put(n *slot) {
	s.mu.Lock()
	had := s.open[n.rec.Name]
	if had == nil {
		s.open[n.rec.Name] = n
	}
	s.mu.Unlock()
	if had != nil && had != n {
		n.Close()
	}
}

// has reports whether the slot is open here.
func (s *slots) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[name] != nil
}

// drop lets go of a slot.
func (s *slots) drop(name string) {
	s.mu.Lock()
	n := s.open[name]
	delete(s.open, name)
	s.mu.Unlock()
	if n != nil {
		n.Close()
	}
}

// names lists the open slots, sorted.
func (s *slots) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for name := range s.open {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// shapeOf tells which slots a sandbox of w can be claimed from: beside what
// package pool looks at, the bound of the workspace is built in.
func shapeOf(w *want) (string, error) {
	shape, err := pool.Shape(w.spec)
	if err != nil {
		return "", err
	}
	quota := w.quota
	if !w.scratch() {
		quota = 0
	}
	return shape + "-" + strconv.FormatInt(quota, 10), nil
}

// removeSlot removes a slot without a claim, with all that belongs to it. The
// caller holds its ensure lock, under which claims are made. removeSlot leaves
// alone a slot that was claimed meanwhile, and one whose claim cannot be read.
func (k *poolKeeper) removeSlot(ctx context.Context, p sandbox.Provider, name string) error {
	if _, claimed, err := k.m.records.Of(p.Name()).ClaimOn(name); err != nil || claimed {
		return err
	}
	return k.clearSlot(ctx, p, name)
}

// clearSlot removes what there is of a slot.
func (k *poolKeeper) clearSlot(ctx context.Context, p sandbox.Provider, name string) error {
	k.drop(name)
	rec, err := k.m.records.Of(p.Name()).Look(sandbox.KindPool, name)
	if err != nil && !sandbox.IsNotFound(err) {
		return err
	}
	if err := p.Remove(ctx, name); err != nil {
		return err
	}
	if err := k.m.pruner.removeHome(ctx, name); err != nil {
		return err
	}
	if err := k.m.state.RemoveSocketDir(name); err != nil {
		return err
	}
	if rec.Workspace != "" {
		if _, err := k.m.pruner.removeScratch(ctx, rec.Agent, name, rec.Workspace); err != nil {
			return err
		}
	}
	return k.m.records.Of(p.Name()).Delete(sandbox.KindPool, name)
}

// leaveIdentity removes the claim of a provider's sandbox that is gone, when its
// workspace is gone too: as long as there is one, the sandbox is to find it again.
func (k *poolKeeper) leaveIdentity(provider, name string) error {
	c, ok, err := k.m.records.Of(provider).ClaimOf(name)
	if err != nil || !ok {
		return err
	}
	if c.Workspace != "" {
		if _, err := os.Lstat(c.Workspace); !errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	return k.m.records.Of(provider).Unclaim(c)
}
