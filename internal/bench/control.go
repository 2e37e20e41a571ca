//go:build linux

package main

import (
	"context"
	"time"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/manager"
)

// terms are what the manifest of the work and the settings by default come to.
func terms(m grant.Manifest) (*grant.Terms, error) {
	res, err := config.Resolve(nil, config.Who{Agent: config.DefaultAgent, Session: config.DefaultSession}, nil)
	if err != nil {
		return nil, err
	}
	rules, err := config.GrantPolicy(res, config.Inside{}, m)
	if err != nil {
		return nil, err
	}
	return grant.Prepare(m, rules)
}

// profile builds the profile of a call, as each call has it built once.
func (s *Session) profile(context.Context) (operation, error) {
	work := workRig(0)
	t, err := terms(work.Manifest)
	if err != nil {
		return operation{}, err
	}
	take := func(context.Context) ([]time.Duration, error) {
		begun := time.Now()
		p, err := t.Build(work.Grant, begun)
		took := time.Since(begun)
		if err == nil && len(p.Capabilities) == 0 {
			err = wrong("the profile allows nothing")
		}
		return []time.Duration{took}, err
	}
	return operation{rounds: 50, ways: []way{{name: WayHost, turn: 20, take: take}}}, nil
}

// guard holds operations against a profile, one after the other.
func (s *Session) guard(context.Context) (operation, error) {
	work := workRig(0)
	t, err := terms(work.Manifest)
	if err != nil {
		return operation{}, err
	}
	p, err := t.Build(work.Grant, time.Now())
	if err != nil {
		return operation{}, err
	}
	g, err := grant.Compile(p)
	if err != nil {
		return operation{}, err
	}
	ops := []grant.Operation{
		{Kind: grant.OpFsRead, Path: "/workspace/src/main.go"},
		{Kind: grant.OpFsWrite, Path: "/workspace/out", Data: []byte("text")},
		{Kind: grant.OpProcExec, Tool: "git", Args: []string{"log", "main"}},
		{Kind: grant.OpTmpAlloc, Bytes: 1 << 16},
	}
	next := 0
	take := func(context.Context) ([]time.Duration, error) {
		op := ops[next%len(ops)]
		next++
		begun := time.Now()
		_, err := g.Check(op, grant.State{Now: begun})
		return []time.Duration{time.Since(begun)}, err
	}
	return operation{rounds: 50, ways: []way{{name: WayHost, turn: 40, take: take}}}, nil
}

// underGrant reads a file under a grant, with begin and end on record and without.
func (s *Session) underGrant(ctx context.Context) (operation, error) {
	const size = 4 << 10
	o, err := s.Rig.OpenOperators(ctx, size)
	if err != nil {
		return operation{}, err
	}
	read := func(m *manager.Manager) func(context.Context) ([]time.Duration, error) {
		return func(ctx context.Context) ([]time.Duration, error) {
			begun := time.Now()
			n, err := o.Read(ctx, m)
			took := time.Since(begun)
			if err == nil && n != size {
				err = wrong("%d bytes of %d came", n, size)
			}
			return []time.Duration{took}, err
		}
	}
	return operation{rounds: 60, ways: []way{
		{name: WaySilent, turn: 10, take: read(o.Silent)},
		{name: WaySocket, turn: 10, take: read(o.Recorded)},
	}}, nil
}
