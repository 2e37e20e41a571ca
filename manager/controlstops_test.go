//go:build linux

package manager_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// shell is a program of a call whose arguments are free.
func (c *controlled) shell(line string) manager.Operation {
	op := c.operation(grant.Operation{Kind: grant.OpProcExec, Tool: "sh", Args: []string{"-c", line}})
	sh := grant.Capability{Kind: grant.Process, Tool: "sh"}
	op.Grant.Capabilities = append(op.Grant.Capabilities, sh)
	op.Manifest.Capabilities = append(op.Manifest.Capabilities, sh)
	op.Manifest.Commands = append(op.Manifest.Commands, grant.Template{Tool: "sh", Rest: &grant.Argument{Pattern: `(?s).*`}})
	return op
}

// brood is a line that has children, and one that leaves the session, work
// without an end. Their arguments name the mark.
func brood(mark, work string) string {
	loop := ": " + mark + "; while :; do " + work + "; done"
	return fmt.Sprintf("(%s) & (%s) & setsid sh -c '%s' & setsid sh -c 'setsid sh -c \"%s\" & exit' & wait; %s", loop, loop, loop, loop, loop)
}

// marked returns the processes of the machine whose arguments name the mark.
func marked(mark string) (pids []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range all {
		if b, err := os.ReadFile(name); err == nil && strings.Contains(string(b), mark) {
			pids = append(pids, filepath.Base(filepath.Dir(name)))
		}
	}
	return pids
}

// A stoppedBy is one way to stop what runs.
type stoppedBy struct {
	name    string
	arrange func(*manager.Operation)
	stop    func(*manager.Operation, context.CancelFunc) // when it runs; nil waits
	at      func(*manager.Operation) time.Time           // when it was to end; nil is when stop was called
	code    sandbox.Code
	within  time.Duration // that the design has it end, at rest
}

// stops are the causes of a stop that do not depend on what runs. Those that no
// caller triggers come after a time, in which the operation has to have begun.
func (c *controlled) stops(after *time.Duration) []stoppedBy {
	return []stoppedBy{
		{name: "sandbox budget", code: sandbox.CodeBudgetExceeded, within: 100 * time.Millisecond,
			arrange: func(o *manager.Operation) { o.Grant.Budget.WallMs = after.Milliseconds() }},
		{name: "revoked", code: sandbox.CodePermissionDeny, within: 200 * time.Millisecond,
			stop: func(o *manager.Operation, _ context.CancelFunc) {
				must(c.t, c.ctl.Revoke(o.Grant))
			}},
		{name: "expired", code: sandbox.CodePermissionDeny, within: 200 * time.Millisecond,
			arrange: func(o *manager.Operation) { o.Grant.Expires = time.Now().Add(*after) },
			at:      func(o *manager.Operation) time.Time { return o.Grant.Expires }},
		{name: "parent revoked", code: sandbox.CodePermissionDeny, within: 200 * time.Millisecond,
			arrange: func(o *manager.Operation) { c.derive(o) },
			stop: func(o *manager.Operation, _ context.CancelFunc) {
				must(c.t, c.ctl.Revoke(o.Line[0]))
			}},
		{name: "caller gone", code: sandbox.CodeExecution, within: 200 * time.Millisecond,
			stop: func(_ *manager.Operation, cancel context.CancelFunc) { cancel() }},
	}
}

// derive puts a grant that is derived from that of the operation in its place.
func (c *controlled) derive(o *manager.Operation) {
	c.serial++
	child, err := o.Grant.Derive(grant.Wish{ID: fmt.Sprintf("g-%d", c.serial), Call: fmt.Sprintf("call-%d", c.serial), DecisionKey: fmt.Sprintf("key-%d", c.serial), Agent: o.Grant.Agent}, time.Now())
	must(c.t, err)
	o.Line = append([]grant.Grant{o.Grant}, o.Line...)
	o.Grant = child
}

// stopped runs an operation until it is stopped, and returns how long that
// took. runs reports whether it runs.
func (c *controlled) stopped(by stoppedBy, op manager.Operation, runs func() bool) (manager.Performed, time.Duration) {
	c.t.Helper()
	if by.arrange != nil {
		by.arrange(&op)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var done manager.Performed
	ended, began := make(chan struct{}), time.Now()
	var from time.Time
	go func() {
		defer close(ended)
		done, _ = c.Operate(ctx, op)
	}()
	if by.stop != nil {
		waitFor(c.t, func() *bool {
			if runs() {
				return new(bool)
			}
			return nil
		})
		from = time.Now()
		by.stop(&op, cancel)
	}
	<-ended
	took := time.Since(from)
	switch {
	case by.at != nil:
		took = time.Since(by.at(&op))
	case by.stop == nil:
		took = time.Since(began) - time.Duration(op.Grant.Budget.WallMs)*time.Millisecond
	}
	if done.Code != by.code || done.OK {
		c.t.Errorf("%s: %+v, want %s", by.name, done, by.code)
	}
	if took > time.Minute {
		c.t.Errorf("%s: it took %v", by.name, took)
	}
	return done, took
}

// failed holds that the record tells of something that was done and stopped.
// It reports whether anything was begun by then, which takes longer on a
// machine that is busy; after is doubled where it was not.
func (c *controlled) failed(by stoppedBy, done manager.Performed, effect grant.SideEffect, after *time.Duration) bool {
	c.t.Helper()
	must(c.t, c.ctl.Recorder.Flush(context.Background()))
	_, e := c.pair(done.ID)
	if by.stop == nil && len(e.Effects) == 0 && *after < 30*time.Second {
		*after *= 2
		return false
	}
	if e.Status != evidence.Failed || e.Code != done.Code || len(e.Effects) == 0 || e.Effects[0].Kind != effect {
		c.t.Errorf("%s: on record %+v", by.name, e)
	}
	return true
}

// tell logs how long some runs took.
func (c *controlled) tell(name string, took []time.Duration, within time.Duration) {
	slices.Sort(took)
	c.t.Logf("%s: %d runs ended within p50 %v, worst %v (at rest: %v)", name, len(took), took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond), within)
}

// TestProgramsAreStopped stops trees of processes, whoever stops them.
func TestProgramsAreStopped(t *testing.T) {
	t.Parallel()
	onControlled(t, "", func(c *controlled) {
		_, err := c.operate(c.shell("true")) // makes the sandbox
		must(c.t, err)
		after := 500 * time.Millisecond
		ways := append(c.stops(&after),
			stoppedBy{name: "processor budget", code: sandbox.CodeBudgetExceeded, within: 100 * time.Millisecond,
				arrange: func(o *manager.Operation) { o.Grant.Budget.CPUMs = 300 }},
			stoppedBy{name: "byte budget", code: sandbox.CodeBudgetExceeded, within: 100 * time.Millisecond,
				arrange: func(o *manager.Operation) { o.Grant.Budget.BytesIn = 100_000 }})
		for _, by := range ways {
			var took []time.Duration
			work := "sleep 0.05"
			switch by.name {
			case "processor budget":
				work = ":"
			case "byte budget":
				work = "echo text"
			}
			for len(took) < testenv.Rounds(1, 1, 3) {
				c.serial++
				mark := fmt.Sprintf("mark-%d-%s-%d-", os.Getpid(), c.wall, c.serial)
				op := c.shell(brood(mark, work))
				op.Grant.Budget.CPUMs = 600_000 // it may run on for a while before it is stopped
				done, d := c.stopped(by, op, func() bool { return len(marked(mark)) >= 5 })
				end := time.Now()
				waitFor(c.t, func() *bool {
					if len(marked(mark)) == 0 {
						return new(bool)
					}
					return nil
				})
				left := time.Since(end)
				switch by.name {
				case "processor budget": // as much as all its processes used of two processors is what it passed its budget by
					d = time.Duration(done.Used.CPUMs-300) * time.Millisecond
				case "byte budget":
					d = 0
					if done.Used.BytesIn != 100_000 {
						c.t.Errorf("%d bytes of 100000 came", done.Used.BytesIn)
					}
				}
				if c.failed(by, done, grant.EffectProcess, &after) {
					took = append(took, max(d, 0)+left)
				}
			}
			c.tell("a program, "+by.name, took, by.within)
		}
		must(c.t, c.ctl.Recorder.Close())
		c.verified()
	})
}

// hang has the host answer with a byte and then nothing. asked reports whether a
// path was asked for.
func (c *controlled) hang() (asked func(path string) bool) {
	var paths sync.Map
	c.net.Handle(testenv.Files, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths.Store(r.URL.Path, nil)
		w.Header().Set("Content-Type", "text/plain")
		w.Write([]byte("."))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	return func(path string) bool {
		_, yes := paths.Load(path)
		return yes
	}
}

// TestRequestsAreStopped stops a request and a page whose host hangs.
func TestRequestsAreStopped(t *testing.T) {
	t.Parallel()
	onControlled(t, "", func(c *controlled) {
		if c.wall == "docker" { // makes the browser
			_, err := c.operate(c.operation(grant.Operation{Kind: grant.OpBrowserNav, URL: c.net.URL("http", testenv.Files, "/greeting.txt")}))
			must(c.t, err)
		}
		asked := c.hang()
		for _, kind := range []grant.OpKind{grant.OpNetHTTP, grant.OpBrowserNav} {
			if kind == grant.OpBrowserNav && c.wall == "local" {
				continue // browsers live in containers
			}
			after := 500 * time.Millisecond
			for _, by := range c.stops(&after) {
				do := grant.Operation{Kind: kind}
				if kind == grant.OpNetHTTP {
					do.Method = "GET"
				}
				var took []time.Duration
				for len(took) < testenv.Rounds(1, 1, 2) {
					c.serial++
					path := fmt.Sprintf("/hangs-%d", c.serial) // a request of the one before may come late
					do.URL = c.net.URL("http", testenv.Files, path)
					done, d := c.stopped(by, c.operation(do), func() bool { return asked(path) })
					if c.failed(by, done, grant.EffectNetwork, &after) {
						took = append(took, d)
					}
				}
				c.tell(string(kind)+", "+by.name, took, by.within)
			}
		}
		must(c.t, c.ctl.Recorder.Close())
		c.verified()
	})
}

// TestStoppedWhileItIsMade stops operations whose sandbox, or browser, is not
// there yet: nothing has run, and the caller does not wait for a step that
// takes seconds.
func TestStoppedWhileItIsMade(t *testing.T) {
	t.Parallel()
	onControlled(t, "", func(c *controlled) {
		for i, do := range []grant.Operation{
			{Kind: grant.OpFsList, Path: "/workspace"}, {Kind: grant.OpProcExec, Tool: "sh", Args: []string{"-c", "sleep 1000"}},
			{Kind: grant.OpBrowserNav, URL: c.net.URL("http", testenv.Files, "/greeting.txt")},
		} {
			if do.Kind == grant.OpBrowserNav && c.wall == "local" {
				continue // browsers live in containers
			}
			op := c.shell("true")
			op.Grant.Session, op.Do, op.Grant.Budget.WallMs = fmt.Sprintf("cold-%d", i), do, 20
			began := time.Now()
			done, err := c.operate(op)
			took := time.Since(began)
			if !done.OK && done.Code != sandbox.CodeBudgetExceeded || took > time.Minute {
				c.t.Errorf("%s: %v after %v", do.Kind, err, took)
			}
			if do.Kind == grant.OpProcExec && done.OK {
				c.t.Errorf("the program has ended: %+v", done)
			}
			c.t.Logf("%s with 20ms, and nothing there: %q after %v", do.Kind, done.Code, took.Round(time.Millisecond))
		}
		must(c.t, c.ctl.Recorder.Close())
		c.verified()
	})
}

// TestCallerGaveUp checks that a call with a context that has ended fails with
// an error that says so, and not that something was busy or full.
func TestCallerGaveUp(t *testing.T) {
	t.Parallel()
	for _, extra := range []string{"", `, "requireEvidence": true`} {
		c, _ := newControlledFake(t, nil, "", func(o *manager.Options, c *controlled) {
			parsed, err := config.Parse("test", []byte(c.settingsFor(extra)))
			must(t, err)
			o.Settings = parsed
		})
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		late, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
		defer cancel()
		for code, ctx := range map[sandbox.Code]context.Context{sandbox.CodeExecution: gone, sandbox.CodeTimeout: late} {
			for _, do := range c.each() {
				if do.Kind == grant.OpBrowserScreenshot {
					continue // there is no page
				}
				done, err := c.Operate(ctx, c.operation(do))
				if done.Code != code {
					t.Errorf("%s with %v: %v", do.Kind, ctx.Err(), err)
				}
				must(t, c.ctl.Recorder.Flush(context.Background()))
				c.pair(done.ID)
			}
		}
	}
}

// TestTimedOutOperations holds that an operation which is ended at a time limit,
// its own or that of the profile, has a code that says so: in the answer, in the
// evidence and in the metrics.
func TestTimedOutOperations(t *testing.T) {
	t.Parallel()
	var seen observed
	c, _ := newControlledFake(t, nil, "")
	c.ctl.Observe = &seen
	for name, tt := range map[string]struct {
		do    grant.Operation
		limit time.Duration
		rule  string
	}{
		"a program's own":     {grant.Operation{Kind: grant.OpProcExec, Tool: "sleep", Args: []string{"1000"}, Timeout: 50 * time.Millisecond}, 0, "op.timeout"},
		"a program's profile": {grant.Operation{Kind: grant.OpProcExec, Tool: "sleep", Args: []string{"1000"}}, 100 * time.Millisecond, "profile.limits.timeout"},
		"a file's own":        {grant.Operation{Kind: grant.OpFsList, Path: "/workspace", Timeout: 1}, 0, "op.timeout"},
		"a file's profile":    {grant.Operation{Kind: grant.OpFsList, Path: "/workspace"}, 1, "profile.limits.timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			op := c.operation(tt.do)
			op.Manifest.Limits.Timeout = tt.limit
			done, err := c.operate(op)
			if done.OK || done.Code != sandbox.CodeTimeout || !done.Retryable || done.Message == "" {
				t.Errorf("%+v, %v", done, err)
			}
			must(t, c.ctl.Recorder.Flush(context.Background()))
			if _, end := c.pair(done.ID); end.Status != evidence.Failed || end.Code != sandbox.CodeTimeout || end.Rule != tt.rule {
				t.Errorf("on record is %+v", end)
			}
			seen.mu.Lock()
			defer seen.mu.Unlock()
			if last := seen.list[len(seen.list)-1]; last.Code != sandbox.CodeTimeout || last.Denied {
				t.Errorf("counted is %+v", last)
			}
		})
	}
}
