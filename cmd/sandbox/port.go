//go:build !sandbox_front

package main

import (
	"context"
	"net"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// Ports implements cli.Backend.
func (backend) Ports(o cli.Options) (cli.PortStore, func(), error) {
	if o.Host.Remote() {
		return remotePorts(o.Host)
	}
	h, err := open(o)
	if err != nil {
		return nil, nil, err
	}
	m, err := h.Manager()
	if err != nil {
		h.Close()
		return nil, nil, err
	}
	return ownPorts{m}, h.Close, nil
}

// ownPorts are those of sandboxes of this machine.
type ownPorts struct{ m *manager.Manager }

// Find implements cli.PortStore.
func (p ownPorts) Find(ctx context.Context, r manager.Request) (at cli.PortPlace, err error) {
	err = p.m.WithSandbox(ctx, r, func(sb sandbox.Sandbox, _ sandbox.Spec) error {
		at = placeOf(sb)
		return nil
	})
	return at, err
}

func placeOf(sb sandbox.Sandbox) cli.PortPlace {
	i := sb.Info()
	return cli.PortPlace{Sandbox: i.Name, Alone: i.Provider == "local" || i.Provider == "landlock"}
}

// List implements cli.PortStore.
func (p ownPorts) List(ctx context.Context, r manager.Request) (at cli.PortPlace, ports []api.Port, err error) {
	err = p.m.WithSandbox(ctx, r, func(sb sandbox.Sandbox, _ sandbox.Spec) error {
		at = placeOf(sb)
		found, err := manager.PortsOf(ctx, sb)
		for _, one := range found {
			ports = append(ports, api.Port(one))
		}
		return err
	})
	return at, ports, err
}

// Dial implements cli.PortStore.
func (p ownPorts) Dial(ctx context.Context, r manager.Request, port int) (net.Conn, error) {
	return p.m.DialPort(ctx, r, port)
}

// Share implements cli.PortStore.
func (ownPorts) Share(context.Context, manager.Request, api.SharePort) (api.NewShare, error) {
	return api.NewShare{}, cli.NeedsDaemon("port share")
}

// Shares implements cli.PortStore.
func (ownPorts) Shares(context.Context, manager.Request) (string, []api.Share, error) {
	return "", nil, cli.NeedsDaemon("port shares")
}

// Revoke implements cli.PortStore.
func (ownPorts) Revoke(context.Context, manager.Request, string) error {
	return cli.NeedsDaemon("port revoke")
}
