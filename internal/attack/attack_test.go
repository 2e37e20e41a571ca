package attack_test

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/attack"
	"github.com/bulkhead-dev/sandbox/internal/attack/probe"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
)

func TestMain(m *testing.M) {
	testenv.AtOnce(3) // browsers
	// The engine's client keeps idle connections for a while.
	testenv.Main(m, goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"),
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

// An actor is a sandbox whose probes say what a test wants.
type actor struct {
	sandbox.Sandbox
	mu    sync.Mutex
	lines map[string]string // report by probe; the default is "contained" with a fixed text
	exits map[string]sandbox.Exit
	fails map[string]error // of Start
	usage sandbox.Usage
	ran   []string
}

func (a *actor) Info() sandbox.Info { return sandbox.Info{Name: "actor"} }

func (a *actor) Usage(context.Context) (sandbox.Usage, error) { return a.usage, nil }

func (a *actor) Close() error { return nil }

func (a *actor) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	name := c.Args[2]
	a.mu.Lock()
	a.ran = append(a.ran, name)
	a.mu.Unlock()
	if err := a.fails[name]; err != nil {
		return nil, err
	}
	p := &act{ctx: ctx, exit: a.exits[name], done: make(chan struct{})}
	line, known := a.lines[name]
	switch {
	case known:
	case name == "alive":
		line = "probe: contained alive\n"
	case name == "wait":
		line = "ready\nprobe: contained undisturbed\n"
	case name == "fork-bomb", name == "starve-1":
		line = "ready\n"
	default:
		line = "ready\nprobe: contained as told\n"
	}
	go func() {
		defer close(p.done)
		io.WriteString(c.Stdout, line)
		if name == "fork-bomb" || name == "starve-1" {
			<-ctx.Done()
		}
		if c, ok := c.Stdin.(io.Closer); ok {
			c.Close()
		}
	}()
	return p, nil
}

type act struct {
	sandbox.Process
	ctx  context.Context
	exit sandbox.Exit
	done chan struct{}
}

func (p *act) Wait() (sandbox.Exit, error) { <-p.done; return p.exit, nil }

func spec() sandbox.Spec {
	return sandbox.Spec{Network: "none", Resources: sandbox.Resources{Memory: 1 << 30, PIDs: 100}}
}

func run(t *testing.T, a *actor, s sandbox.Spec, o attack.Options) map[string]attack.Result {
	t.Helper()
	o.CanaryDir, o.Burn = t.TempDir(), 10*time.Millisecond
	rep := attack.Run(t.Context(), a, s, o)
	got := map[string]attack.Result{}
	for _, r := range rep.Results {
		if _, twice := got[r.Name]; twice {
			t.Errorf("two attempts are named %s", r.Name)
		}
		got[r.Name] = r
	}
	return got
}

// TestJudging holds how what a probe says becomes an outcome.
func TestJudging(t *testing.T) {
	t.Parallel()
	gvisor := map[string]string{"kernel-log": "probe: contained gVisor's own log, not the host's\n"}
	with := func(base map[string]string, kv ...string) map[string]string {
		m := map[string]string{}
		for k, v := range base {
			m[k] = v
		}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = kv[i+1]
		}
		return m
	}
	tests := []struct {
		name    string
		lines   map[string]string
		exits   map[string]sandbox.Exit
		fails   map[string]error
		spec    func(*sandbox.Spec)
		attempt string
		want    attack.Outcome
		seen    string // part of it
	}{
		{name: "contained", attempt: "mount", want: attack.Contained, seen: "as told"},
		{name: "escaped", lines: with(nil, "mount", "probe: escaped worked: tmpfs\n"), attempt: "mount", want: attack.Escaped, seen: "tmpfs"},
		{name: "skipped", lines: with(nil, "mount", "probe: skipped none\n"), attempt: "mount", want: attack.Skipped},
		{name: "killed by the filter", lines: with(nil, "bpf", ""), exits: map[string]sandbox.Exit{"bpf": {Code: 159, Signal: "SYS"}}, attempt: "bpf", want: attack.Contained, seen: "filter"},
		{name: "silent", lines: with(nil, "bpf", ""), attempt: "bpf", want: attack.Unproven},
		{name: "crashed", lines: with(nil, "bpf", "panic: x"), exits: map[string]sandbox.Exit{"bpf": {Code: 2}}, attempt: "bpf", want: attack.Unproven, seen: "panic"},
		{name: "unknown word", lines: with(nil, "bpf", "probe: fine really\n"), attempt: "bpf", want: attack.Unproven},
		{name: "last report counts", lines: with(nil, "bpf", "probe: contained x\nprobe: escaped y\n"), attempt: "bpf", want: attack.Escaped},
		{name: "not started", fails: map[string]error{"bpf": errors.New("no such program")}, attempt: "bpf", want: attack.Unproven, seen: "no such program"},
		{name: "control characters", lines: with(nil, "bpf", "probe: contained a\x1b[2Jb\n"), attempt: "bpf", want: attack.Contained, seen: `\x1b[2J`},
		{name: "gvisor emulates", lines: with(gvisor, "mount", "probe: escaped worked\n"), attempt: "mount", want: attack.Contained, seen: "gVisor"},
		{name: "gvisor does not excuse", lines: with(gvisor, "write-root", "probe: escaped worked\n"), attempt: "write-root", want: attack.Escaped},
		{name: "gvisor has no filter", lines: with(gvisor, "seccomp", "probe: escaped Seccomp is 0\n"), attempt: "seccomp", want: attack.Contained},
		{name: "linux needs a filter", lines: with(nil, "seccomp", "probe: escaped Seccomp is 0\n"), attempt: "seccomp", want: attack.Escaped},
		{name: "switch", lines: with(nil, "capabilities", "probe: escaped CapBnd\n"), attempt: "capabilities", want: attack.Skipped, seen: hardening.SwitchKeepCapabilities,
			spec: func(s *sandbox.Spec) { s.Security.Dangerous = []string{hardening.SwitchKeepCapabilities} }},
		{name: "other switch", lines: with(nil, "capabilities", "probe: escaped CapBnd\n"), attempt: "capabilities", want: attack.Escaped,
			spec: func(s *sandbox.Spec) { s.Security.Dangerous = []string{hardening.SwitchWritableRoot} }},
		{name: "network by settings", attempt: "internet", want: attack.Skipped, seen: "bridge",
			spec: func(s *sandbox.Spec) { s.Network = "bridge" }},
		{name: "dead afterwards", fails: map[string]error{"alive": errors.New("gone")}, attempt: "kill-all", want: attack.Escaped, seen: "gone"},
		{name: "no limit of processes", attempt: "fork-bomb", want: attack.Unproven, spec: func(s *sandbox.Spec) { s.Resources.PIDs = 0 }},
		{name: "no limit of memory", attempt: "memory", want: attack.Unproven, spec: func(s *sandbox.Spec) { s.Resources.Memory = 0 }},
		{name: "log written, nobody watches", lines: with(nil, "fill-log", "probe: escaped 1024 MiB\n"), attempt: "fill-log", want: attack.Unproven},
		{name: "victim disturbed", lines: with(nil, "wait", "ready\n"), exits: map[string]sandbox.Exit{"wait": {Code: 137, Signal: "KILL"}}, attempt: "forge", want: attack.Escaped},
		{name: "no quota", attempt: "fill-workspace", want: attack.Skipped, seen: "unbounded"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := spec()
			if tt.spec != nil {
				tt.spec(&s)
			}
			a := &actor{lines: tt.lines, exits: tt.exits, fails: tt.fails, usage: sandbox.Usage{PIDs: 5}}
			got := run(t, a, s, attack.Options{Timeout: 20 * time.Second})[tt.attempt]
			if got.Outcome != tt.want || !strings.Contains(got.Seen, tt.seen) {
				t.Errorf("%s: %s (%s), want %s with %q", tt.attempt, got.Outcome, got.Seen, tt.want, tt.seen)
			}
		})
	}
}

// TestProcessLimit holds that the count comes from outside.
func TestProcessLimit(t *testing.T) {
	t.Parallel()
	a := &actor{usage: sandbox.Usage{PIDs: 101}}
	if r := run(t, a, spec(), attack.Options{})["fork-bomb"]; r.Outcome != attack.Escaped {
		t.Errorf("101 of 100 processes: %s (%s)", r.Outcome, r.Seen)
	}
}

// TestEnvironment holds that only the host's own values count.
func TestEnvironment(t *testing.T) {
	t.Setenv("SANDBOX_ATTACK_TOKEN", "a-value-of-the-host-only")
	for _, tt := range []struct {
		name, inside string
		want         attack.Outcome
	}{
		{"own", "LANG=C.UTF-8\x1fHOME=/home/sandbox\x1fPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", attack.Contained},
		{"same name and value", "SANDBOX_ATTACK_TOKEN=a-value-of-the-host-only", attack.Escaped},
		{"other name", "X=a-value-of-the-host-only", attack.Escaped},
		{"host's path", "PATH=" + hostPath(t), attack.Escaped},
		{"given by settings", "GIVEN=a-value-of-the-host-only", attack.Contained},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := spec()
			s.Env = map[string]string{"GIVEN": "a-value-of-the-host-only"}
			a := &actor{lines: map[string]string{"environment": "probe: contained " + tt.inside + "\n"}}
			if r := run(t, a, s, attack.Options{})["environment"]; r.Outcome != tt.want {
				t.Errorf("%s (%s), want %s", r.Outcome, r.Seen, tt.want)
			}
		})
	}
}

func hostPath(t *testing.T) string {
	t.Setenv("PATH", "/opt/of/this/host/bin:"+os.Getenv("PATH"))
	return os.Getenv("PATH")
}

// TestEnded holds that a self-test that was cut short does not pass.
func TestEnded(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	end()
	rep := attack.Run(ctx, &actor{}, spec(), attack.Options{})
	if !rep.Failed() || rep.Count(attack.Unproven) != len(rep.Results) {
		t.Errorf("%d of %d attempts are unproven", rep.Count(attack.Unproven), len(rep.Results))
	}
	if !(attack.Report{}).Failed() {
		t.Error("a report without attempts did not fail")
	}
}

// TestNames holds that every probe that the self-test starts exists.
func TestNames(t *testing.T) {
	t.Parallel()
	a := &actor{usage: sandbox.Usage{PIDs: 5}}
	s := spec()
	results := run(t, a, s, attack.Options{Neighbour: a, WorkspaceQuota: 1 << 20})
	if len(results) < 70 {
		t.Errorf("%d attempts", len(results))
	}
	names := probe.Names()
	for _, name := range a.ran {
		if !slices.Contains(names, name) {
			t.Errorf("there is no probe %s", name)
		}
	}
	for _, name := range names {
		if !slices.Contains(a.ran, name) && name != "effective-id" {
			t.Errorf("the probe %s is never used", name)
		}
	}
}
