package sdk

import (
	"context"
	"net"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// ManagerPorts reach ports inside the sandboxes of sessions behind a daemon.
type ManagerPorts struct {
	d *Manager

	mu    sync.Mutex
	names map[config.Who]string // of sandboxes that were found; a session's always has the same
}

// Ports returns what reaches ports inside sandboxes.
func (d *Manager) Ports() *ManagerPorts {
	return &ManagerPorts{d: d, names: map[config.Who]string{}}
}

// at returns a client for the sandbox of the request, and the sandbox's name.
func (p *ManagerPorts) at(ctx context.Context, r manager.Request) (c *API, name string, err error) {
	if c, err = p.d.as(r.Who).WithSettings(r.Flags); err != nil {
		return nil, "", err
	}
	p.mu.Lock()
	name = p.names[r.Who]
	p.mu.Unlock()
	if name != "" {
		return c, name, nil
	}
	if name, err = p.d.ownSandbox(ctx, r.Who, "port"); err != nil {
		return nil, "", err
	}
	p.mu.Lock()
	p.names[r.Who] = name
	p.mu.Unlock()
	return c, name, nil
}

// ownSandbox returns the name of the sandbox in which commands of a session run.
func (d *Manager) ownSandbox(ctx context.Context, who config.Who, op string) (string, error) {
	page, err := d.as(who).ListSandboxes(ctx, ListOptions{Own: true})
	if err != nil {
		return "", err
	}
	if len(page.Items) == 0 {
		return "", &sandbox.Error{Code: sandbox.CodeNotFound, Op: op, Field: "session", Resource: who.Session, Message: "there is no sandbox for this session", Hint: "make one with: sandbox run"}
	}
	return page.Items[0].Name, nil
}

// Find returns the name of the sandbox.
func (p *ManagerPorts) Find(ctx context.Context, r manager.Request) (string, error) {
	_, name, err := p.at(ctx, r)
	return name, err
}

// List returns the ports at which programs inside listen.
func (p *ManagerPorts) List(ctx context.Context, r manager.Request) (string, []Port, error) {
	c, name, err := p.at(ctx, r)
	if err != nil {
		return "", nil, err
	}
	l, err := c.Ports(ctx, name)
	return name, l.Items, err
}

// Dial connects to a port inside; ctx bounds the connecting alone.
func (p *ManagerPorts) Dial(ctx context.Context, r manager.Request, port int) (net.Conn, error) {
	c, name, err := p.at(ctx, r)
	if err != nil {
		return nil, err
	}
	return c.DialPort(ctx, name, port)
}

// Share makes a link to a port.
func (p *ManagerPorts) Share(ctx context.Context, r manager.Request, s api.SharePort) (NewShare, error) {
	c, name, err := p.at(ctx, r)
	if err != nil {
		return NewShare{}, err
	}
	return c.SharePort(ctx, name, s)
}

// Shares lists the links to ports that are in force.
func (p *ManagerPorts) Shares(ctx context.Context, r manager.Request) (string, []Share, error) {
	c, name, err := p.at(ctx, r)
	if err != nil {
		return "", nil, err
	}
	l, err := c.Shares(ctx, name)
	return name, l.Items, err
}

// Revoke ends a link and cuts its connections.
func (p *ManagerPorts) Revoke(ctx context.Context, r manager.Request, id string) error {
	c, name, err := p.at(ctx, r)
	if err != nil {
		return err
	}
	return c.RevokeShare(ctx, name, id)
}
