// This file finds the sandbox that a path names, for the caller alone: the error
// for a sandbox that is not the caller's has the same text as that for one that
// does not exist.

package resource

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/registry"
	"github.com/bulkhead-dev/sandbox/server/auth"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// A Finder finds sandboxes; *manager.Manager is one.
type Finder interface {
	// Recorded is called first; for a sandbox of another caller no other method
	// is called.
	Recorded(ctx context.Context, tenant, name, provider string) (registry.Record, error)
	Name(who config.Who, flags *config.SandboxSettings) (string, error)
	Usable(who config.Who, flags *config.SandboxSettings) (manager.Usable, error)
}

// A lookupSandbox is a sandbox that the caller may use.
type lookupSandbox struct {
	Name   string
	Record registry.Record
	Usable manager.Usable // of [Sandboxed]

	// Who has the names on whose behalf the sandbox is used: those of the
	// request where the sandbox belongs to its session, and else those that it
	// was made for.
	Who config.Who
}

// Find returns the sandbox {name} of the path.
func Find(c *Call, f Finder) (lookupSandbox, error) {
	name := c.Path("name")
	rec, err := f.Recorded(c.Context(), c.Who.Tenant, name, providerOf(c))
	if sandbox.IsNotFound(err) {
		return lookupSandbox{}, notFound(name) // the error of the provider could name things that the caller must not know
	}
	if err != nil {
		return lookupSandbox{}, err
	}
	s := lookupSandbox{Name: name, Record: rec, Who: config.Who{Tenant: rec.Tenant, Agent: rec.Agent, Session: rec.Session}}
	if own, err := f.Name(c.Who, c.Settings); err == nil && own == name {
		s.Who = c.Who
		return s, nil
	}
	if !Allowed(c, rec.Tenant, rec.Agent, rec.Session, rec.Scope) {
		return lookupSandbox{}, notFound(name)
	}
	return s, nil
}

// providerOf returns the provider by which a call distinguishes sandboxes of one
// name: that of the query, or else the one that its settings name.
func providerOf(c *Call) string {
	if name := c.Text("provider"); name != "" {
		return name
	}
	return providerIn(c.Settings)
}

// providerIn returns the provider that s names, or "".
func providerIn(s *config.SandboxSettings) string {
	if s == nil || s.Provider == nil || *s.Provider == "auto" {
		return ""
	}
	return *s.Provider
}

// Own is [Find] for callers that change the sandbox as a whole: pause or remove
// it, or set how long it is kept. A token of one session may not do that to a
// sandbox that other sessions share.
func Own(c *Call, f Finder) (lookupSandbox, error) {
	s, err := Find(c, f)
	if err == nil {
		err = Unshared(c, config.Who{Tenant: s.Record.Tenant, Agent: s.Record.Agent, Session: s.Record.Session}, s.Record.Scope, s.Name)
	}
	return s, err
}

// Unshared returns an error where the scope makes an object of a session shared
// with other callers. name is the object's name, as far as it is known.
func Unshared(c *Call, of config.Who, scope sandbox.Scope, name string) error {
	if Allowed(c, of.Tenant, of.Agent, of.Session, scope) {
		return nil
	}
	return &sandbox.Error{
		Code: sandbox.CodePermissionDeny, Op: "find", Resource: name, Message: "others share this sandbox",
		Hint: "this needs a token for all who share it",
	}
}

// Sandboxed is [Find] for callers that run something or touch files: a session that
// by the current settings runs without a sandbox has none, and no request over
// HTTP runs anything outside of a sandbox.
func Sandboxed(c *Call, f Finder) (lookupSandbox, error) {
	s, err := Find(c, f)
	if err != nil {
		return s, err
	}
	s.Usable, err = InsideWith(f, s.Who, c.Settings)
	return s, err
}

// Inside returns an error unless commands of the session run in a sandbox.
func Inside(f Finder, who config.Who) (manager.Usable, error) { return InsideWith(f, who, nil) }

// InsideWith is [Inside] for a call with flags; nil is none.
func InsideWith(f Finder, who config.Who, flags *config.SandboxSettings) (manager.Usable, error) {
	u, err := f.Usable(who, flags)
	if err == nil && u.Place != manager.Sandboxed {
		err = &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "find", Message: "this session has no sandbox: " + u.Reason, Hint: "nothing runs outside of sandboxes over HTTP"}
	}
	return u, err
}

// Allowed reports whether the caller may name what belongs to that session. What
// agents or sessions share does not belong to one session.
func Allowed(c *Call, tenant, agent, session string, scope sandbox.Scope) bool {
	return Owns(c.Caller, tenant, agent, session, scope)
}

// Owns is [Allowed] for callers without the call of a route.
func Owns(c auth.Caller, tenant, agent, session string, scope sandbox.Scope) bool {
	claims := token.Claims{Role: c.Role, Tenant: c.Tenant, Agent: c.Agent, Session: c.Session}
	switch scope {
	case sandbox.ScopeAgent:
		session = ""
	case sandbox.ScopeShared:
		agent, session = "", ""
	}
	return claims.Allows(tenant, agent, session)
}

// notFound returns the error for a sandbox that does not exist, or that belongs
// to another caller.
func notFound(name string) error {
	return &sandbox.Error{Code: sandbox.CodeNotFound, Op: "find", Resource: name, Message: "there is no such sandbox", Hint: "GET /v1/sandboxes lists those that there are"}
}
