package manager

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/policy/gate"
	"github.com/bulkhead-dev/sandbox/registry"
	"github.com/bulkhead-dev/sandbox/registry/pool"
	"github.com/bulkhead-dev/sandbox/toolpolicy"
)

// Prepared is a session for which everything is there.
type Prepared struct {
	Name      string `json:"name"` // of the sandbox; outside of sandboxes the name that it would have
	Created   bool   `json:"created"`
	Claimed   bool   `json:"claimed"` // it is a slot of the pool, which was ready
	Place     Place  `json:"place"`
	Reason    string `json:"reason"` // for the place
	Workspace string `json:"workspace"`

	Miss *pool.Miss `json:"miss,omitempty"` // why it was made although a pool is kept; or nil
}

// Ready ensures the sandbox of a request as [Manager.Run] does, and runs
// nothing. The command of req must be empty.
func (m *Manager) Ready(ctx context.Context, req Request) (Prepared, error) {
	var p Prepared
	if err := onlySession(req); err != nil {
		return p, err
	}
	req.bare = true
	err := m.pipeline(req, gate.Call{Tool: req.Tool}).run(ctx, func(l *acquired) error {
		p = Prepared{Name: l.name(), Created: l.created, Claimed: l.claimed, Miss: l.miss, Place: l.want.gate.Place, Reason: l.want.gate.Reason, Workspace: workspaceOf(l.spec)}
		return nil
	})
	return p, err
}

// Name is what the sandbox of the scope of who is called, whether it is there
// or not.
func (m *Manager) Name(who config.Who, flags *config.SandboxSettings) (string, error) {
	if flags != nil {
		return saying(m.current(), who, flags, m.nameBy)
	}
	return m.names.of(m.current(), who, m.nameBy)
}

func (m *Manager) nameBy(res config.Resolved) (string, error) {
	return config.Name(res.Docker.ContainerPrefix, m.describer.owner(res))
}

// Recorded returns what is on record about a sandbox or browser of a tenant,
// without its Spec, and does not look whether it runs. Another tenant's is
// [sandbox.CodeNotFound], in the same words as one that there is not.
//
// A session that is used with two providers has a sandbox of that name with each.
// provider says which one is meant; empty means the one of the provider that the
// settings of the session name. Where they name none of them, the error is
// [sandbox.CodeValidation] with Field "provider".
func (m *Manager) Recorded(ctx context.Context, tenant, name, provider string) (registry.Record, error) {
	for _, kind := range []sandbox.Kind{sandbox.KindSandbox, sandbox.KindBrowser} {
		rec, err := m.records.Look(kind, name)
		switch {
		case err == nil && rec.Tenant == tenant && rec.Kind != sandbox.KindPool:
			return m.lister.recordedOf(ctx, rec, provider)
		case err != nil && sandbox.CodeOf(err) == sandbox.CodeUnavailable:
			return registry.Record{}, err
		}
	}
	return registry.Record{}, unknown(name)
}

// recordedOf returns the record with the name, kind and tenant of rec that belongs
// to provider; see [Manager.Recorded].
func (ls *lister) recordedOf(ctx context.Context, rec registry.Record, provider string) (registry.Record, error) {
	if provider == rec.Provider {
		return rec, nil
	}
	all := []registry.Record{rec}
	for _, other := range ls.m.providers.Names() {
		if other == rec.Provider {
			continue
		}
		r, err := ls.m.records.Of(other).Look(rec.Kind, rec.Name)
		switch {
		case err == nil && r.Tenant == rec.Tenant && r.Provider == other:
			all = append(all, r)
		case err != nil && sandbox.CodeOf(err) == sandbox.CodeUnavailable:
			return registry.Record{}, err
		}
	}
	if provider == "" && len(all) == 1 {
		return rec, nil
	}
	given, why := provider != "", error(nil)
	if !given {
		provider, why = ls.providerOf(ctx, rec)
	}
	var names []string
	for _, r := range all {
		if r.Provider == provider {
			return r, nil
		}
		names = append(names, r.Provider)
	}
	if given {
		return registry.Record{}, unknown(rec.Name)
	}
	slices.Sort(names)
	return registry.Record{}, &sandbox.Error{
		Code: sandbox.CodeValidation, Op: "find", Field: "provider", Resource: rec.Name, Err: why,
		Message: fmt.Sprintf("there are %d sandboxes of this name, and the settings of the session name the provider of none of them", len(all)),
		Hint:    "say which one is meant with the parameter provider: " + strings.Join(names, " or "),
	}
}

// providerOf returns the name of the provider that the settings choose now for the
// session that the sandbox of a record was made for.
func (ls *lister) providerOf(ctx context.Context, rec registry.Record) (string, error) {
	res, err := config.Resolve(ls.m.current(), config.Who{Tenant: rec.Tenant, Agent: rec.Agent, Session: rec.Session}, nil)
	if err != nil {
		return "", err
	}
	choose := func(res config.Resolved) (sandbox.Provider, string, error) { return ls.m.describer.choose(ctx, res) }
	if rec.Kind == sandbox.KindBrowser {
		choose = ls.m.browsers.browserProvider
	}
	p, _, err := choose(res)
	if err != nil {
		return "", err
	}
	return p.Name(), nil
}

// unknown says that the caller has no such sandbox.
func unknown(name string) error {
	return &sandbox.Error{Code: sandbox.CodeNotFound, Op: "find", Resource: name, Message: "there is no such sandbox", Hint: "see which there are with: sandbox list"}
}

// Find is [Manager.List] for one sandbox or browser, which name and provider mean as
// for [Manager.Recorded].
func (m *Manager) Find(ctx context.Context, tenant, name, provider string) (Row, error) {
	rec, err := m.Recorded(ctx, tenant, name, provider)
	if err != nil {
		return Row{}, err
	}
	p, err := m.providers.Get(rec.Provider)
	if err != nil {
		return Row{}, err
	}
	info, running := m.builder.runs(ctx, rec)
	if !running {
		info, err = p.Inspect(ctx, name)
	}
	var infos []sandbox.Info
	if err == nil {
		infos = append(infos, info)
	} else if !sandbox.IsNotFound(err) {
		return Row{}, err
	}
	records := []registry.Record{rec}
	rows := m.lister.reconcile(records, infos, nil)
	if err := m.creations.describe(rows); err != nil {
		return Row{}, err
	}
	m.lister.match(ctx, rows, records)
	return rows[0], nil
}

// Extend has a sandbox kept until then, however idle it is, and lets it go
// afterwards, unless something runs in it. What prune.maxAge says holds all the
// same, and so until may not be later.
func (m *Manager) Extend(ctx context.Context, tenant, name, provider string, until time.Time) error {
	rec, err := m.Recorded(ctx, tenant, name, provider)
	if err != nil {
		return err
	}
	res, err := config.Resolve(m.current(), config.Who{Tenant: rec.Tenant, Agent: rec.Agent, Session: rec.Session}, nil)
	if err != nil {
		return err
	}
	now, bad := m.now(), ""
	switch oldest := time.Duration(res.Prune.MaxAge); {
	case !until.After(now):
		bad = "the time lies in the past"
	case oldest > 0 && until.After(rec.CreatedAt.Add(oldest)):
		bad = fmt.Sprintf("no sandbox gets older than %s, which prune.maxAge says", oldest)
	}
	if bad != "" {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "extend", Field: "until", Resource: name, Message: bad}
	}
	return m.records.Of(rec.Provider).Update(rec.Kind, name, func(r *registry.Record) error {
		r.ExpiresAt = until.UTC()
		return nil
	})
}

// Usable says what tools a session may use, and where its commands run.
type Usable struct {
	Place   Place
	Reason  string
	Scope   sandbox.Scope // who shares its sandbox
	Access  sandbox.Access
	Browser bool          // the settings have one
	Timeout time.Duration // limits.timeout of its commands
	Output  int64         // limits.maxOutputBytes of its commands

	policy *toolpolicy.Policy
}

// Tool says whether the tool may be used.
func (u Usable) Tool(name string) toolpolicy.Decision { return u.policy.Judge(name) }

// Usable returns the rules for the tools of a session. It does not
// check whether its sandbox can be made now.
func (m *Manager) Usable(who config.Who, flags *config.SandboxSettings) (Usable, error) {
	if flags != nil {
		return saying(m.current(), who, flags, m.usableBy)
	}
	return m.usables.of(m.current(), who, m.usableBy)
}

func (m *Manager) usableBy(res config.Resolved) (u Usable, err error) {
	u = Usable{Scope: res.Scope, Access: res.WorkspaceAccess, Browser: res.Browser.Enabled, Timeout: time.Duration(res.Limits.Timeout), Output: int64(res.Limits.MaxOutputBytes)}
	if u.policy, err = config.ToolPolicy(res); err != nil {
		return Usable{}, err
	}
	g := m.gates.placement(res)
	u.Place, u.Reason = g.Place, g.Reason
	return u, nil
}
