//go:build !sandbox_front

package main

import (
	"github.com/bulkhead-dev/sandbox/browser/desk"
	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/manager/rooms"
)

// Browsers implements cli.Backend.
func (backend) Browsers(o cli.Options) (cli.BrowserDesk, func(), error) {
	conductor, letGo, err := backend{}.Conductor(o)
	if err != nil {
		return nil, nil, err
	}
	d := desk.New(rooms.Of(conductor.(*manager.Manager)), o.Log)
	return d, func() {
		d.Close()
		letGo()
	}, nil
}
