package manager

import (
	"context"
	"strconv"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/policy/gate"
)

// files opens the files of the sandbox for a caller. All file operations of all
// fronts go through it, so what a command may not name is closed to them too,
// and what explain says of a path is what they get.
func (m *Manager) files(ctx context.Context, l *acquired) (*fsbridge.Bridge, error) {
	b, err := l.bridge(ctx)
	if err != nil {
		return nil, err
	}
	return b.Ruled(fileRule(l.rules, l.Sandbox)).Refusing(l.rules.Changes()), nil
}

// filesUnderGrant is files for an operation under a grant. Where workspaceAccess
// is ro its profile leaves it the temporary space of the call to write in, and no
// other place.
func (m *Manager) filesUnderGrant(ctx context.Context, l *acquired) (*fsbridge.Bridge, error) {
	b, err := l.bridge(ctx)
	if err != nil {
		return nil, err
	}
	return b.Ruled(fileRule(l.rules, l.Sandbox)), nil
}

// fileRule asks the policy for paths, and then the rules of the sandbox's own
// where it has some. What a question would be put about is refused, unless the
// settings let the sandbox answer it.
func fileRule(g *gate.Gate, sb sandbox.Sandbox) fsbridge.Rule {
	own, _ := sb.(sandbox.Judge)
	return func(op sandbox.Operation, path string, part bool) error {
		if d, refused := g.File(op, path, part); refused {
			return fsbridge.Closed(string(op), path, d.Message+" ("+d.Rule+")", d.Hint)
		}
		if own == nil {
			return nil
		}
		if v := own.Judge(op, path); !v.Allowed && v.Builtin {
			return fsbridge.Closed(string(op), path, verbs(op)+" "+strconv.Quote(path)+" is closed ("+v.Rule+")", "do without it; no grant opens it")
		}
		return nil
	}
}

func verbs(op sandbox.Operation) string {
	if op == sandbox.OpRead {
		return "reading"
	}
	return "writing"
}
