package resource

import (
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
)

const (
	longest  = 15 * time.Minute // of a sweep
	maxFlags = 4 << 20          // bytes of a request with flags
)

// listing returns the caller's sandboxes. For a provider that does not answer it
// returns what the records hold, with the error.
func (s *Sessions) listing(c *Call) (any, error) {
	labels, err := config.ParseLabels(c.Texts("label"))
	if err != nil {
		return nil, err
	}
	o := manager.ListOptions{Tenant: c.Who.Tenant, All: c.True("all"), Foreign: c.True("foreign"), Labels: labels}
	if (o.All || o.Foreign) && !c.Admin() {
		return nil, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "list", Field: "all", Message: "this is for admins"}
	}
	l, err := s.m.List(c.Context(), o)
	out := api.Listing{Containers: shownRows(c, l.Containers), Browsers: shownRows(c, l.Browsers)}
	if err != nil {
		d := api.Of(reportedTo(c, err))
		out.Error = &d
	}
	return out, nil
}

// shownRows returns the rows that the caller may see, with the fields that it may
// see.
func shownRows(c *Call, rows []manager.Row) []manager.Row {
	out := []manager.Row{}
	for _, r := range rows {
		if !c.Admin() {
			if !Allowed(c, r.Tenant, r.Agent, r.Session, r.Scope) {
				continue
			}
			r.Workspace = ""
		}
		out = append(out, r)
	}
	return out
}

func (s *Sessions) selected(c *Call) (any, error) {
	q, err := Body[api.Selection](c)
	if err != nil {
		return nil, err
	}
	rows, err := s.m.Select(c.Context(), c.Who.Tenant, manager.Selector{Session: q.Session, Agent: q.Agent, All: q.All}, q.Browsers)
	if err != nil {
		return nil, err
	}
	return api.Selected{Items: shownRows(c, rows)}, nil
}

// recreate removes the sandboxes that the caller names and may name. It ignores
// sandboxes that no longer exist.
func (s *Sessions) recreate(c *Call) (any, error) {
	q, err := Body[api.RecreateForm](c)
	if err != nil {
		return nil, err
	}
	l, err := s.m.List(c.Context(), manager.ListOptions{Tenant: c.Who.Tenant})
	if err != nil {
		return nil, err
	}
	rows := slices.DeleteFunc(append(slices.Clone(l.Containers), l.Browsers...), func(r manager.Row) bool {
		return !slices.Contains(q.Names, r.Name) || !Allowed(c, r.Tenant, r.Agent, r.Session, r.Scope)
	})
	out := s.m.Recreate(c.Context(), rows)
	return cleared(out.Removed, 0, out.Failed), nil
}

func cleared(removed []manager.Removed, kept int, failed []manager.Failed) api.ClearedForm {
	return api.ClearedForm{Removed: append([]manager.Removed{}, removed...), Kept: kept, Failed: append([]manager.Failed{}, failed...)}
}

func (s *Sessions) prune(c *Call) (any, error) {
	q, err := Body[api.Prune](c)
	if err != nil {
		return nil, err
	}
	o := manager.PruneOptions{Tenant: c.Who.Tenant, Idle: q.Idle, MaxAge: q.MaxAge, Workspaces: q.Workspaces, DryRun: q.DryRun}
	out, err := s.m.Prune(c.Context(), o)
	if err != nil {
		return nil, err
	}
	return cleared(out.Removed, out.Kept, out.Failed), nil
}

func (s *Sessions) explain(c *Call) (any, error) {
	b, err := c.Raw()
	if err != nil {
		return nil, err
	}
	q, err := api.ReadExplain(b)
	if err != nil {
		return nil, err
	}
	flags, err := Layer(c, q.Flags)
	if err != nil {
		return nil, err
	}
	return s.m.Explain(c.Context(), c.Who, flags, manager.Questions{Tool: q.Tool, Command: q.Command, Path: q.Path, Host: q.Host, Method: q.Method})
}

func (s *Sessions) pool(c *Call) (any, error) { return s.m.PoolStatus(c.Context()) }
