package attack

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// Sizes of the destructive attempts, in bytes.
const (
	slack       = 64 << 20 // how much the host's free space may fall
	diskAttempt = 2 << 30
	logAttempt  = 1 << 30
	memAttempt  = 4 << 30
)

func destructiveAttempts() []attempt {
	return []attempt{
		{name: "replace-socket", what: "take the guest's place at its socket", run: falseGuest},
		{name: "signal-1", what: "end the first process by any signal", run: thenUnharmed("signal-1")},
		{name: "kill-all", what: "end everything by kill -9 -1", run: thenUnharmed("kill-all")},
		{name: "hoard-inotify", what: "take the kernel's inotify instances from a neighbour", run: hoardInotify},
		{name: "fork-bomb", what: "fork without end", run: forkBomb},
		{name: "starve-1", what: "keep the guest from the processor, so that nothing can be ended", run: starve},
		{name: "memory", what: "take more memory than the limit", run: memory},
		{name: "fill-memory-folders", what: "fill every memory-backed folder", run: fillMemoryFolders},
		{name: "fill-log", what: "fill the host's disk through the log of the first process", run: fillLog},
		{name: "fill-home", what: "fill the home beyond its bound", run: fillHome},
		{name: "fill-disk", what: "fill the host's disk through every writable folder", run: fillDisk},
		{name: "fill-workspace", what: "fill the host's disk through the workspace", run: fillWorkspace},
		{name: "host-disk", what: "leave the host with less free space", run: hostDisk},
		{name: "still-alive", what: "be unusable after all of this", run: func(ctx context.Context, r *rig) finding {
			return r.unharmed(ctx, finding{Contained, "all attempts made"})
		}},
	}
}

// thenUnharmed runs a probe and looks who still lives.
func thenUnharmed(name string) func(context.Context, *rig) finding {
	return func(ctx context.Context, r *rig) finding {
		f := r.probe(ctx, name)
		if f.outcome == Unproven {
			// The probe may have brought down the connection it reports by.
			if err := r.answers(context.WithoutCancel(ctx), r.sb); err != nil {
				return finding{Escaped, "the sandbox does not answer any more: " + err.Error()}
			}
			return f
		}
		return r.unharmed(ctx, f)
	}
}

// forkBomb lets the bomb burn for a while, watches from outside that the
// number of processes stays bounded, ends it, and looks that nothing is left.
func forkBomb(ctx context.Context, r *rig) finding {
	limit := r.spec.Resources.PIDs
	if limit <= 0 {
		return finding{Unproven, "the settings set no limit of processes"}
	}
	before := r.processes(ctx)
	bctx, end := context.WithCancel(ctx)
	defer end()
	p, err := r.start(bctx, r.sb, "fork-bomb")
	if err != nil {
		return finding{Unproven, "the bomb could not be started: " + err.Error()}
	}
	if err := p.ready(ctx); err != nil {
		return finding{Unproven, "the bomb did not start: " + err.Error()}
	}
	peak := r.peakProcesses(ctx, r.opts.Burn)
	end()
	p.stdin.Close()
	start := time.Now()
	if _, err := p.proc.Wait(); err != nil && sandbox.CodeOf(err) != sandbox.CodeExecution {
		return finding{Escaped, "the bomb could not be ended: " + err.Error()}
	}
	took := time.Since(start)
	if peak > limit {
		return finding{Escaped, fmt.Sprintf("%d processes, more than the limit of %d", peak, limit)}
	}
	seen := fmt.Sprintf("at most %d of %d processes, ended in %d ms", peak, limit, took.Milliseconds())
	if left, ok := r.settle(ctx, before); !ok {
		return finding{Escaped, fmt.Sprintf("%s; %d processes more than before are left", seen, left)}
	}
	return r.unharmed(ctx, finding{Contained, seen})
}

// processes asks how many processes the sandbox has; -1 is not known.
func (r *rig) processes(ctx context.Context) int64 {
	u, err := r.sb.Usage(ctx)
	if err != nil {
		return -1
	}
	return u.PIDs
}

// peakProcesses watches the number of processes for d.
func (r *rig) peakProcesses(ctx context.Context, d time.Duration) int64 {
	ctx, done := context.WithTimeout(ctx, d)
	defer done()
	var peak int64
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		peak = max(peak, r.processes(ctx))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return peak
		}
	}
}

// settle waits up to half a minute until no more processes are left than before, with
// a few for helpers that the guest keeps ready.
func (r *rig) settle(ctx context.Context, before int64) (left int64, ok bool) {
	const spare = 24
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer done()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		now := r.processes(ctx)
		if now < 0 || before < 0 {
			return 0, true // not known; whether the sandbox answers is still checked
		}
		if now <= before+spare {
			return now - before, true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return now - before, false
		}
	}
}

// starve looks whether a command that takes the processor from the guest can
// still be ended.
func starve(ctx context.Context, r *rig) finding {
	const patience = 30 * time.Second // whether, not how fast on a busy machine
	bctx, end := context.WithCancel(ctx)
	defer end()
	p, err := r.start(bctx, r.sb, "starve-1")
	if err != nil {
		return finding{Unproven, "the probe could not be started: " + err.Error()}
	}
	if err := p.ready(ctx); err != nil {
		return finding{Unproven, "the probe did not start: " + err.Error()}
	}
	r.peakProcesses(ctx, r.opts.Burn) // let it burn
	end()
	p.stdin.Close()
	start := time.Now()
	_, err = p.proc.Wait()
	took := time.Since(start)
	if err != nil && sandbox.CodeOf(err) != sandbox.CodeExecution {
		return finding{Escaped, "the command could not be ended: " + err.Error()}
	}
	seen := fmt.Sprintf("the command was ended in %d ms", took.Milliseconds())
	if took > patience {
		return finding{Escaped, seen}
	}
	return r.unharmed(ctx, finding{Contained, seen})
}

// memory asks for 4 GiB, or for more than the limit where that is larger.
func memory(ctx context.Context, r *rig) finding {
	if r.opts.NoMemoryLimit != "" {
		return finding{Skipped, "warning: " + r.opts.NoMemoryLimit}
	}
	limit := r.spec.Resources.Memory
	if limit <= 0 {
		return finding{Unproven, "the settings set no limit of memory"}
	}
	want := max(int64(memAttempt), max(limit, r.spec.Resources.MemorySwap)+slack)
	f := r.probe(ctx, "memory", strconv.FormatInt(want, 10))
	if f.outcome == Contained {
		f.seen = fmt.Sprintf("asked for %s with a limit of %s: %s", size(want), size(limit), f.seen)
	}
	return r.unharmed(ctx, f)
}

// fillMemoryFolders may write what the Spec gives to all of them together.
func fillMemoryFolders(ctx context.Context, r *rig) finding {
	given := r.spec.Resources.ShmSize
	for _, t := range r.spec.Tmpfs {
		given += t.Size
	}
	f := r.probe(ctx, "fill-memory-folders", strconv.FormatInt(given+slack, 10))
	r.clean(ctx)
	return r.unharmed(ctx, f)
}

func (r *rig) clean(ctx context.Context) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer done()
	r.probe(ctx, "clean")
}

// hoardInotify needs a neighbour to take from.
func hoardInotify(ctx context.Context, r *rig) finding {
	if r.opts.Neighbour == nil {
		return finding{Skipped, "there is no neighbour to take from"}
	}
	p, err := r.start(ctx, r.sb, "hoard-inotify")
	if err != nil {
		return finding{Unproven, "the probe could not be started: " + err.Error()}
	}
	if err := p.ready(ctx); err != nil {
		p.finish(ctx)
		return finding{Unproven, "the probe did not start: " + err.Error()}
	}
	f := r.probeIn(ctx, r.opts.Neighbour, "one-inotify")
	if mine := p.finish(ctx); f.outcome == Contained {
		f.seen = mine.seen + "; " + f.seen
	}
	return f
}

func size(n int64) string { return strconv.FormatInt(n>>20, 10) + " MiB" }

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
