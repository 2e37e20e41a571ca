// This file holds the resource for the records of what was stopped, and of what
// was done: those of the caller's own tenant, agent and session, as far as the
// caller is bound to one.

package resource

import (
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// Bounds of one answer.
const (
	usualLimit = 100
	mostLimit  = 1000
)

// A scope selects records, of those that belong to the caller.
type scope struct {
	tenant, agent, session, sandbox string
	all                             bool // every tenant's
	since, until                    time.Time
	limit                           int // 0 has no bound, which streams have
}

// scopeParams returns the parameters that a scope is read from.
func scopeParams(more ...Param) []Param {
	return append([]Param{
		{Name: "agent", Length: 64, Doc: "Only of this agent"},
		{Name: "session", Length: 256, Doc: "Only of this session"},
		{Name: "sandbox", Length: 128, Doc: "Only of the sandbox with this name"},
		{Name: "since", Length: 64, Doc: "Not before this time, as 2026-11-21T06:12:15Z"},
		{Name: "until", Length: 64, Doc: "Before this time"},
		{Name: "all", Type: Boolean, Doc: "Every tenant's; for admins"},
	}, more...)
}

func limitParam() Param {
	return Param{Name: "limit", Type: Integer, Min: 1, Max: mostLimit, Doc: "The most records, of the newest; 100 without, and in a stream all"}
}

// scopeOf reads the query. It refuses a selection beyond the names that the
// caller is bound to.
func scopeOf(c *Call) (scope, error) {
	s := scope{
		tenant: c.Who.Tenant, agent: c.Text("agent"), session: c.Text("session"), sandbox: c.Text("sandbox"),
		all: c.True("all"), limit: int(c.Number("limit", usualLimit)),
	}
	if c.Accepts(api.ContentEvents) && !c.Given("limit") {
		s.limit = 0
	}
	var err error
	if s.since, err = timeOf(c, "since"); err != nil {
		return s, err
	}
	if s.until, err = timeOf(c, "until"); err != nil {
		return s, err
	}
	if s.all && !c.Admin() {
		return s, notYours("all")
	}
	if s.all && c.Request.Header.Get(api.HeaderTenant) != "" {
		return s, Invalid("all", "a tenant is named and all are asked for")
	}
	for _, bound := range []struct {
		name       string
		to, wanted *string
	}{{"agent", &c.Caller.Agent, &s.agent}, {"session", &c.Caller.Session, &s.session}} {
		switch {
		case *bound.to == "":
		case *bound.wanted == "":
			*bound.wanted = *bound.to
		case *bound.wanted != *bound.to:
			return s, notYours(bound.name)
		}
	}
	return s, nil
}

func notYours(field string) error {
	return &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "read records", Field: field, Message: "that is not the caller's to see", Hint: "leave it out, or name the tenant, agent and session of the token"}
}

func timeOf(c *Call, name string) (time.Time, error) {
	text := c.Text(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, Invalid(name, "is no time like 2026-11-21T06:12:15Z")
	}
	return t, nil
}
