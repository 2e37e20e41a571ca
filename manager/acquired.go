package manager

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/policy/gate"
	"github.com/bulkhead-dev/sandbox/registry/pool"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// An acquired sandbox is an open handle with the lease that protects it.
type acquired struct {
	sandbox.Sandbox
	provider       sandbox.Provider
	spec           sandbox.Spec // what it was made from, as far as known
	want           *want        // what was asked for
	rules          *gate.Gate   // of this call, for its files
	created        bool
	claimed        bool                // it was a slot of the pool
	miss           *pool.Miss          // why it was made instead, where a pool is kept; or nil
	settle         func() error        // waits until a claim is kept for good; or nil
	copied         bool                // the workspace was copied out since the command has ended
	scratch        bool                // the workspace is ours, not the agent's own folder
	egress         sandbox.EgressRules // for the commands of this call
	egressSessions *egressSessions     // nil outside of sandboxes
	seen           *outputDigest       // of this call, for the record; or nil
	spent          *usage              // of this call, by who pays for it; or nil
	counted        *count              // of this call, for metrics; or nil
	shell          *Shell              // whose line the command is; or nil
	handle         *handle             // nil outside of sandboxes
	letGo          func()              // gives the handle back
	held           *keylock.Lock
}

func (l *acquired) name() string { return l.spec.Name }

// bridge opens the files of the sandbox, behind no rules: see [Manager.files].
func (l *acquired) bridge(ctx context.Context) (*fsbridge.Bridge, error) {
	by := l.want.res.FSTransport
	if by == sandbox.FSScript && l.handle != nil {
		if b := l.handle.scripts.Load(); b != nil {
			return b.OnDisk(workspace.OnSharedDisk), nil
		}
	}
	b, err := fsbridge.OpenBy(ctx, by, l.Sandbox, l.spec.Mounts, l.spec.Tmpfs)
	if err != nil {
		return nil, err
	}
	if by == sandbox.FSScript && l.handle != nil {
		l.handle.scripts.Store(b)
	}
	return b.OnDisk(workspace.OnSharedDisk), nil
}

// settled waits until what was claimed for this call is kept for good.
func (l *acquired) settled() error {
	if l.settle == nil {
		return nil
	}
	return l.settle()
}

// close lets go of the handle, then of the lease.
func (l *acquired) close() {
	_ = l.settled() // who runs something has asked before
	l.letGo()
	l.held.Release()
}
