//go:build !sandbox_front && !sandbox_engine

package main

import (
	"context"

	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/sdk"
)

// remoteManager returns the sandboxes of the daemon that o names.
func remoteManager(o cli.Options) (cli.Manager, func(), error) {
	d, err := remote(o.Host)
	if err != nil {
		return nil, nil, err
	}
	return d.Asking(o.Approver, o.Log), func() { d.Close() }, nil
}

// remote returns a client of the daemon at h. The caller closes it.
func remote(h cli.Host) (*sdk.Manager, error) {
	return sdk.NewManager(h.Address, sdk.APIOptions{Token: h.Token})
}

// remoteViolations returns the violations that the daemon at h has on record.
func remoteViolations(h cli.Host) (cli.ViolationStore, func(), error) {
	d, err := remote(h)
	if err != nil {
		return nil, nil, err
	}
	return d.Violations(), func() { d.Close() }, nil
}

// remoteEvidence returns the evidence that the daemon at h has on record.
func remoteEvidence(h cli.Host) (cli.EvidenceStore, func(), error) {
	d, err := remote(h)
	if err != nil {
		return nil, nil, err
	}
	return d.Evidence(), func() { d.Close() }, nil
}

// remoteBrowsers returns the browsers of the daemon at h.
func remoteBrowsers(h cli.Host) (cli.BrowserDisplay, func(), error) {
	d, err := remote(h)
	if err != nil {
		return nil, nil, err
	}
	return d.Browsers(), func() { d.Close() }, nil
}

// remoteTokens returns the tokens of the daemon at h.
func remoteTokens(h cli.Host) (cli.TokenStore, func(), error) {
	d, err := remote(h)
	if err != nil {
		return nil, nil, err
	}
	return d.Tokens(), func() { d.Close() }, nil
}

// daemonPorts are those of a daemon, whose programs all run in the same sandboxes.
type daemonPorts struct{ *sdk.ManagerPorts }

// Find implements cli.PortStore.
func (p daemonPorts) Find(ctx context.Context, r manager.Request) (at cli.PortPlace, err error) {
	at.Sandbox, err = p.ManagerPorts.Find(ctx, r)
	return at, err
}

// List implements cli.PortStore.
func (p daemonPorts) List(ctx context.Context, r manager.Request) (at cli.PortPlace, ports []sdk.Port, err error) {
	at.Sandbox, ports, err = p.ManagerPorts.List(ctx, r)
	return at, ports, err
}

// remotePorts returns what reaches ports inside the sandboxes of the daemon at h.
func remotePorts(h cli.Host) (cli.PortStore, func(), error) {
	d, err := remote(h)
	if err != nil {
		return nil, nil, err
	}
	return daemonPorts{d.Ports()}, func() { d.Close() }, nil
}

// remoteCheckpoints returns what keeps the checkpoints of the daemon at h.
func remoteCheckpoints(h cli.Host) (cli.CheckpointStore, func(), error) {
	d, err := remote(h)
	if err != nil {
		return nil, nil, err
	}
	return d.Checkpoints(), func() { d.Close() }, nil
}

// remoteChanges returns what shows and applies the changes in workspaces of the
// daemon at h.
func remoteChanges(h cli.Host) (cli.ChangeStore, func(), error) {
	d, err := remote(h)
	if err != nil {
		return nil, nil, err
	}
	return d.Changes(), func() { d.Close() }, nil
}
