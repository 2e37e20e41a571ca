// Package named finds the sandbox that the path of a request names, for
// whoever asks: somebody else's is not found, in the same words as one that
// there never was.
package named

import (
	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/daemon/route"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/registry"
)

// Records tell of sandboxes; a [manager.Manager] is one.
type Records interface {
	// Recorded is what is on record of a tenant's sandbox or browser.
	Recorded(tenant, name string) (registry.Record, error)
	// Name is what the sandbox of a session is called.
	Name(who config.Who, flags *config.SandboxSettings) (string, error)
}

var _ Records = (*manager.Manager)(nil)

// A Box is a sandbox that the caller may use.
type Box struct {
	Record registry.Record
	// Who is the session on whose behalf it is used: that which it was made
	// for where the caller may name that, and else the caller's own, which
	// shares it.
	Who config.Who
}

// Request asks for the box, which must be there or come back by itself.
func (b Box) Request() manager.Request { return manager.Request{Who: b.Who, MustExist: true} }

// Sandbox finds the sandbox of the path's {name}.
func Sandbox(c *route.Call, of Records) (Box, error) {
	name := c.Path("name")
	rec, err := of.Recorded(c.Who.Tenant, name)
	switch {
	case sandbox.IsNotFound(err):
		return Box{}, route.Hide("sandbox", name)
	case err != nil:
		return Box{}, err
	case rec.Kind == sandbox.KindBrowser:
		return Box{}, route.Hide("sandbox", name)
	}
	who := config.Who{Tenant: rec.Tenant, Agent: rec.Agent, Session: rec.Session}
	if c.Caller.Claims.Allows(who.Tenant, who.Agent, who.Session) {
		return Box{rec, who}, nil
	}
	// A session may share the sandbox that another one was the first to use.
	if own, err := of.Name(c.Who, nil); err == nil && own == name && c.Caller.Claims.Allows(c.Who.Tenant, c.Who.Agent, c.Who.Session) {
		return Box{rec, c.Who}, nil
	}
	return Box{}, route.Hide("sandbox", name)
}
