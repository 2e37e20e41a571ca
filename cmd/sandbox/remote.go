//go:build !sandbox_front && !sandbox_engine

package main

import (
	"github.com/bulkhead-dev/sandbox/internal/cli"
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
