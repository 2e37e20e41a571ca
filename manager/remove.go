package manager

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// remove takes a sandbox down together with its record. It fails with
// [sandbox.CodeBusy] while a command runs in it.
func (b *builder) remove(ctx context.Context, p sandbox.Provider, kind sandbox.Kind, name string) error {
	turn, err := b.m.locksOf(p.Name()).Ensure(ctx, name)
	if err != nil {
		return err
	}
	defer turn.Release()
	return b.removeLocked(ctx, p, kind, name)
}

// removeLocked is remove for a caller that holds the name's ensure lock.
// The record goes last: when the provider fails, it stays for the next try.
func (b *builder) removeLocked(ctx context.Context, p sandbox.Provider, kind sandbox.Kind, name string) error {
	held, err := b.m.locksOf(p.Name()).TryExclusive(name)
	if err != nil {
		return err
	}
	defer held.Release()
	return b.removeNow(ctx, p, kind, name)
}

// removeNow is removeLocked for a sandbox that may be in use: what runs in it
// ends.
func (b *builder) removeNow(ctx context.Context, p sandbox.Provider, kind sandbox.Kind, name string) error {
	if kind == sandbox.KindPool {
		return b.m.pool.removeSlot(ctx, p, name)
	}
	b.m.handles.drop(name)
	if err := p.Remove(ctx, name); err != nil {
		return err
	}
	b.m.lister.gone(name)
	hostIdentity, err := home(b.m.records.Of(p.Name()), name)
	if err != nil {
		return err
	}
	if p.Features().Images { // other providers have homes in memory
		if err := b.m.pruner.removeHome(ctx, hostIdentity); err != nil {
			return err
		}
	}
	if b.another(p, kind, name) {
		return b.m.records.Of(p.Name()).Delete(kind, name) // what is on the host belongs to that one, too
	}
	if err := workspace.Unmap(filepath.Join(b.m.state.Mapped(), hostIdentity)); err != nil {
		b.m.log.WithError(err).Warn("cannot take the mount of the workspace away")
	}
	if err := b.m.state.RemoveSocketDir(hostIdentity); err != nil {
		b.m.log.WithError(err).Warn("cannot remove the socket folder")
	}
	if err := b.m.records.Of(p.Name()).Delete(kind, name); err != nil {
		return err
	}
	return b.m.pool.leaveIdentity(p.Name(), name)
}

// another reports whether a provider other than p has a sandbox of that name on
// record, also where that is unknown.
func (b *builder) another(p sandbox.Provider, kind sandbox.Kind, name string) bool {
	for _, other := range b.m.providers.Names() {
		if other == p.Name() {
			continue
		}
		if _, err := b.m.records.Of(other).Look(kind, name); !sandbox.IsNotFound(err) {
			return true
		}
	}
	return false
}

// A Selector chooses sandboxes: exactly one field is set, or Session and Agent,
// which mean that session of that agent. A Session alone is the default agent's.
type Selector struct {
	Session string
	Agent   string
	All     bool
}

// fits reports whether the selector chooses the row.
func (s Selector) fits(r Row) bool {
	switch {
	case s.All:
		return true
	case s.Session != "":
		return r.Scope == sandbox.ScopeSession && (r.Session == s.Session || besideOf(r.Session) == s.Session) && r.Agent == cmp.Or(s.Agent, config.DefaultAgent)
	}
	return r.Agent == s.Agent && r.Scope != sandbox.ScopeShared
}

// A Removed names a sandbox that was removed.
type Removed struct {
	Name     string `json:"name"`
	Provider string `json:"provider,omitempty"` // where another provider has a sandbox of this name as well
	Reason   string `json:"reason,omitempty"`
}

// A Failed names a sandbox that could not be removed, and why.
type Failed struct {
	Name  string       `json:"name"`
	Code  sandbox.Code `json:"code"`
	Error string       `json:"error"`
}

// Recreated is what recreate did.
type Recreated struct {
	Removed []Removed `json:"removed"`
	Failed  []Failed  `json:"failed"`
}

// Select lists the rows that a recreate with s would remove.
func (m *Manager) Select(ctx context.Context, tenant string, s Selector, browsers bool) ([]Row, error) {
	if one := s.Session != "" || s.Agent != ""; one == s.All {
		return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: "recreate", Message: "exactly one of --session, --agent and --all is needed"}
	}
	l, err := m.List(ctx, ListOptions{Tenant: tenant})
	if err != nil {
		return nil, err
	}
	rows := l.Containers
	if browsers {
		rows = l.Browsers
	}
	var out []Row
	for _, r := range rows {
		if (r.Tenant == tenant || s.All && tenant == "") && s.fits(r) {
			out = append(out, r)
		}
	}
	return out, nil
}

// Recreate removes the rows, so that their next use builds them anew.
// Workspaces stay.
func (m *Manager) Recreate(ctx context.Context, rows []Row) Recreated {
	out := Recreated{Removed: []Removed{}, Failed: []Failed{}}
	for _, r := range rows {
		if err := m.lister.removeRow(ctx, r); err != nil {
			out.Failed = append(out.Failed, failed(r.Name, err))
			continue
		}
		done := Removed{Name: r.Name}
		if slices.ContainsFunc(rows, func(other Row) bool { return other.Name == r.Name && other.Provider != r.Provider }) {
			done.Provider = r.Provider
		}
		out.Removed = append(out.Removed, done)
	}
	return out
}

func (ls *lister) removeRow(ctx context.Context, r Row) error {
	p, err := ls.m.providers.Get(r.Provider)
	if err != nil {
		return err
	}
	return ls.m.builder.remove(ctx, p, r.Kind, r.Name)
}

func failed(name string, err error) Failed {
	return Failed{Name: name, Code: sandbox.CodeOf(err), Error: err.Error()}
}
