package config_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

// TestBuilderWritesWhatAFileSays holds that the methods and a settings file
// come to the same settings.
func TestBuilderWritesWhatAFileSays(t *testing.T) {
	got, err := config.NewBuilder().
		Strict("/srv/job").Provider("local").FSTransport(sandbox.FSScript).Enabled(true).Mode(sandbox.ModeAll).Scope(sandbox.ScopeAgent).
		Image("debian:12").Env("A", "b").Env("C", "d").
		AllowRead("/opt").AllowWrite("/srv/cache", "/srv/out").DenyRead("/opt/key").DenyWrite("/srv/out/x").
		AllowDomain("example.com").DenyDomain("evil.example.com").Secret("TOKEN", "example.com", "example.com:8443").
		Strictness("normal").AllowCommand("npm run test:*").BlockCommand("curl*").BlockForSubagents("git push:*").ExcludeCommand("docker*").AllowUnsandboxed(false).
		AllowTool("browser").DenyTool("process").
		Timeout(90 * time.Second).MaxOutput(1 << 10).MemoryLimit(100 << 20).CPULimit(5).FileSizeLimit(1 << 20).OpenFilesLimit(64).ProcessLimit(32).
		Agent("researcher").Preset("permissive").Timeout(0).
		Agent("").DenyTool("image").
		Set(func(s *config.SandboxSettings) { s.WorkspaceQuota = new(config.Size(1 << 30)) }).
		Build()
	if err != nil {
		t.Fatal(err)
	}
	want, err := config.Parse("x", []byte(`{"agents": {
		"defaults": {"sandbox": {
			"preset": "strict", "provider": "local", "fsTransport": "script", "enabled": true, "mode": "all", "scope": "agent", "workspaceQuota": "1g",
			"docker": {"image": "debian:12", "env": {"A": "b", "C": "d"}},
			"filesystem": {"allowRead": ["/opt"], "allowWrite": ["/srv/cache", "/srv/out"], "denyRead": ["/opt/key"], "denyWrite": ["/srv/out/x"]},
			"network": {"allowedDomains": ["example.com"], "deniedDomains": ["evil.example.com"],
				"secrets": {"TOKEN": {"hosts": ["example.com", "example.com:8443"]}}},
			"commands": {"strictness": "normal", "allow": ["npm run test:*"], "block": ["curl*"], "subagentBlock": ["git push:*"], "excluded": ["docker*"], "allowUnsandboxed": false},
			"tools": {"alsoAllow": ["browser"], "deny": ["process", "image"]},
			"limits": {"timeout": "90s", "maxOutputBytes": "1k", "memory": "100m", "cpuSeconds": 5, "fileSize": "1m", "openFiles": 64, "processes": 32}
		}},
		"list": [
			{"id": "main", "workspace": "/srv/job", "sandbox": {"workspaceAccess": "rw"}},
			{"id": "researcher", "sandbox": {"preset": "permissive", "limits": {"timeout": 0}}}
		]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestBuilderRefuses holds that a program gets the errors that a file gets,
// with the same places.
func TestBuilderRefuses(t *testing.T) {
	for field, b := range map[string]*config.Builder{
		"agents.defaults.sandbox.preset":                    config.NewBuilder().Preset("lax"),
		"agents.defaults.sandbox.commands.strictness":       config.NewBuilder().Strictness("none"),
		"agents.defaults.sandbox.limits.processes":          config.NewBuilder().ProcessLimit(-1),
		"agents.defaults.sandbox.docker.network":            config.NewBuilder().Set(func(s *config.SandboxSettings) { s.Docker = &config.DockerSettings{Network: new("host")} }),
		"agents.list[0].workspace":                          config.NewBuilder().Strict("/etc"),
		"agents.list[0].id":                                 config.NewBuilder().Agent("a/b").Timeout(1),
		"agents.defaults.sandbox.filesystem.allowWrite[0]":  config.NewBuilder().AllowWrite("a\x00b"),
		"agents.defaults.sandbox.tools.deny[0]":             config.NewBuilder().DenyTool("group:nothing"),
		"agents.defaults.sandbox.network.secrets.A.hosts":   config.NewBuilder().Secret("A"),
		"agents.defaults.sandbox.network.allowedDomains[0]": config.NewBuilder().AllowDomain("a b"),
	} {
		s, err := b.Build()
		var e *sandbox.Error
		if s != nil || !errors.As(err, &e) || e.Code == sandbox.CodeInternal || !strings.HasPrefix(field, e.Field) {
			t.Errorf("%s: %v, %v", field, s, err)
		}
	}
	if _, err := config.NewBuilder().AllowWrite().Build(); err == nil {
		t.Error("a rule without a path was taken")
	}
}

// TestBuilderSharesNothing holds that settings that were built stay what they
// are.
func TestBuilderSharesNothing(t *testing.T) {
	b := config.NewBuilder().AllowWrite("/a").Env("A", "1").Agent("x").Timeout(time.Second)
	first, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	b.Timeout(time.Hour).Agent("").AllowWrite("/b").Env("A", "2")
	second, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	s := first.Agents.Defaults.Sandbox
	if !slices.Equal(s.Filesystem.AllowWrite, []string{"/a"}) || s.Docker.Env["A"] != "1" || time.Duration(*first.Agents.List[0].Sandbox.Limits.Timeout) != time.Second {
		t.Errorf("%+v", s)
	}
	if reflect.DeepEqual(first, second) {
		t.Error("nothing was changed")
	}
}
