package providertest

import (
	"bytes"
	"context"
	"runtime"
	"runtime/metrics"
	"sync"
)

// pressureChecks hold that output is never buffered without bound.
func pressureChecks() []Check {
	return []Check{
		{Name: "100 MB of output need little memory", run: largeOutput, alone: true},
		{Name: "a reader that waits does not stop other commands", run: slowReader},
		{Name: "what is not read can be cancelled", run: cancelUnread},
		{Name: "endless output can be cancelled", run: cancelEndless},
	}
}

const (
	outputSize  = 100 << 20
	memoryBound = 32 << 20
)

// A meter counts zero bytes and notes the largest heap on the way. What
// looks like too much is looked at again without the garbage of others.
type meter struct {
	n, others int64
	next      int64
	bound     uint64
	peak      uint64
}

func (m *meter) Write(p []byte) (int, error) {
	m.others += int64(len(p) - bytes.Count(p, []byte{0})) // which the race detector does not slow down
	m.n += int64(len(p))
	if m.n >= m.next {
		now := liveHeap()
		if now > m.bound {
			runtime.GC()
			now = liveHeap()
		}
		m.peak = max(m.peak, now)
		m.next = m.n + 1<<20
	}
	return len(p), nil
}

// liveHeap returns the bytes of heap objects, dead ones not yet swept included.
func liveHeap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

func largeOutput(r *rig) {
	_, sb := r.box("a")
	runtime.GC()
	base := liveHeap()
	m := &meter{bound: base + memoryBound}
	c := r.h.Programs.Zeros(outputSize)
	c.Stdout = m
	exit := r.exit(r.start(r.ctx, sb, c))
	if exit.Code != 0 || m.n != outputSize || m.others != 0 {
		r.Errorf("%+v, %d of %d bytes, %d of them wrong", exit, m.n, outputSize, m.others)
	}
	if m.peak > m.bound {
		r.Errorf("memory grew by %d MiB, at most %d are allowed", (m.peak-base)>>20, memoryBound>>20)
	}
}

func slowReader(r *rig) {
	_, sb := r.box("a")
	g := newGate()
	c := r.h.Programs.Zeros(4 << 20)
	c.Stdout = g
	p := r.start(r.ctx, sb, c)
	r.awaitReached(g)
	r.works(sb) // while p waits for its reader
	close(g.open)
	if exit := r.exit(p); exit.Code != 0 {
		r.Errorf("%+v", exit)
	}
}

// cancelUnread cancels while the reader is stuck: the processes must end
// although their output was never read.
func cancelUnread(r *rig) {
	_, sb := r.box("a")
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	g := newGate()
	open := sync.OnceFunc(func() { close(g.open) })
	defer open()
	marker, writer := newMarker(), newMarker()
	tree := r.tree(ctx, sb, marker)
	c := r.h.Programs.Writer(writer)
	c.Stdout = g
	p := r.start(ctx, sb, c)
	r.awaitReached(g)
	r.awaitCount(sb, writer, 1)
	runtime.GC()
	base := liveHeap()
	cancel()
	r.killed(sb, tree, marker)
	r.awaitCount(sb, writer, 0)
	runtime.GC()
	if grown := liveHeap(); grown > base+memoryBound {
		r.Errorf("memory grew by %d MiB while nothing was read", (grown-base)>>20)
	}
	open()
	if exit := r.exit(p); exit.Signal != "KILL" {
		r.Errorf("%+v, want it killed", exit)
	}
	r.works(sb)
}

func cancelEndless(r *rig) {
	_, sb := r.box("a")
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	m := &stopAt{limit: 8 << 20, stop: cancel}
	c := r.h.Programs.Endless()
	c.Stdout = m
	if exit := r.exit(r.start(ctx, sb, c)); exit.Signal != "KILL" {
		r.Errorf("%+v, want it killed", exit)
	}
	r.works(sb)
}

// A stopAt calls stop when limit bytes have come.
type stopAt struct {
	n, limit int
	stop     func()
}

func (s *stopAt) Write(p []byte) (int, error) {
	if s.n += len(p); s.n >= s.limit {
		s.stop()
	}
	return len(p), nil
}
