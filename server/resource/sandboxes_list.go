package resource

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// usualPage is how many sandboxes a page has without a limit.
const usualPage = 100

func listParams() []Param {
	return []Param{
		{Name: "limit", Type: Integer, Min: 1, Max: 1000, Doc: "How many at most; 100 without"},
		{Name: "cursor", Length: 512, Doc: "next of the page before. Sandboxes that come and go meanwhile move no other"},
		{Name: "agent", Length: 64},
		{Name: "session", Length: 256},
		{Name: "status", Enum: []string{"running", "paused", "stopped", "missing", "orphan", "unknown"}},
		{Name: "kind", Enum: []string{"sandbox", "browser", "pool"}, Doc: "sandbox without"},
		{Name: "label", Length: 400, Repeat: true, Doc: "NAME=VALUE that the sandbox was created with; of several, all"},
		{Name: "all", Type: Boolean, Doc: "Every tenant's; for admins"},
		{Name: "own", Type: Boolean, Doc: "Only the sandbox in which commands of the request's own session run, which others may share"},
	}
}

// list returns one page: the sandboxes after the cursor, which is the last name
// of the page before, so that it stays valid when sandboxes are made and
// removed.
func (s *sandboxesResource) list(c *Call) (any, error) {
	after, err := readCursor(c.Text("cursor"))
	if err != nil {
		return nil, err
	}
	tenant := c.Who.Tenant
	if c.True("all") {
		if !c.Admin() {
			return nil, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "list", Field: "all", Message: "this is for admins"}
		}
		tenant = allTenants
	}
	labels, err := config.ParseLabels(c.Texts("label"))
	if err != nil {
		return nil, err
	}
	rows, err := s.labelled(c, tenant, labels)
	if err != nil {
		return nil, err
	}
	own := ""
	if c.True("own") {
		if own, err = s.o.Manager.Name(c.Who, nil); err != nil {
			return nil, err
		}
	}
	kind := sandbox.Kind(cmp.Or(c.Text("kind"), string(sandbox.KindSandbox)))
	limit := int(c.Number("limit", usualPage))
	out := api.SandboxPage{Items: []api.Sandbox{}}
	for _, r := range rows {
		switch {
		case r.Name <= after, r.Kind != kind,
			c.Given("agent") && r.Agent != c.Text("agent"), c.Given("session") && r.Session != c.Text("session"),
			c.Given("status") && string(r.Status) != c.Text("status"), own != "" && r.Name != own:
			continue
		}
		if len(out.Items) == limit {
			out.Next = writeCursor(out.Items[limit-1].Name)
			break
		}
		out.Items = append(out.Items, shown(c, r))
	}
	return out, nil
}

// allTenants stands for every tenant; no tenant has this name.
const allTenants = "*"

// rows returns the caller's sandboxes and browsers of the tenant, by name.
func (s *sandboxesResource) rows(c *Call, tenant string) ([]manager.Row, error) {
	return s.labelled(c, tenant, nil)
}

// labelled is rows for those that have all the labels.
func (s *sandboxesResource) labelled(c *Call, tenant string, labels map[string]string) ([]manager.Row, error) {
	o := manager.ListOptions{Tenant: tenant, Labels: labels}
	if tenant == allTenants {
		o = manager.ListOptions{All: true, Labels: labels}
	}
	l, err := s.o.Manager.List(c.Context(), o)
	if err != nil {
		return nil, err
	}
	own, _ := s.o.Manager.Name(c.Who, nil) // or none is
	rows := slices.DeleteFunc(append(l.Containers, l.Browsers...), func(r manager.Row) bool {
		if tenant != allTenants && r.Tenant != tenant {
			return true
		}
		return r.Name != own && !Allowed(c, r.Tenant, r.Agent, r.Session, r.Scope)
	})
	slices.SortFunc(rows, func(a, b manager.Row) int { return cmp.Compare(a.Name, b.Name) })
	return rows, nil
}

// cursorMark begins every cursor, so that another format can follow later.
const cursorMark = "n:"

func writeCursor(name string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(cursorMark + name))
}

func readCursor(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	data, err := base64.RawURLEncoding.DecodeString(s)
	name, ok := strings.CutPrefix(string(data), cursorMark)
	if err != nil || !ok {
		return "", Invalid("cursor", "is none that was given by a page before")
	}
	return name, nil
}

// shown returns a row as the caller may see it.
func shown(c *Call, r manager.Row) api.Sandbox {
	s := api.Sandbox{
		Name: r.Name, ID: r.ID, Kind: r.Kind, Provider: r.Provider, Tenant: r.Tenant, Agent: r.Agent, Session: r.Session,
		Scope: r.Scope, ScopeKey: r.ScopeKey, Status: r.Status, Image: r.Image, ImageMatch: r.ImageMatch,
		ConfigHash: r.ConfigHash, ConfigMatch: r.ConfigMatch, CreatedAt: r.CreatedAt, LastUsedAt: r.LastUsedAt, ExpiresAt: r.ExpiresAt,
		AgeSeconds: r.AgeSeconds, IdleSeconds: r.IdleSeconds,
		OnTimeout: r.OnTimeout, AutoResume: r.AutoResume, Preset: r.Preset, Labels: r.Labels, Metadata: r.Metadata,
	}
	s.Workspace = r.Workspace
	return reserved(c, s)
}

// reserved returns a sandbox without what the caller may not know of it.
func reserved(c *Call, s api.Sandbox) api.Sandbox {
	if !c.Admin() {
		s.Workspace = ""
	}
	if c.Caller.Session != "" { // others may share the sandbox
		s.Session = c.Caller.Session
	}
	return s
}

// cost returns a measurement as the caller may see it. The error of a failed one
// names things of the host, so it is for admins.
func cost(c *Call, s manager.Stat) api.Usage {
	if s.Error != "" && !c.Admin() {
		s.Error = "it could not be measured"
	}
	return api.Usage{
		Name: s.Name, Provider: s.Provider, Tenant: s.Tenant, ScopeKey: s.ScopeKey, Status: s.Status, CPUSeconds: s.CPUSeconds,
		Memory: s.Memory, MemoryLimit: s.MemoryLimit, PIDs: s.PIDs, PIDsLimit: s.PIDsLimit, DiskRead: s.DiskRead, DiskWritten: s.DiskWritten,
		WorkspaceBytes: s.WorkspaceBytes, WorkspaceComplete: s.WorkspaceComplete, NetReceived: s.NetReceived, NetSent: s.NetSent, Command: s.Command, Error: s.Error,
	}
}
