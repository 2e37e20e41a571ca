//go:build !sandbox_front

package main

import (
	"github.com/bulkhead-dev/sandbox/internal/cli"
)

// Browsers implements cli.Backend.
func (backend) Browsers(o cli.Options) (cli.BrowserDesk, func(), error) {
	h, err := open(o)
	if err != nil {
		return nil, nil, err
	}
	d, err := h.Browsers()
	if err != nil {
		h.Close()
		return nil, nil, err
	}
	return d, h.Close, nil
}
