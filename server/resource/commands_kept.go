package resource

import (
	"bytes"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// A commandsKept keeps the start of an output and counts all of it. It is safe
// for concurrent use.
type commandsKept struct {
	most int64

	mu      sync.Mutex
	kept    bytes.Buffer
	written int64
}

// NewKept returns a Kept that keeps at most most bytes; 0 is the largest bound.
func NewKept(most int64) *commandsKept {
	if most <= 0 || most > manager.MaxKeep {
		most = manager.MaxKeep
	}
	return &commandsKept{most: most}
}

// Write implements io.Writer. It never fails.
func (k *commandsKept) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.written += int64(len(p))
	k.kept.Write(p[:max(0, min(int64(len(p)), k.most-int64(k.kept.Len())))])
	return len(p), nil
}

// Reset drops what was kept and counted.
func (k *commandsKept) Reset() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept.Reset()
	k.written = 0
}

func (k *commandsKept) all() (kept []byte, written int64, hit *sandbox.LimitHit) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.written > int64(k.kept.Len()) {
		hit = &sandbox.LimitHit{Limit: sandbox.LimitMaxOutputBytes, Current: k.written, Bound: k.most, Unit: sandbox.UnitBytes}
	}
	return bytes.Clone(k.kept.Bytes()), k.written, hit
}

// Captured returns the result of a command whose output was kept.
func Captured(o manager.Outcome, name string, stdout, stderr *commandsKept) api.ExecResult {
	if o.Name != "" {
		name = o.Name
	}
	out, written, hit := stdout.all()
	errOut, errWritten, errHit := stderr.all()
	limit := o.Exit.Limit
	for _, h := range []*sandbox.LimitHit{hit, errHit} {
		if limit == nil {
			limit = h
		}
	}
	return Result(sandbox.Result{
		Stdout: out, Stderr: violation.Annotate(errOut, o.Violations), StdoutBytes: written, StderrBytes: errWritten,
		Truncated: hit != nil || errHit != nil, Limit: limit, Left: o.Exit.Left, Waited: o.Waited, Warnings: o.Warnings, ExitCode: o.Exit.Code, Signal: o.Exit.Signal, TimedOut: o.TimedOut,
		Restarted: o.Exit.Restarted, LostDir: o.Exit.LostDir, Blocked: o.Blocked, BlockedReason: o.BlockedReason, BlockedResource: o.BlockedResource,
		Violations: o.Violations, Duration: o.Duration, Usage: o.Exit.Usage,
	}, name)
}
