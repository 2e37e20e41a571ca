//go:build !sandbox_front

package main

import (
	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/sdk"
)

// Manager implements cli.Backend.
func (backend) Manager(o cli.Options) (cli.Manager, func(), error) {
	if o.Host.Remote() {
		d, err := remote(o.Host)
		if err != nil {
			return nil, nil, err
		}
		return d.Asking(o.Approver, o.Log), func() { d.Close() }, nil
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
	return m, h.Close, nil
}

// Images implements cli.Backend.
func (backend) Images(o cli.Options) (cli.ImageStore, func(), error) {
	h, err := open(o)
	if err != nil {
		return nil, nil, err
	}
	s, err := h.Images()
	if err != nil {
		h.Close()
		return nil, nil, err
	}
	return s, h.Close, nil
}

// remote returns what has a daemon do it. It is to be closed.
func remote(h cli.Host) (*sdk.Manager, error) {
	return sdk.NewManager(h.Address, sdk.APIOptions{Token: h.Token})
}

// remoteViolations are those that a daemon has on record.
func remoteViolations(h cli.Host) (cli.ViolationStore, func(), error) {
	d, err := remote(h)
	if err != nil {
		return nil, nil, err
	}
	return d.Violations(), func() { d.Close() }, nil
}

// remoteEvidence is what a daemon has on record.
func remoteEvidence(h cli.Host) (cli.EvidenceStore, func(), error) {
	d, err := remote(h)
	if err != nil {
		return nil, nil, err
	}
	return d.Evidence(), func() { d.Close() }, nil
}
