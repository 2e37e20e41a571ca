//go:build !sandbox_front

package main

import (
	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/cli"
)

// Browsers implements cli.Backend.
func (backend) Browsers(cli.Options) (cli.BrowserDesk, func(), error) {
	return nil, nil, sandbox.Errorf(sandbox.CodeUnsupported, "browser", "this program keeps no browsers")
}
