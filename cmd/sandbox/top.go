//go:build !sandbox_front && !sandbox_engine

package main

import (
	"context"
	"io"
	"iter"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/sdk"
)

// Top implements cli.Backend.
func (b backend) Top(ctx context.Context, o cli.Options, v cli.TopView) error {
	var s topSource
	if o.Host.Remote() {
		d, err := remote(o.Host)
		if err != nil {
			return err
		}
		defer d.Close()
		s.live = topDaemon{d}
	} else {
		m, release, err := ownManager(o)
		if err != nil {
			return err
		}
		defer release()
		s.live = topMachine{m}
	}
	violations, release, err := b.Violations(o)
	if err != nil {
		return err
	}
	defer release()
	records, release, err := b.Evidence(o)
	if err != nil {
		return err
	}
	defer release()
	s.violations, s.evidence = violations, records
	return cli.RunTop(ctx, s, v)
}

// A live is what of a [cli.TopSource] is about sandboxes; the rest is about records.
type live interface {
	cli.Keeper
	Files(ctx context.Context, r manager.Request, fn func(manager.Share) error) error
	Measure(ctx context.Context, row manager.Row) manager.Stat
	Pause(ctx context.Context, row manager.Row) error
	Resume(ctx context.Context, row manager.Row) error
	Remove(ctx context.Context, row manager.Row, o manager.RemoveOptions) error
	Renew(ctx context.Context, row manager.Row) error
	Logs(ctx context.Context, row manager.Row) ([]cli.TopLog, error)
	Follow(ctx context.Context, row manager.Row, id string, w io.Writer) error
}

// topSource is what the view shows.
type topSource struct {
	live
	violations cli.ViolationStore
	evidence   cli.EvidenceStore
}

var _ cli.TopSource = topSource{}

// Violations implements [cli.TopSource].
func (s topSource) Violations(ctx context.Context, f violation.Filter) iter.Seq2[violation.Record, error] {
	return s.violations.Query(ctx, f)
}

// Evidence implements [cli.TopSource].
func (s topSource) Evidence(ctx context.Context, f evidence.Filter) iter.Seq2[evidence.Record, error] {
	return s.evidence.Query(ctx, f)
}

// topMachine has the sandboxes of this machine. The output of a process is kept by
// the process that has started it, so there are no logs.
type topMachine struct{ *manager.Manager }

// Logs implements [cli.TopSource].
func (topMachine) Logs(context.Context, manager.Row) ([]cli.TopLog, error) { return nil, nil }

// Follow implements [cli.TopSource].
func (topMachine) Follow(context.Context, manager.Row, string, io.Writer) error { return nil }

// topDaemon has the sandboxes of a daemon.
type topDaemon struct{ *sdk.Manager }

// Logs implements [cli.TopSource].
func (d topDaemon) Logs(ctx context.Context, row manager.Row) ([]cli.TopLog, error) {
	all, err := d.Processes(ctx, row)
	var out []cli.TopLog
	for _, p := range all {
		command := p.Command
		for _, a := range p.Args {
			if p.Command == "" {
				command += a + " "
			}
		}
		out = append(out, cli.TopLog{ID: p.ID, Command: command, State: p.State})
	}
	return out, err
}

// Follow implements [cli.TopSource].
func (d topDaemon) Follow(ctx context.Context, row manager.Row, id string, w io.Writer) error {
	return d.FollowProcess(ctx, row, id, w)
}
