package attack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// reportPrefix starts the line that a probe reports with.
const reportPrefix = "probe: "

// maxOutput bounds what is kept of a probe's output in bytes.
const maxOutput = 256 << 10

// A rig makes attempts in one sandbox.
type rig struct {
	sb     sandbox.Sandbox
	spec   sandbox.Spec
	opts   Options
	gvisor bool

	freeAtStart    map[string]int64 // bytes, by watched folder
	writtenAtStart int64            // bytes that the sandbox had written to disks
}

func newRig(sb sandbox.Sandbox, s sandbox.Spec, o Options) *rig {
	if len(o.Probe) == 0 {
		o.Probe = []string{probePath, "probe"}
	}
	if o.Timeout <= 0 {
		o.Timeout = 60 * time.Second
	}
	if o.Burn <= 0 {
		o.Burn = 2 * time.Second
	}
	r := &rig{sb: sb, spec: s, opts: o}
	r.freeAtStart = r.free()
	return r
}

// detectRuntime asks inside whose kernel it is. Settings do not tell for
// certain: the engine's default runtime may be gVisor's.
func (r *rig) detectRuntime(ctx context.Context) string {
	ctx, done := context.WithTimeout(ctx, r.opts.Timeout)
	defer done()
	r.writtenAtStart = r.written(ctx)
	f := r.probe(ctx, "kernel-log")
	r.gvisor = f.outcome == Contained && strings.Contains(f.seen, "gVisor")
	if r.gvisor {
		return "gvisor"
	}
	return "linux"
}

// probe runs one probe in the sandbox and returns what it reports.
func (r *rig) probe(ctx context.Context, args ...string) finding {
	return r.probeIn(ctx, r.sb, args...)
}

func (r *rig) probeIn(ctx context.Context, sb sandbox.Sandbox, args ...string) finding {
	p, err := r.start(ctx, sb, args...)
	if err != nil {
		return finding{Unproven, "the probe could not be started: " + err.Error()}
	}
	return p.finish(ctx)
}

// A running probe.
type running struct {
	proc  sandbox.Process
	out   *capture
	stdin io.Closer
}

// start starts a probe whose standard input stays open until it is released.
func (r *rig) start(ctx context.Context, sb sandbox.Sandbox, args ...string) (*running, error) {
	out := newCapture(maxOutput)
	pr, pw := io.Pipe()
	proc, err := sb.Start(ctx, sandbox.Command{
		Args: append(append([]string{}, r.opts.Probe...), args...), Dir: "/",
		Stdin: pr, Stdout: out, Stderr: out,
	})
	if err != nil {
		pw.Close()
		return nil, err
	}
	return &running{proc: proc, out: out, stdin: pw}, nil
}

// ready waits until the probe has said that it is in place, or has ended.
func (p *running) ready(ctx context.Context) error {
	return p.out.await(ctx, "ready\n")
}

// finish ends the probe's input, waits for it and reads its report.
func (p *running) finish(ctx context.Context) finding {
	p.stdin.Close()
	exit, err := p.proc.Wait()
	if err != nil {
		return finding{Unproven, "the probe's end is not known: " + err.Error()}
	}
	if ctx.Err() != nil {
		return finding{Unproven, "the probe did not end in time: " + ctx.Err().Error()}
	}
	return judge(p.out.String(), exit)
}

// judge reads the report out of a probe's output. A probe that was killed
// for what it did was contained; anything else without report proves nothing.
func judge(out string, exit sandbox.Exit) finding {
	for _, line := range lastLines(out) {
		rest, ok := strings.CutPrefix(line, reportPrefix)
		if !ok {
			continue
		}
		word, seen, _ := strings.Cut(rest, " ")
		switch o := Outcome(word); o {
		case Contained, Escaped, Skipped:
			return finding{o, seen}
		}
	}
	switch exit.Signal {
	case "SYS":
		return finding{Contained, "killed by the filter (SIGSYS)"}
	case "KILL":
		return finding{Contained, "killed (SIGKILL)"}
	}
	return finding{Unproven, fmt.Sprintf("the probe said nothing and ended with status %d %s: %s", exit.Code, exit.Signal, shorten(out, 200))}
}

// lastLines returns the lines of out, last one first.
func lastLines(out string) []string {
	lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
	for i, j := 0, len(lines)-1; i < j; i, j = i+1, j-1 {
		lines[i], lines[j] = lines[j], lines[i]
	}
	return lines
}

func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

// answers asks whether a sandbox still runs a command, for up to 20 s.
func (r *rig) answers(ctx context.Context, sb sandbox.Sandbox) error {
	ctx, done := context.WithTimeout(ctx, 20*time.Second)
	defer done()
	if f := r.probeIn(ctx, sb, "alive"); f.outcome != Contained || f.seen != "alive" {
		return errors.New(f.seen)
	}
	return nil
}

// unharmed adds to f whether the sandbox and its neighbour still answer.
func (r *rig) unharmed(ctx context.Context, f finding) finding {
	if f.outcome == Escaped {
		return f
	}
	// The attempt may have used up its time; whether anybody answers is
	// worth its own.
	ctx = context.WithoutCancel(ctx)
	if err := r.answers(ctx, r.sb); err != nil {
		return finding{Escaped, f.seen + "; afterwards the sandbox does not answer: " + err.Error()}
	}
	f.seen += "; the sandbox still answers"
	if r.opts.Neighbour == nil {
		return f
	}
	if err := r.answers(ctx, r.opts.Neighbour); err != nil {
		return finding{Escaped, f.seen + "; its neighbour does not: " + err.Error()}
	}
	f.seen += ", so does its neighbour"
	return f
}

// A capture keeps the first bytes of an output and lets others wait for a
// word in it.
type capture struct {
	mu      sync.Mutex
	limit   int
	buf     bytes.Buffer
	changed chan struct{} // closed and replaced at each write
}

func newCapture(limit int) *capture { return &capture{limit: limit, changed: make(chan struct{})} }

func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if room := c.limit - c.buf.Len(); room > 0 {
		c.buf.Write(p[:min(room, len(p))])
	}
	close(c.changed)
	c.changed = make(chan struct{})
	return len(p), nil
}

func (c *capture) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.String()
}

// await returns when word has been written, or with the error of ctx.
func (c *capture) await(ctx context.Context, word string) error {
	for {
		c.mu.Lock()
		have, changed := strings.Contains(c.buf.String(), word), c.changed
		c.mu.Unlock()
		if have {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
