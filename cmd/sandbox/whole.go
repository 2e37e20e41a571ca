//go:build !sandbox_front

package main

import (
	"github.com/bulkhead-dev/sandbox/client"
	"github.com/bulkhead-dev/sandbox/client/conductor"
	"github.com/bulkhead-dev/sandbox/internal/cli"
)

// Conductor implements cli.Backend.
func (backend) Conductor(o cli.Options) (cli.Conductor, func(), error) {
	if o.Host.Remote() {
		return remote(o.Host)
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

// remote returns what has a daemon do it.
func remote(h cli.Host) (cli.Conductor, func(), error) {
	d, err := conductor.New(h.Address, client.Options{Token: h.Token})
	if err != nil {
		return nil, nil, err
	}
	return d, func() { d.Close() }, nil
}
