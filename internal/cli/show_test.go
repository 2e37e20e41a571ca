package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/confighash"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/images/about"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/registry/pool"
	"github.com/bulkhead-dev/sandbox/tenant"
	"github.com/bulkhead-dev/sandbox/workspace/checkpoint"
)

const hostile = "x\x1b[2J\u009b31m\u202e\n"

func filled() *fake {
	yes, no := true, false
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	return &fake{
		listing: manager.Listing{
			Containers: []manager.Row{
				{Name: "sbx-default-0123456789abcdef", Kind: sandbox.KindSandbox, Provider: "docker", Agent: "main", Session: "default", Scope: sandbox.ScopeSession, ScopeKey: "default",
					Status: sandbox.StatusRunning, Image: "sandbox:bookworm-slim", ImageMatch: &yes, ConfigHash: "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12", ConfigMatch: &no,
					CreatedAt: at, LastUsedAt: at, AgeSeconds: 3 * 86400, IdleSeconds: 59},
				{Name: "sbx-b", Tenant: "acme", Status: sandbox.StatusUnknown, ScopeKey: hostile, Image: "日本", AgeSeconds: 3600, IdleSeconds: 600, Instance: "feed"},
			},
			Browsers: []manager.Row{{Name: "sbx-browser-c", Kind: sandbox.KindBrowser, Status: sandbox.StatusStopped}},
		},
		pruned: manager.Pruned{Removed: []manager.Removed{{Name: "sbx-b", Reason: "idle for 2d"}}, Kept: 3},
		explained: manager.Explanation{
			Agent: "main", Session: hostile, Sandboxed: true, Reason: "mode is all", Gate: manager.Gate{Place: manager.Sandboxed, Reason: "mode is all"}, Provider: "docker", ProviderReason: "set by default",
			Name: "sbx-default-0123456789abcdef", Scope: sandbox.ScopeSession, ScopeKey: "default", User: "1000:1000", Workspace: "/srv/ws", Image: "sandbox:bookworm-slim",
			ConfigHash: "2fd4e1", Status: sandbox.StatusMissing, Next: "create: there is none",
			Settings:     []manager.Setting{{Path: "docker.memory", Value: "2g", Layer: "default"}, {Path: "docker.env.TOKEN", Value: "***", Layer: "agents.defaults", Note: "masked"}},
			Mounts:       []sandbox.Mount{{Source: "/srv/ws", Target: "/workspace", Role: sandbox.RoleWorkspace}, {Source: "/opt/g", Target: "/.sandbox/bin", ReadOnly: true, Role: sandbox.RoleGuest}},
			Home:         manager.HomePlan{Place: "disk", Size: 4 << 30, Reason: "docker.home is auto"},
			Checkpoints:  manager.CheckpointPlan{Means: checkpoint.Copy, Reason: "an overlay needs root", Auto: "command", Keep: 20, Folders: []string{"/workspace"}},
			Files:        manager.FileTransport{Setting: sandbox.FSAuto, Transport: "script", Reason: "the guest cannot serve files", Durable: true, Note: "the guest cannot serve files"},
			Tmpfs:        []sandbox.Tmpfs{{Target: "/tmp", Size: 512 << 20, Exec: true}},
			Drift:        []confighash.Change{{Field: "docker.memory", From: "2g", To: "1g", Tightens: true}},
			Layers:       []provider.Layer{{Name: "mounts", On: true, Detail: "a root of its own"}, {Name: "landlock", Detail: "providerOptions.withoutLandlock"}},
			Wall:         []provider.Step{{Does: "read-only", Target: "/usr", Source: "/usr", Rule: "the system"}, {Does: "hidden", Target: "/workspace/" + hostile, Rule: "**/.env"}},
			Notes:        []string{"docker.memory is not enforced"},
			Evidence:     manager.EvidencePlan{Commands: true, Sync: "checkpoint", CheckpointEvery: 256},
			Budgets:      config.Budgets{Session: unbounded(), Agent: unbounded(), Tenant: grant.Budget{Calls: 1000, BytesIn: 1 << 30, BytesOut: -1, CPUMs: -1, GPUMs: 0, Files: -1, WallMs: -1}},
			TenantLimits: config.TenantRules{Weight: 1, Limits: tenant.Limits{Sandboxes: 10, Commands: -1, Memory: 4 << 30, NanoCPUs: 2_500_000_000, Disk: -1, RequestsPerSecond: 5, RequestBurst: 20}},
			Media:        manager.MediaPlan{From: []string{"/srv/" + hostile, "scp://files/m"}, MaxFile: 64 << 20, MaxTotal: 256 << 20, MaxFiles: 32},
			Network: manager.NetworkPlan{Mode: "allow-list", Only: true,
				Rules:   []manager.NetworkRule{{Does: "allow", Rule: "GET http://a.example/" + hostile, Layer: "flag"}, {Does: "deny", Rule: "*:8080", Layer: "agents.defaults"}},
				Limits:  []manager.Setting{{Path: "connections", Value: "256", Layer: "default"}},
				Secrets: []manager.BoundName{{Name: "TOKEN", Hosts: []string{"a.example", "b.example:8443"}, From: "env TOKEN", Layer: "flag"}}},
			Browser: manager.BrowserPlan{Enabled: true, Uses: "container", Isolated: true, Reach: "only what network.allowedDomains names (a.example); files of the workspace",
				Name: "sbx-browser-default-0123456789abcdef", Image: "sandbox-browser:bookworm-slim", ImageID: "sha256:0123456789abcdef", Status: sandbox.StatusRunning,
				ConfigHash: "2fd4e1", HaveHash: "aaaa", Next: "keep: " + hostile, Drift: []confighash.Change{{Field: "docker.env.X", From: "1", To: hostile}},
				Settings: []manager.Setting{{Path: "browser.dangerouslyNoSandbox", Value: "true", Layer: "agents.defaults", Note: "Chromium's own sandbox is OFF"}}},
			Verdicts: []manager.Verdict{{Kind: "path", Operation: "read", Subject: "/usr", Verdict: "allow", Reason: "the system"}, {Kind: "host", Subject: "example.com", Verdict: "deny", Reason: "there is no network"}},
			Problems: []string{"the engine does not answer"},
		},
		stats: []manager.Stat{{Name: "sbx-a", ScopeKey: "default", Status: sandbox.StatusRunning, CPUSeconds: 1.26, Memory: 5 << 20, MemoryLimit: 2 << 30, PIDs: 3, PIDsLimit: 512, WorkspaceBytes: 4096},
			{Name: "sbx-b", Error: hostile}},
		pool: manager.PoolStatus{
			Kinds: []manager.PoolKind{{Agents: []string{"main", "other"}, Provider: "docker", Image: "sandbox:bookworm-slim", Size: 1, Max: 4, Wanted: 4, Bound: "pool.max", Ready: 2, Starting: 1},
				{Agents: []string{"third"}, Provider: "docker", Image: hostile, Size: 1, Max: 1, Wanted: 1, Failed: hostile, RetryAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}},
			Claims: []manager.PoolClaim{{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Sandbox: "sbx-a", Tenant: "acme", Agent: "main", Claimed: true, TookMS: 4},
				{Time: time.Date(2026, 1, 2, 3, 4, 4, 0, time.UTC), Sandbox: "sbx-b", Agent: "main", TookMS: 812, Miss: &pool.Miss{Reason: pool.Differs, Fields: []string{"docker.memory"}, Detail: hostile, MadeMS: 812}, Code: sandbox.CodeUnavailable}},
		},
		image: about.Image{Ref: "sandbox:bookworm-slim", ID: "sha256:0123456789abcdef0123", Tags: []string{"sandbox:bookworm-slim"}, Origin: about.OriginSandbox, Stale: true, Size: 200 << 20},
		diagnosis: Diagnosis{Checks: []Check{{Name: "engine", Status: "ok", Detail: "answers"}, {Name: "state folder", Status: "warn", Detail: hostile, Fix: "chmod 700 it"}},
			Attempts: []Attempt{{Name: "mount", What: "mount a file system", Outcome: "contained", Seen: "EPERM"}}},
	}
}

func unbounded() grant.Budget {
	return grant.Budget{Calls: -1, BytesIn: -1, BytesOut: -1, CPUMs: -1, GPUMs: -1, Files: -1, WallMs: -1}
}

func TestTables(t *testing.T) {
	for _, args := range []string{
		"list", "list --browser", "list --foreign", "prune", "prune --dry-run", "recreate --all --force", "explain", "explain --all", "stats", "pool",
		"images list", "images build", "images pull example.com/x:1", "doctor", "doctor --attack",
	} {
		t.Run(args, func(t *testing.T) {
			r := call(t, filled(), strings.Fields(args)...)
			if r.status != 0 || r.stderr != "" {
				t.Fatalf("status %d: %s", r.status, r.stderr)
			}
			golden(t, strings.NewReplacer("/", "_", " ", "_", ":", "_").Replace(args), r.stdout)
		})
	}
}

func TestNothingFromOutsideReachesTheTerminal(t *testing.T) {
	for _, args := range []string{"list", "explain", "stats", "pool", "doctor --attack", "config show --session x"} {
		for _, format := range []string{"table", "json"} {
			f := filled()
			f.listErr = &sandbox.Error{Code: sandbox.CodeUnavailable, Message: hostile}
			r := call(t, f, strings.Fields(args+" -o "+format)...)
			for _, c := range r.stdout + r.stderr {
				if c != '\n' && !termsafe.Safe(c) {
					t.Errorf("%s: %s holds %U", args, format, c)
				}
			}
		}
	}
}

func TestJSONKeepsWhatItEscapes(t *testing.T) {
	r := call(t, filled(), "list", "-o", "json")
	var got manager.Listing
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
		t.Fatal(err)
	}
	if got.Containers[1].ScopeKey != hostile {
		t.Errorf("read back %q", got.Containers[1].ScopeKey)
	}
	if s := string(escapeJSON([]byte("\"\U000e0001\""))); s != `"\udb40\udc01"` {
		t.Errorf("escaped to %s", s)
	}
}

func TestJSONHasEveryKeyAndNoNullList(t *testing.T) {
	tests := []struct {
		args string
		keys string // of the outermost object
	}{
		{"list", "containers browsers"},
		{"recreate --all --force", "removed failed"},
		{"prune", "removed kept failed"},
		{"stats", "sandboxes"},
		{"pool", "kinds claims"},
		{"violations list", "violations more damaged"},
		{"violations clear --force", "removed"},
		{"evidence list", "evidence more damaged"},
		{"evidence verify", "ok keys chains"},
		{"evidence list --type operation", "evidence more damaged"},
		{"evidence replay", "replay judged differing uncertain incomplete omitted more damaged"},
		{"token list", "tokens damaged"},
		{"token create --role admin --expires never", "id role created token"},
		{"token revoke 0a", "revoked"},
		{"images list", "images"},
		{"images build", "ref id tags origin stale createdAt sizeBytes"},
		{"doctor", "failed checks attempts"},
		{"version", "version commit modified go platform guest api"},
		{"config show", "tenant agent session sandboxed reason scopeKey sandbox noEffect"},
		{"config show --origins", "tenant agent session sandboxed reason scopeKey sandbox noEffect origins"},
		{"explain", "tenant agent session sandboxed reason gate provider providerReason settings noEffect dangerous name scope scopeKey user workspace home checkpoints mounts tmpfs files pool image imageId configHash status haveHash next drift layers wall notes network evidence budgets tenantLimits media browser verdicts problems"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			r := call(t, &fake{}, strings.Fields(tt.args+" --format json")...)
			if r.status != 0 {
				t.Fatalf("status %d: %s", r.status, r.stderr)
			}
			if strings.Contains(r.stdout, "null") {
				t.Errorf("something is null:\n%s", r.stdout)
			}
			var got map[string]json.RawMessage
			if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
				t.Fatal(err)
			}
			for _, k := range strings.Fields(tt.keys) {
				if v, ok := got[k]; !ok || string(v) == "null" {
					t.Errorf("%s is %s", k, v)
				}
				delete(got, k)
			}
			if len(got) > 0 {
				t.Errorf("there is more: %v", got)
			}
		})
	}
}

func TestListShowsWhatItKnowsWhenTheEngineIsDown(t *testing.T) {
	f := filled()
	f.listErr = &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "list", Message: "no answer", Hint: "start it"}
	r := call(t, f, "list", "--all", "--tenant", "acme")
	if r.status != 1 || !strings.Contains(r.stdout, "unknown") || r.stderr != "sandbox: PROVIDER.UNAVAILABLE: list: no answer\nsandbox: hint: start it\n" {
		t.Errorf("status %d, stdout %q, stderr %q", r.status, r.stdout, r.stderr)
	}
	if !reflect.DeepEqual(f.listed, manager.ListOptions{Tenant: "acme", All: true}) {
		t.Errorf("listed %+v", f.listed)
	}
}

func TestListByLabels(t *testing.T) {
	f := filled()
	if r := call(t, f, "list", "--label", "team=red", "--label", "env=a=b"); r.status != 0 || !reflect.DeepEqual(f.listed.Labels, map[string]string{"team": "red", "env": "a=b"}) {
		t.Errorf("status %d, %q, labels %v", r.status, r.stderr, f.listed.Labels)
	}
	for _, args := range [][]string{{"team"}, {"=x"}, {"team=red", "--label", "team=blue"}, {"ä=1"}, {"team=red", "--foreign"}} {
		if r := call(t, f, append([]string{"list", "--label"}, args...)...); r.status == 0 || !strings.Contains(r.stderr, "label") {
			t.Errorf("%q: status %d, %q", args, r.status, r.stderr)
		}
	}
}

func TestFailedRemovalsFailTheCommand(t *testing.T) {
	failed := []manager.Failed{{Name: "sbx-a", Code: sandbox.CodeBusy, Error: "SANDBOX.BUSY: in use"}}
	for _, args := range []string{"recreate --all --force", "prune"} {
		f := &fake{recreated: manager.Recreated{Failed: failed}, pruned: manager.Pruned{Failed: failed}}
		r := call(t, f, strings.Fields(args)...)
		if r.status != 1 || r.stderr != "sandbox: SANDBOX.BUSY: sbx-a: in use\n" {
			t.Errorf("%s: status %d, stderr %q", args, r.status, r.stderr)
		}
	}
}

func TestPruneTakesTheSettingsByDefault(t *testing.T) {
	f := &fake{}
	call(t, f, "prune")
	if p := f.prune; p.Tenant != "" || p.Idle != nil || p.MaxAge != nil || p.Workspaces || p.DryRun {
		t.Errorf("options %+v", f.prune)
	}
	call(t, f, "prune", "--idle", "7d", "--max-age", "0", "--workspaces", "--dry-run")
	if p := f.prune; *p.Idle != 7*24*time.Hour || *p.MaxAge != 0 || !p.Workspaces || !p.DryRun {
		t.Errorf("options %+v", f.prune)
	}
}

func TestExplainPassesQuestionsOn(t *testing.T) {
	f := &fake{}
	call(t, f, "explain", "--tool", "exec", "--command", "ls", "--path", "/etc", "--host", "h", "--provider", "docker")
	if f.questions != (manager.Questions{Tool: "exec", Command: "ls", Path: "/etc", Host: "h"}) || *f.flags.Provider != "docker" {
		t.Errorf("asked %+v with %+v", f.questions, f.flags)
	}
}

// TestExplainNamesWhatIsNot shows a setting that a sandbox has and the settings
// have no more, and tells the limits of a tenant from those of a command.
func TestExplainNamesWhatIsNot(t *testing.T) {
	f := &fake{explained: manager.Explanation{Drift: []confighash.Change{{Field: "network.allowedDomains", From: "https://a.example"}}}}
	r := call(t, f, "explain")
	for _, want := range []string{"https://a.example → none", "\ntenant limits "} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%q is not in %s", want, r.stdout)
		}
	}
}

func TestDoctorFails(t *testing.T) {
	r := call(t, &fake{diagnosis: Diagnosis{Failed: true}}, "doctor")
	if r.status != 1 {
		t.Errorf("status %d, want 1", r.status)
	}
}

func TestConfigShowMasksValues(t *testing.T) {
	s, err := config.Parse("test", []byte(`{"agents":{"defaults":{"sandbox":{"docker":{"env":{"TOKEN":"tell-nobody"}}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if r := call(t, &fake{settings: s}, "config", "show", "--origins"); r.status != 0 || strings.Contains(r.stdout, "tell-nobody") || !strings.Contains(r.stdout, "TOKEN") {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
	if r := call(t, &fake{settings: s}, "config", "show", "--show-env"); !strings.Contains(r.stdout, "tell-nobody") {
		t.Errorf("status %d: %s", r.status, r.stdout)
	}
}

func TestConfigSchemaIsJSON(t *testing.T) {
	r := call(t, &fake{}, "config", "schema")
	if r.status != 0 || !json.Valid([]byte(r.stdout)) {
		t.Errorf("status %d", r.status)
	}
}

func TestVersionWorksWithoutGuest(t *testing.T) {
	r := call(t, &fake{err: errTest}, "version", "-o", "json")
	if r.status != 0 || !strings.Contains(r.stdout, errTest.Error()) {
		t.Errorf("status %d: %s", r.status, r.stdout)
	}
}

func TestBackendFailure(t *testing.T) {
	for _, args := range []string{"list", "prune", "stats", "pool", "explain", "recreate --all --force", "images list", "violations list", "violations clear --force", "evidence list", "evidence replay", "evidence verify", "token list", "token create --role admin", "token revoke 0a", "config show", "doctor", "run -- true"} {
		r := call(t, &fake{err: &sandbox.Error{Code: sandbox.CodeUnavailable, Message: "no state folder"}}, strings.Fields(args)...)
		if r.status != 125 || r.stderr != "sandbox: PROVIDER.UNAVAILABLE: no state folder\n" {
			t.Errorf("%s: status %d, stderr %q", args, r.status, r.stderr)
		}
	}
}

func TestAge(t *testing.T) {
	for seconds, want := range map[int64]string{0: "0s", 59: "59s", 60: "1m", 3599: "59m", 3600: "1h", 172799: "47h", 172800: "2d", 86400 * 400: "400d"} {
		if got := age(seconds); got != want {
			t.Errorf("age(%d) = %s, want %s", seconds, got, want)
		}
	}
}

func TestStatsSample(t *testing.T) {
	at := time.Now()
	a := &sample{at: at, cpu: map[string]float64{"x": 1, "y": 5}}
	b := &sample{at: at.Add(2 * time.Second), cpu: map[string]float64{"x": 2, "y": 1, "z": 1}}
	got := b.since(a)
	if got["x"] != 50 || len(got) != 1 {
		t.Errorf("shares %v; y was made anew and z is new", got)
	}
	if a.since(nil) != nil {
		t.Error("one sample tells no share")
	}
}

// TestStatsWatchEndsWithAnInterrupt reads one picture and interrupts, which
// is how a watch is meant to end.
func TestStatsWatchEndsWithAnInterrupt(t *testing.T) {
	for _, tt := range []struct {
		sig  syscall.Signal
		want int
	}{{syscall.SIGINT, 0}, {syscall.SIGTERM, 143}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		seen := make(chan string)
		go func() {
			b := bufio.NewReader(r)
			line, _ := b.ReadString('\n')
			syscall.Kill(os.Getpid(), tt.sig)
			rest, _ := io.ReadAll(b)
			r.Close()
			seen <- line + string(rest)
		}()
		p := Program{Args: []string{"sandbox", "stats", "--watch"}, Stdin: w, Stdout: w, Stderr: w, Backend: filled()}
		if got := p.Run(context.Background()); got != tt.want {
			t.Errorf("%v: status %d, want %d", tt.sig, got, tt.want)
		}
		w.Close()
		if s := <-seen; !strings.HasPrefix(s, "NAME ") || strings.Contains(s, "\x1b") {
			t.Errorf("it shows %q", s)
		}
	}
}

func TestLogLines(t *testing.T) {
	out, done := collect(t)
	log := newLog(out, "info")
	log.WithField("sandbox", hostile).Warn("two\nlines")
	log.Debug("not asked for")
	if got, want := done(), `sandbox: warning: two\nlines sandbox=x\x1b[2J\u009b31m\u202e\n`+"\n"; got != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
}
