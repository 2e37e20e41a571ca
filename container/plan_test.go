package container_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
)

var update = flag.Bool("update", false, "write golden files anew")

func fullSpec() sandbox.Spec {
	return sandbox.Spec{
		Format: sandbox.SpecFormat, Name: "sbx-chat-42-0123456789abcdef", Kind: sandbox.KindSandbox, Provider: "docker",
		Owner:   sandbox.Owner{Instance: "i1", Tenant: "acme", Agent: "main", Session: "chat-42", Scope: sandbox.ScopeSession, ScopeKey: "chat-42"},
		Image:   "sandbox:bookworm-slim",
		ImageID: "sha256:1111111111111111111111111111111111111111111111111111111111111111",
		OnStart: []string{"true"}, Workdir: "/workspace", UID: 1879048200, GID: 1879048200,
		Env: map[string]string{"API_KEY": "s3cret-value", "LANG": "C.UTF-8"},
		Mounts: []sandbox.Mount{
			{Source: "/state/guest/abc", Target: "/.sandbox/bin", ReadOnly: true, Role: sandbox.RoleGuest},
			{Source: "/state/run/abc", Target: "/.sandbox/run", Role: sandbox.RoleSocket},
			{Source: "/state/workspaces/x", Target: "/workspace", Role: sandbox.RoleWorkspace},
		},
		Tmpfs: []sandbox.Tmpfs{
			{Target: "/tmp", Size: 512 << 20, Exec: true, Mode: 0o1777},
			{Target: "/home/sandbox", Size: 256 << 20, Exec: true, Mode: 0o700, Owned: true},
			{Target: "/run", Size: 64 << 20, Mode: 0o755},
		},
		ReadOnlyRoot: true, Network: "none",
		Security:  sandbox.Security{CapDrop: []string{"ALL"}, NoNewPrivileges: true, Seccomp: `{"defaultAction":"SCMP_ACT_ERRNO"}`},
		Resources: sandbox.Resources{Memory: 2 << 30, MemorySwap: 2 << 30, NanoCPUs: 2e9, PIDs: 512, ShmSize: 64 << 20, Ulimits: []sandbox.Ulimit{{Name: "nofile", Soft: 1024, Hard: 4096}, {Name: "core"}}},
	}
}

func TestPlanGolden(t *testing.T) {
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	tests := map[string]func(*sandbox.Spec){
		"hardened": func(*sandbox.Spec) {},
		"loosened": func(s *sandbox.Spec) {
			s.Network, s.DNS, s.ExtraHosts = "bridge", []string{"10.0.0.53"}, []string{"db:10.0.0.2"}
			s.Runtime, s.GPUs, s.Security.AppArmor = "runsc", "device=0,1", "sandbox-profile"
			s.Mounts = append(s.Mounts, sandbox.Mount{Source: "/data/ref", Target: "/ref", ReadOnly: true, Role: sandbox.RoleBind})
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			s := fullSpec()
			change(&s)
			p, err := container.NewPlan(s, "hash-of-it", now)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(p, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, '\n')
			if strings.Contains(string(got), "s3cret-value") {
				t.Error("the plan carries a value of the environment")
			}
			file := filepath.Join("testdata", "plan-"+name+".json")
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), string(got)); d != "" {
				t.Errorf("plan differs (-want +got):\n%s", d)
			}
		})
	}
}

func TestPlanRefuses(t *testing.T) {
	tests := map[string]func(*sandbox.Spec){
		"uid 0":            func(s *sandbox.Spec) { s.UID = 0 },
		"gid 0":            func(s *sandbox.Spec) { s.GID = 0 },
		"gpus word":        func(s *sandbox.Spec) { s.GPUs = "many" },
		"gpus zero":        func(s *sandbox.Spec) { s.GPUs = "0" },
		"gpus tail":        func(s *sandbox.Spec) { s.GPUs = "1 2" },
		"gpus empty names": func(s *sandbox.Spec) { s.GPUs = "device=" },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			s := fullSpec()
			change(&s)
			if _, err := container.NewPlan(s, "h", time.Now()); err == nil {
				t.Error("accepted")
			}
		})
	}
}

// TestOwnHostNameOfSettings holds that a line of the settings for the
// container's own name stands.
func TestOwnHostNameOfSettings(t *testing.T) {
	for given, want := range map[string][]string{
		"":                  {"sandbox:127.0.0.1"},
		"db:10.0.0.2":       {"db:10.0.0.2", "sandbox:127.0.0.1"},
		"Sandbox:127.0.0.2": {"Sandbox:127.0.0.2"},
		"sandbox2:10.0.0.2": {"sandbox2:10.0.0.2", "sandbox:127.0.0.1"},
	} {
		s := fullSpec()
		if given != "" {
			s.ExtraHosts = []string{given}
		}
		p, err := container.NewPlan(s, "hash", time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, p.Host.ExtraHosts); d != "" {
			t.Errorf("%q: %s", given, d)
		}
	}
}
