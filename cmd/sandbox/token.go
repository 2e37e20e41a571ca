//go:build !sandbox_front

package main

import (
	"github.com/bulkhead-dev/sandbox/house"
	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// Tokens implements cli.Backend. Neither settings nor an engine are needed.
func (backend) Tokens(o cli.Options) (cli.TokenStore, func(), error) {
	state, err := house.OpenState(o.StateDir)
	if err != nil {
		return nil, nil, err
	}
	s, err := token.Open(state.Tokens())
	if err != nil {
		return nil, nil, err
	}
	return s, func() {}, nil // it holds nothing
}
