package operation

import (
	"context"
	"sync"
	"time"
)

const (
	// shortest and longest are the bounds of the time between two looks.
	shortest = 50 * time.Millisecond
	longest  = 5 * time.Second
	// share is the part of the time that looking may take, as its inverse: 5 %.
	share = 20
	// blind is how long looking may fail, because the sandbox has no descriptor
	// left or does not answer, before the running operations are stopped. The
	// watch tries again before that: a single failure stops nothing, however
	// much there is to look at.
	blind = 2 * time.Second
)

// A watch is what looks at the folders while something runs. Its fields are
// guarded by Spaces.mu.
type watch struct {
	runs map[*spaceRun]struct{}
	stop context.CancelFunc // ends the goroutine that looks
}

// A spaceRun is an operation that may fill the space.
type spaceRun struct{ end context.CancelCauseFunc }

// Watch implements [operation.Space]. It looks at once and then every 50 ms,
// less often where there is much to look at, so that looking takes a twentieth
// of the time. When a folder exceeds its bound, Watch ends all running
// operations of the call, because it cannot determine which of them wrote the
// bytes.
func (s *Spaces) Watch(ctx context.Context) (context.Context, context.CancelFunc) {
	watched, end := context.WithCancelCause(ctx)
	r := &spaceRun{end: end}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watch.runs == nil {
		s.watch.runs = map[*spaceRun]struct{}{}
	}
	s.watch.runs[r] = struct{}{}
	if len(s.watch.runs) == 1 {
		var looking context.Context
		looking, s.watch.stop = context.WithCancel(context.WithoutCancel(ctx))
		go s.look(looking)
	}
	return watched, sync.OnceFunc(func() {
		end(context.Canceled)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watch.runs, r)
		if len(s.watch.runs) == 0 {
			s.watch.stop()
		}
	})
}

// look looks until ctx ends.
func (s *Spaces) look(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var sight view
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		begin := time.Now()
		err, known := s.check(ctx)
		now := time.Now()
		lost, next := sight.after(known, begin, now)
		if err != nil && (known || lost) && ctx.Err() == nil {
			s.end(err)
		}
		timer.Reset(next)
	}
}

// A view records since when looking has failed, if it has.
type view struct{ blind time.Time }

// after records a look from begin to now. It returns whether looking has failed
// for too long, and how long to wait before the next look.
func (v *view) after(known bool, begin, now time.Time) (lost bool, next time.Duration) {
	next = pace(now.Sub(begin))
	if known {
		v.blind = time.Time{}
		return false, next
	}
	if v.blind.IsZero() {
		v.blind = begin
	}
	return now.Sub(v.blind) >= blind, min(next, blind)
}

// pace is how long to wait after a look that took so long.
func pace(took time.Duration) time.Duration { return min(max(share*took, shortest), longest) }

// check looks at all folders. It returns the reason to end running operations,
// or why the folders could not be examined (known is false then).
func (s *Spaces) check(ctx context.Context) (err error, known bool) {
	s.mu.Lock()
	folders := make([]*folder, 0, len(s.folders))
	for _, f := range s.folders {
		if !f.gone {
			folders = append(folders, f)
		}
	}
	s.mu.Unlock()
	for _, f := range folders {
		used, err := s.measure(ctx, f)
		switch {
		case err != nil:
			return err, isExceeded(err)
		case used > f.bound:
			return exceeded(f, "the temporary folder holds too much", nil), true
		}
	}
	return nil, true
}

// end ends what runs.
func (s *Spaces) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.watch.runs {
		r.end(err)
	}
}
