package server

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// A Loop is a function that runs repeatedly in the background.
type Loop struct {
	Name   string
	Every  time.Duration // unless Do says when
	Within time.Duration // one round may take; 0 is a minute
	// Due starts a round at once when it has a value; nil never does.
	Due <-chan struct{}
	// Paced says that the time that Do returns holds after failed rounds, too.
	Paced bool
	// Do runs one round. It returns in how long the next one is due, or 0 to
	// leave that to Every.
	Do func(context.Context) (next time.Duration, err error)
}

// soonest is the least time between two rounds.
const soonest = 10 * time.Millisecond

// start begins the loops, which end with ctx. It logs the error of a round that
// fails once for as long as the rounds fail with the same error.
func start(ctx context.Context, loops []Loop, log logrus.FieldLogger) *sync.WaitGroup {
	wg := &sync.WaitGroup{}
	for _, l := range loops {
		wg.Go(func() { l.run(ctx, log.WithField("loop", l.Name)) })
	}
	return wg
}

func (l Loop) run(ctx context.Context, log logrus.FieldLogger) {
	timer := time.NewTimer(soonest)
	defer timer.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-l.Due:
		}
		next, err := l.round(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			last = ""
		case err.Error() != last:
			last = err.Error()
			log.WithError(err).Warn("a round in the background has failed; it is tried again")
		}
		if next <= 0 || err != nil && !l.Paced {
			next = l.Every
		}
		timer.Reset(max(next, soonest))
	}
}

// round runs one round. It returns a panic as an error, so that the other loops
// go on.
func (l Loop) round(ctx context.Context) (next time.Duration, err error) {
	within := l.Within
	if within <= 0 {
		within = time.Minute
	}
	ctx, done := context.WithTimeout(ctx, within)
	defer done()
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return l.Do(ctx)
}
