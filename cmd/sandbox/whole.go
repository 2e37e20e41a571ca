//go:build !sandbox_front

package main

import (
	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/manager"
)

// Manager implements cli.Backend.
func (backend) Manager(o cli.Options) (cli.Manager, func(), error) {
	if o.Host.Remote() {
		return remoteManager(o)
	}
	m, release, err := ownManager(o)
	if err != nil {
		return nil, nil, err
	}
	return m, release, nil
}

// ownManager returns the manager of the sandboxes of this machine, and a function
// that lets go of it.
func ownManager(o cli.Options) (*manager.Manager, func(), error) {
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
