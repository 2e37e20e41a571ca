//go:build !linux

package launch

import "context"

// FindGroups says that there are none.
func FindGroups() Groups {
	return Groups{Why: "control groups are a part of Linux", Fix: `use "provider": "docker"`}
}

// kill ends the instance of the record at once.
func (r Record) kill(ctx context.Context) error { return r.Process.Kill(ctx) }
