//go:build !sandbox_front

package main

import (
	"context"

	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/orchestrator"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// Tokens implements cli.Backend. Neither settings nor an engine are needed.
func (backend) Tokens(o cli.Options) (cli.TokenStore, func(), error) {
	if o.Host.Remote() {
		return remoteTokens(o.Host)
	}
	state, err := orchestrator.OpenState(o.StateDir)
	if err != nil {
		return nil, nil, err
	}
	s, err := token.Open(state.Tokens())
	if err != nil {
		return nil, nil, err
	}
	return keptTokens{s}, func() {}, nil // it holds nothing
}

// keptTokens are the tokens of a folder. Its methods do not wait, so they ignore
// their contexts.
type keptTokens struct{ s *token.Store }

// Create implements cli.TokenStore.
func (k keptTokens) Create(_ context.Context, c token.Claims) (string, token.Token, error) {
	secret, id, err := k.s.Create(c)
	if err != nil {
		return "", token.Token{}, err
	}
	t, err := k.s.Get(id) // fails only if the token was revoked meanwhile
	return secret, t, err
}

// Get implements cli.TokenStore.
func (k keptTokens) Get(_ context.Context, id string) (token.Token, error) { return k.s.Get(id) }

// List implements cli.TokenStore.
func (k keptTokens) List(context.Context) (token.Listing, error) { return k.s.List() }

// Revoke implements cli.TokenStore.
func (k keptTokens) Revoke(_ context.Context, id string) ([]string, error) { return k.s.Revoke(id) }
