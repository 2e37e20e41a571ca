package manager

import "context"

// A Recorder keeps what was tried and stopped. It is safe for concurrent use.
type Recorder interface{}

// tellRefused records why the gate refused a call.
func (m *Manager) tellRefused(ctx context.Context, r *ruling) {}
