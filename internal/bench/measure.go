//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

const (
	// settle is the pause before each turn of one caller, and settleMany
	// that before each turn of many. rest is the pause before each command
	// of a caller that thinks between its commands.
	settle     = 50 * time.Millisecond
	settleMany = 300 * time.Millisecond
	rest       = 50 * time.Millisecond
	// sampleWithin bounds one sample. Nothing measured here comes near.
	sampleWithin = time.Minute
)

// A sample does the operation once, or by many callers at once, and returns
// the time that each took.
type sample func(ctx context.Context) ([]time.Duration, error)

// A way is one way of doing an operation.
type way struct {
	name  string
	turn  int // samples in each round that count
	take  sample
	lacks string // why it cannot be done; take is nil then
	// The samples of what can be done only once, before the rounds; take is nil
	// then.
	reported []time.Duration
}

// An operation is done by all its ways in turns.
type operation struct {
	name   string
	bytes  int64
	rounds int // of a full run
	// settle is the pause before each turn, in which ends what the turn
	// before has left to the engine or the kernel to clean up; 0 is settle.
	settle time.Duration
	// cold counts the first sample of a turn too. Otherwise it only warms
	// up what the pause and the turns of the others have cooled: back to
	// back all ways are faster, the plain engine too, and it would be unfair
	// to compare its cold commands with our warm ones.
	cold bool
	ways []way
	done func() error // lets go of what the ways hold; may be nil
}

// A Session is one run on one sandbox.
type Session struct {
	Rig    *rig
	Effort Effort
	Only   func(op string) bool // nil: every operation
	// Program is the path of sandbox(1); empty leaves its start out.
	Program string
	Guest   string // path of the guest that Program is to use
	Log     func(format string, args ...any)

	forwarding *forwards
	tree       *keptTree // nil until it is used

	payload *payloads
	local   *rigLocal // nil where the local provider does not work
	noLocal string    // why

	e2bRig *e2bRig // nil until it is used

	held []reportMemory // of operations that measure memory too
}

// Run measures everything. The results are in the order of the operations.
func (s *Session) Run(ctx context.Context) (Report, error) {
	rep := Report{Machine: s.Rig.Machine(), Mode: s.Effort.Name}
	begun := time.Now()
	var err error
	if s.payload, err = newPayloads(s.Rig, s.Effort.Large); err != nil {
		return rep, err
	}
	if s.Only == nil {
		rep.Memory, err = s.memory(ctx)
	} else {
		err = s.Rig.OpenRelay(ctx)
	}
	if err != nil {
		return rep, err
	}
	s.openLocal(ctx)
	for _, prepare := range s.operations() {
		if s.Only != nil && !s.Only(prepare.name) {
			continue
		}
		results, err := s.operate(ctx, prepare)
		if err != nil {
			return rep, err
		}
		rep.Results = append(rep.Results, results...)
	}
	rep.Memory = append(rep.Memory, s.held...)
	if s.Program != "" && (s.Only == nil || s.Only(opIdle)) {
		if rep.Idle, err = s.idle(ctx); err != nil {
			return rep, named(opIdle, "", err)
		}
	}
	rep.Took = time.Since(begun).Seconds()
	rep.Derive()
	return rep, nil
}

// A prepared operation is made when its turn comes.
type prepared struct {
	name string
	make func(ctx context.Context) (operation, error)
}

func (s *Session) operate(ctx context.Context, p prepared) ([]reportResult, error) {
	s.Log("%s", p.name)
	op, err := p.make(ctx)
	if err != nil {
		return nil, named(p.name, "", err)
	}
	op.name = p.name
	results, err := s.measure(ctx, op)
	if op.done != nil {
		if doneErr := op.done(); err == nil && doneErr != nil {
			err = named(op.name, "", doneErr)
		}
	}
	return results, err
}

// measure takes one turn of each way to warm up, and then the rounds.
func (s *Session) measure(ctx context.Context, op operation) ([]reportResult, error) {
	took := make([][]time.Duration, len(op.ways))
	begun := time.Now()
	for i := range op.ways {
		if _, err := takeTurn(ctx, op, i); err != nil {
			return nil, err
		}
	}
	for i, w := range op.ways {
		took[i] = w.reported
	}
	for round := range s.Effort.rounds(op.rounds) {
		if round >= s.Effort.Least && time.Since(begun) > s.Effort.Within {
			s.Log("%s: this machine is slow, ended after %d rounds", op.name, round)
			break
		}
		for _, i := range order(round, len(op.ways)) {
			times, err := takeTurn(ctx, op, i)
			if err != nil {
				return nil, err
			}
			took[i] = append(took[i], times...)
		}
	}
	results := make([]reportResult, len(op.ways))
	for i, w := range op.ways {
		results[i] = reportResult{Op: op.name, Way: w.name, Bytes: op.bytes, Summary: summarizeReport(took[i]), Unsupported: w.lacks}
	}
	return results, nil
}

// takeTurn takes the samples of one turn of the i-th way.
func takeTurn(ctx context.Context, op operation, i int) ([]time.Duration, error) {
	w := op.ways[i]
	if w.take == nil {
		return nil, nil
	}
	if err := pause(ctx, cmp.Or(op.settle, settle)); err != nil {
		return nil, named(op.name, w.name, err)
	}
	skip := 1
	if op.cold {
		skip = 0
	}
	var all []time.Duration
	for i := range skip + w.turn {
		ctx, done := context.WithTimeout(ctx, sampleWithin)
		times, err := w.take(ctx)
		done()
		if err != nil {
			return nil, named(op.name, w.name, err)
		}
		if i >= skip {
			all = append(all, times...)
		}
	}
	return all, nil
}

// timed is a sample of do, whose outcome check verifies after the clock has
// stopped. A nil check is for a do that cannot succeed wrongly.
func timed(do, check func(ctx context.Context) error) sample {
	return func(ctx context.Context) ([]time.Duration, error) {
		begun := time.Now()
		err := do(ctx)
		took := time.Since(begun)
		if err == nil && check != nil {
			err = check(ctx)
		}
		return []time.Duration{took}, err
	}
}

// pause waits, at most until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return sandbox.Errorf(sandbox.CodeTimeout, "measure", "given up: %w", context.Cause(ctx))
	}
}

func named(op, way string, err error) error {
	if way != "" {
		op += " (" + way + ")"
	}
	return fmt.Errorf("%s: %w", op, err)
}

// wrong is the error of an operation that did not do what it should.
func wrong(format string, args ...any) error {
	return sandbox.Errorf(sandbox.CodeExecution, "verify", format, args...)
}

// unsupported takes the reason out of err when that says that the sandbox
// lacks an ability; any other error stays one.
func unsupported(err error) (why string, rest error) {
	if sandbox.CodeOf(err) == sandbox.CodeUnsupported {
		return err.Error(), nil
	}
	return "", err
}
