//go:build linux

package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// makers is how many clients ask for sandboxes at a time: more than there are
// processors, because an engine waits much.
const makers = 6

// idle fills a daemon with sandboxes, each of which runs a command, and then
// tells what it takes while they do nothing. It makes as many as there is time
// for.
func (s *Session) idle(ctx context.Context) (*reportIdle, error) {
	s.Log("%s", opIdle)
	d, _, err := s.servedBox(ctx)
	if err != nil {
		return nil, err
	}
	out := &reportIdle{Wanted: s.Effort.Boxes}
	if err := d.Unix.Close(); err != nil { // of our own connections none is to be counted
		return nil, err
	}
	if err := pause(ctx, s.Effort.Idle); err != nil {
		return nil, err
	}
	if out.Before, err = d.RSS(); err != nil {
		return nil, err
	}
	before, err := d.Sockets()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	if out.Sandboxes, err = s.fill(ctx, d); err != nil {
		return nil, err
	}
	out.Making = time.Since(begun)
	if err := s.rest(ctx, d, out); err != nil {
		return nil, err
	}
	after, err := d.Sockets()
	if err != nil {
		return nil, err
	}
	out.Sockets = max(0, after-before)
	return out, d.Empty()
}

// rest lets the daemon be for a while.
func (s *Session) rest(ctx context.Context, d *rigDaemon, out *reportIdle) error {
	if err := d.Unix.Close(); err != nil { // as before
		return err
	}
	if err := pause(ctx, s.Effort.Idle); err != nil {
		return err
	}
	early, err := d.RSS()
	if err != nil {
		return err
	}
	if err := pause(ctx, s.Effort.Settled); err != nil {
		return err
	}
	out.Settled = s.Effort.Settled
	begun := time.Now()
	from, err := d.CPU()
	if err != nil {
		return err
	}
	if err := pause(ctx, s.Effort.Resting); err != nil {
		return err
	}
	to, err := d.CPU()
	if err != nil {
		return err
	}
	out.CPU, out.Rest = to-from, time.Since(begun)
	out.RSS, err = d.RSS()
	out.RSS = max(out.RSS, early)
	return err
}

// fill makes sandboxes until there are as many as wanted or the time is over,
// and returns how many there are.
func (s *Session) fill(ctx context.Context, d *rigDaemon) (int, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	until := time.Now().Add(s.Effort.Making)
	var next, there atomic.Int64
	var wg sync.WaitGroup
	for range makers {
		wg.Go(func() {
			for ctx.Err() == nil && time.Now().Before(until) {
				i := next.Add(1)
				if i > int64(s.Effort.Boxes) {
					return
				}
				if err := one(ctx, d, fmt.Sprintf("idle-%d", i)); err != nil {
					stop(err)
					return
				}
				there.Add(1)
			}
		})
	}
	wg.Wait()
	return int(there.Load()), context.Cause(ctx)
}

// one makes the sandbox of a session and runs a command in it.
func one(ctx context.Context, d *rigDaemon, session string) error {
	c := d.Unix.For("", config.DefaultAgent, session)
	box, err := c.CreateSandbox(ctx, api.CreateSandbox{})
	if err != nil {
		return err
	}
	return asked(c, box.Name, truePath)(ctx)
}
