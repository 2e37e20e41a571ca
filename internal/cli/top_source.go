//go:build !sandbox_front && !sandbox_engine

package cli

import (
	"context"
	"io"
	"iter"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
)

// A TopSource has the sandboxes that are shown: those of this machine, or a daemon's.
// Its methods are those that list, stats, explain, violations and evidence use. It
// is safe for concurrent use.
type TopSource interface {
	List(ctx context.Context, o manager.ListOptions) (manager.Listing, error)
	Measure(ctx context.Context, row manager.Row) manager.Stat
	Explain(ctx context.Context, who config.Who, flags *config.SandboxSettings, q manager.Questions) (manager.Explanation, error)
	Violations(ctx context.Context, f violation.Filter) iter.Seq2[violation.Record, error]
	Evidence(ctx context.Context, f evidence.Filter) iter.Seq2[evidence.Record, error]

	Pause(ctx context.Context, row manager.Row) error
	Resume(ctx context.Context, row manager.Row) error
	Remove(ctx context.Context, row manager.Row, o manager.RemoveOptions) error
	Renew(ctx context.Context, row manager.Row) error

	// Files hands the files of a sandbox, which must exist, to fn.
	Files(ctx context.Context, r manager.Request, fn func(manager.Share) error) error
	// Logs returns the processes in the sandbox whose output is kept, the oldest
	// first; none where none is kept.
	Logs(ctx context.Context, row manager.Row) ([]TopLog, error)
	// Follow writes what is kept of a log to w, and then what comes, until its
	// process or ctx ends.
	Follow(ctx context.Context, row manager.Row, id string, w io.Writer) error
}

// A TopLog is the output of a process.
type TopLog struct {
	ID, Command, State string
}
