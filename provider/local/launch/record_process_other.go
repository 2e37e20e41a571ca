//go:build !linux

package launch

import "context"

// A Process is the first process of an instance. Here an instance has none of its own.
type recordProcess struct {
	PID int `json:"pid"`
}

// Alive reports whether the process may still run.
func (p recordProcess) Alive() (bool, error) { return true, nil }

// Kill has nothing to end.
func (p recordProcess) Kill(context.Context) error { return nil }
