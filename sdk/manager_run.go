package sdk

import (
	"context"
	"encoding/json"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

// Run brings the sandbox of a request up and runs its command in it. Streams,
// signals and the size of the terminal go through; the time limit is kept by
// the daemon.
func (d *Manager) Run(ctx context.Context, r manager.Request) (manager.Outcome, error) {
	return d.attach(ctx, r, false)
}

// Shell runs the shell of the sandbox as Run runs a command.
func (d *Manager) Shell(ctx context.Context, r manager.Request) (manager.Outcome, error) {
	return d.attach(ctx, r, true)
}

func (d *Manager) attach(ctx context.Context, r manager.Request, shell bool) (manager.Outcome, error) {
	if r.Unsandboxed {
		return manager.Outcome{}, elsewhere("run", "running without a sandbox")
	}
	if r.Ask {
		defer d.answering(ctx, r.Who)()
	}
	flags, err := api.FlagsOf(r.Flags)
	if err != nil {
		return manager.Outcome{}, sandbox.Errorf(sandbox.CodeInternal, "run", "the flags cannot be written: %w", err)
	}
	q, err := stream.RequestOf(r.Command)
	if err != nil {
		return manager.Outcome{}, err
	}
	q.TimeoutSeconds = r.Timeout.Seconds()
	q.Extra, err = json.Marshal(api.Use{
		Shell: shell, MustExist: r.MustExist, Remove: r.Remove, Subagent: r.Subagent, Tool: r.Tool, Ask: r.Ask, User: r.User, From: r.From, Flags: flags,
	})
	if err != nil {
		return manager.Outcome{}, sandbox.Errorf(sandbox.CodeInternal, "run", "the request cannot be written: %w", err)
	}
	conn, _, err := d.as(r.Who).Socket(ctx, "run", "/v1/attach", nil)
	if err != nil {
		return manager.Outcome{}, err
	}
	p, err := stream.Open(ctx, conn, d.o.Stream, q, r.Command)
	if err != nil {
		return manager.Outcome{}, err
	}
	if r.Started != nil {
		r.Started(p) // of one that is run again, signals find the last
	}
	exit, err := p.Wait()
	if err != nil {
		return manager.Outcome{}, err
	}
	var out api.Outcome
	if err := json.Unmarshal(p.Outcome(), &out); err != nil {
		return manager.Outcome{}, &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: "run", Message: "the daemon has not sent how the command ended", Err: err,
		}
	}
	return out.Whole(exit), nil
}
