//go:build linux

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
)

// locally adds the local sandbox to the ways of op, or why there is none.
func (s *Session) locally(op operation, turn int, take func(l *rigLocal) sample) operation {
	w := way{name: WayLocal, turn: turn, lacks: s.noLocal}
	if s.local != nil {
		w.take = take(s.local)
	}
	op.ways = append(op.ways, w)
	return op
}

// openLocal puts the local sandbox up. A machine on which none stands is
// measured without.
func (s *Session) openLocal(ctx context.Context) {
	var err error
	if s.local, err = s.Rig.OpenLocal(ctx); err != nil {
		s.local, s.noLocal = nil, err.Error()
		s.Log("no local sandbox: %v", err)
	}
}

// sandboxStartHere puts a sandbox up in this program, with a definition that is there
// already, and runs its first command, beside bubblewrap alone with the same
// namespaces and mounts and nothing of ours. The sandbox is taken down after the
// clock has stopped.
func (s *Session) sandboxStartHere(context.Context) (operation, error) {
	op := operation{rounds: 40, cold: true}
	if s.local == nil {
		op.ways = []way{{name: WayHand, lacks: s.noLocal}}
		return s.locally(op, 1, nil), nil
	}
	op.ways = []way{{name: WayHand, turn: 1, take: timed(hostExec(s.local.Hand...), nil)}}
	spec, err := s.Rig.LocalSpec("first")
	if err != nil {
		return op, err
	}
	p := s.Rig.LocalProvider()
	remove := func(ctx context.Context) error { return p.Remove(ctx, spec.Name) }
	begin := func(ctx context.Context) error {
		if _, err := p.Create(ctx, spec); err != nil {
			return err
		}
		sb, err := p.Open(ctx, spec)
		if err != nil {
			return err
		}
		defer sb.Close()
		return start(sb, truePath)(ctx)
	}
	return s.locally(op, 1, func(*rigLocal) sample { return timed(begin, remove) }), nil
}

// oneShot is what a person or a job pays for one command: sandbox(1) behind
// the local sandbox, beside bubblewrap typed by hand. The session is there
// already, its sandbox is not: that ends with each call.
func (s *Session) oneShot(context.Context) (operation, error) {
	if s.local == nil {
		return operation{ways: []way{{name: WayHand, lacks: s.noLocal}, {name: WayLocal, lacks: s.noLocal}}}, nil
	}
	settings := filepath.Join(s.Rig.StateDir(), "bench-settings.json")
	if err := os.WriteFile(settings, []byte("{}\n"), 0o600); err != nil {
		return operation{}, err
	}
	program := func(ctx context.Context) error {
		var out, errOut bytes.Buffer
		c := exec.CommandContext(ctx, s.Program, "--config", settings, "--state-dir", s.Rig.StateDir(), "--provider", "local", "--session", "bench-one-shot", "run", "--", truePath)
		c.Env = append(os.Environ(), "SANDBOX_GUEST="+s.Guest)
		c.Stdout, c.Stderr = &out, &errOut
		return silent(0, &out, &errOut, c.Run())
	}
	return operation{rounds: 60, cold: true, ways: []way{
		{name: WayHand, turn: 1, take: timed(hostExec(s.local.Hand...), nil)},
		{name: WayLocal, turn: 1, take: timed(program, nil)},
	}}, nil
}
