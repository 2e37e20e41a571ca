// Manager: this part of the package carries out what the command line wants through a daemon:
// it has the methods of *manager.Manager that the command line uses, with the
// sandboxes on the daemon's machine.
//
// Who asks is the client's; on whose behalf, each request says. What is
// settled on the daemon's machine alone is refused with CodeUnsupported and a
// text that says where to do it.

package sdk

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// A Manager is one daemon. It is safe for concurrent use.
type Manager struct {
	c *API
	o APIOptions

	approver sandbox.Approver // with nil, no question is asked here
	log      logrus.FieldLogger
}

// New returns the conductor of the daemon at host; see NewAPI.
func NewManager(host string, o APIOptions) (*Manager, error) {
	if o.Timeout <= 0 {
		o.Timeout = 20 * time.Minute // images may have to be made first
	}
	c, err := NewAPI(host, o)
	if err != nil {
		return nil, err
	}
	return &Manager{c: c, o: o}, nil
}

// Close lets go of the daemon.
func (d *Manager) Close() error { return d.c.Close() }

// as asks on behalf of who.
func (d *Manager) as(who config.Who) *API {
	return d.c.For(who.Tenant, who.Agent, who.Session)
}

// elsewhere is the error of what is not done from afar.
func elsewhere(op, what string) error {
	return &sandbox.Error{
		Code: sandbox.CodeUnsupported, Op: op, Field: "server", Message: what + " is not possible through a daemon",
		Hint: "do it on the daemon's machine, without --server and $SANDBOX_SERVER",
	}
}

// List tells what there is. As with a manager, rows may come beside an error.
func (d *Manager) List(ctx context.Context, o manager.ListOptions) (manager.Listing, error) {
	q := url.Values{}
	if o.All {
		q.Set("all", "true")
	}
	if o.Foreign {
		q.Set("foreign", "true")
	}
	for name, value := range o.Labels {
		q.Add("label", name+"="+value)
	}
	var l api.Listing
	err := d.c.For(o.Tenant, "", "").Call(ctx, Request{Op: "list", Method: http.MethodGet, Path: "/v1/listing", Query: q, Again: true}, &l)
	if err == nil && l.Error != nil {
		err = l.Error.Err()
	}
	return manager.Listing{Containers: orNone(l.Containers), Browsers: orNone(l.Browsers)}, err
}

func orNone(rows []manager.Row) []manager.Row {
	if rows == nil {
		return []manager.Row{}
	}
	return rows
}

// Select lists the rows that a recreate with s would remove.
func (d *Manager) Select(ctx context.Context, tenant string, s manager.Selector, browsers bool) ([]manager.Row, error) {
	var out api.Selected
	err := d.c.For(tenant, "", "").Call(ctx, Request{
		Op: "recreate", Method: http.MethodPost, Path: "/v1/select",
		JSON: api.Selection{Session: s.Session, Agent: s.Agent, All: s.All, Browsers: browsers},
	}, &out)
	return out.Items, err
}

// Recreate removes rows, which Select has returned.
func (d *Manager) Recreate(ctx context.Context, rows []manager.Row) manager.Recreated {
	out := manager.Recreated{Removed: []manager.Removed{}, Failed: []manager.Failed{}}
	names := map[string][]string{} // by tenant
	for _, r := range rows {
		names[r.Tenant] = append(names[r.Tenant], r.Name)
	}
	for tenant, list := range names {
		var c api.ClearedForm
		err := d.c.For(tenant, "", "").Call(ctx, Request{
			Op: "recreate", Method: http.MethodPost, Path: "/v1/recreate", JSON: api.RecreateForm{Names: list},
		}, &c)
		if err != nil {
			for _, name := range list {
				out.Failed = append(out.Failed, manager.Failed{Name: name, Code: sandbox.CodeOf(err), Error: err.Error()})
			}
			continue
		}
		out.Removed, out.Failed = append(out.Removed, c.Removed...), append(out.Failed, c.Failed...)
	}
	return out
}

// Prune removes what is not in use; it is for admins.
func (d *Manager) Prune(ctx context.Context, o manager.PruneOptions) (manager.Pruned, error) {
	if o.Caches {
		return manager.Pruned{}, errCaches("prune")
	}
	var c api.ClearedForm
	err := d.c.For(o.Tenant, "", "").Call(ctx, Request{
		Op: "prune", Method: http.MethodPost, Path: "/v1/prune",
		JSON: api.Prune{Idle: o.Idle, MaxAge: o.MaxAge, Workspaces: o.Workspaces, DryRun: o.DryRun},
	}, &c)
	return manager.Pruned{Removed: c.Removed, Kept: c.Kept, Failed: c.Failed}, err
}

// Explain says what a session gets and why; it is for admins.
func (d *Manager) Explain(ctx context.Context, who config.Who, flags *config.SandboxSettings, q manager.Questions) (manager.Explanation, error) {
	f, err := api.FlagsOf(flags)
	if err != nil {
		return manager.Explanation{}, sandbox.Errorf(sandbox.CodeInternal, "explain", "the flags cannot be written: %w", err)
	}
	var out manager.Explanation
	err = d.as(who).Call(ctx, Request{
		Op: "explain", Method: http.MethodPost, Path: "/v1/explain",
		JSON: api.Explain{Flags: f, Tool: q.Tool, Command: q.Command, Path: q.Path, Host: q.Host, Method: q.Method},
	}, &out)
	return out, err
}

// Caches is refused: a daemon does not show the caches on its machine.
func (d *Manager) Caches(context.Context, string) ([]manager.Cache, error) {
	return nil, errCaches("list")
}

func errCaches(op string) error {
	return &sandbox.Error{
		Code: sandbox.CodeUnsupported, Op: op, Field: "--caches", Message: "a server does not show or remove the caches on its machine",
		Hint: "run this command on that machine, with its state folder",
	}
}

// Stats tells what the sandboxes of a tenant cost.
func (d *Manager) Stats(ctx context.Context, tenant string) ([]manager.Stat, error) {
	var all api.UsageList
	err := d.c.For(tenant, "", "").Call(ctx, Request{Op: "stats", Method: http.MethodGet, Path: "/v1/usage", Again: true}, &all)
	if err != nil {
		return nil, err
	}
	out := make([]manager.Stat, len(all.Items))
	for i, u := range all.Items {
		out[i] = manager.Stat(u)
	}
	return out, nil
}

// PoolStatus says which sandboxes are kept ready; it is for admins.
func (d *Manager) PoolStatus(ctx context.Context) (manager.PoolStatus, error) {
	var out manager.PoolStatus
	err := d.c.For("", "", "").Call(ctx, Request{Op: "pool", Method: http.MethodGet, Path: "/v1/pool", Again: true}, &out)
	return out, err
}

// Measure returns what the sandbox of a row costs, and what runs in it. Where it
// cannot be measured, the reason is in Error.
func (d *Manager) Measure(ctx context.Context, row manager.Row) manager.Stat {
	u, err := d.rowOf(row).Usage(ctx, row.Name)
	if err != nil {
		return manager.Stat{Name: row.Name, Provider: row.Provider, Tenant: row.Tenant, ScopeKey: row.ScopeKey, Status: row.Status, Error: err.Error()}
	}
	return manager.Stat(u)
}

// Pause freezes the sandbox of a row until its next use.
func (d *Manager) Pause(ctx context.Context, row manager.Row) error {
	_, err := d.rowOf(row).PauseSandbox(ctx, row.Name)
	return err
}

// Resume thaws the sandbox of a row.
func (d *Manager) Resume(ctx context.Context, row manager.Row) error {
	_, err := d.rowOf(row).ResumeSandbox(ctx, row.Name)
	return err
}

// Remove removes the sandbox of a row. What it was created with goes too; Keep is
// refused.
func (d *Manager) Remove(ctx context.Context, row manager.Row, o manager.RemoveOptions) error {
	if o.Keep {
		return elsewhere("remove", "removing a sandbox for one that is made next")
	}
	return d.rowOf(row).DeleteSandbox(ctx, row.Name, o.Workspace, o.Force)
}

// Renew removes the sandbox of a row, with whatever runs in it, and makes it anew.
// Its workspace stays.
func (d *Manager) Renew(ctx context.Context, row manager.Row) error {
	_, err := d.rowOf(row).RecreateSandbox(ctx, row.Name, api.Recreate{Force: true})
	return err
}

// Processes returns the processes in the sandbox of a row whose output the daemon
// keeps, the oldest first.
func (d *Manager) Processes(ctx context.Context, row manager.Row) ([]ProcessInfo, error) {
	l, err := d.rowOf(row).Processes(ctx, row.Name)
	return l.Items, err
}

// FollowProcess passes on what the process with the id has written, as far as it is
// kept, and what it writes, until it has ended.
func (d *Manager) FollowProcess(ctx context.Context, row manager.Row, id string, w io.Writer) error {
	_, err := d.rowOf(row).FollowProcess(ctx, row.Name, id, 0, ProcessSinks{Sinks: Sinks{Stdout: w, Stderr: w}})
	return err
}

// rowOf asks on behalf of whom the sandbox of a row belongs to.
func (d *Manager) rowOf(row manager.Row) *API { return d.as(row.Who()) }
