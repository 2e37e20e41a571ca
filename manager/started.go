package manager

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
)

// An executor runs commands in sandboxes that were acquired.
type executor struct{ m *Manager }

// A started is how one command of a live sandbox begins, and what it may
// reach of the world.
type started interface {
	start(ctx context.Context, c sandbox.Command) (sandbox.Process, error)
	// end takes the egress session from a command that has ended, and returns what it
	// was refused. It may be called again.
	end() []sandbox.Violation
	waited() *sandbox.Waited // for a turn of its connections, while the command ran
	asked() []Answer         // about hosts, while the command ran
}

// depart makes the command of req ready to begin in l: a program of its own, or
// a line of a shell that stays.
func (x *executor) depart(ctx context.Context, l *acquired, req *Request) (started, error) {
	if l.shell != nil {
		return l.shell.depart(ctx, l, req)
	}
	c, err := x.reach(ctx, l, req)
	if err != nil {
		return nil, err
	}
	return &alone{l, c}, nil
}

// An alone is a command with a process tree of its own.
type alone struct {
	live *acquired
	*caller
}

func (p *alone) start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	return p.live.Start(ctx, c)
}
