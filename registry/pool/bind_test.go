package pool_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/registry/pool"
)

// spec is what a session asks for; name is its sandbox's.
func spec(name string) sandbox.Spec {
	return sandbox.Spec{
		Format: 1, Name: name, Kind: sandbox.KindSandbox, Provider: "docker",
		Owner: sandbox.Owner{Instance: "i", Tenant: "t", Agent: "a", Session: "s", Scope: sandbox.ScopeSession, ScopeKey: "s"},
		Image: "img:1", ImageID: "sha256:1", Workdir: "/workspace", UID: 0x70000123, GID: 0x70000123,
		Env: map[string]string{"A": "1"},
		Mounts: []sandbox.Mount{
			{Source: "/state/workspaces/" + name, Target: "/workspace", Role: sandbox.RoleWorkspace},
			{Source: "/state/guest", Target: "/.sandbox/bin", ReadOnly: true, Role: sandbox.RoleGuest},
			{Source: "/state/run/" + name, Target: "/.sandbox/run", Role: sandbox.RoleSocket},
		},
		Network: "none", Security: sandbox.Security{CapDrop: []string{"ALL"}, NoNewPrivileges: true},
		Resources: sandbox.Resources{Memory: 1 << 30, PIDs: 100}, Limits: sandbox.Limits{Timeout: time.Minute},
		Guest: sandbox.GuestRef{Dir: "/state/guest", Digest: "0a"},
	}
}

// slot is the same as a slot of the pool.
func slot() sandbox.Spec {
	s := spec("pool-1")
	s.Kind, s.UID, s.GID = sandbox.KindPool, 0x70000777, 0x70000777
	s.Owner = sandbox.Owner{Instance: "i"}
	s.Env, s.Limits = nil, sandbox.Limits{}
	return s
}

func TestCanBindLate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*sandbox.Spec)
		why    []string
	}{
		{"as it is", func(*sandbox.Spec) {}, nil},
		{"session", func(s *sandbox.Spec) { s.Owner.Session, s.Owner.ScopeKey = "x", "x" }, nil},
		{"agent scope", func(s *sandbox.Spec) { s.Owner.Scope, s.Owner.ScopeKey = sandbox.ScopeAgent, "agent:a" }, nil},
		{"variables", func(s *sandbox.Spec) { s.Env = map[string]string{"B": "2"} }, nil},
		{"limits", func(s *sandbox.Spec) { s.Limits = sandbox.Limits{Memory: 1} }, nil},
		{"hosts", func(s *sandbox.Spec) {
			s.Egress.AllowedDomains, s.Egress.AllowPublic, s.Egress.Ask = []string{"a"}, true, true
		}, nil},
		{"secrets", func(s *sandbox.Spec) { s.Egress.Secrets = []sandbox.SecretRef{{Name: "K"}} }, nil},
		{"grants", func(s *sandbox.Spec) { s.Grants = []sandbox.Grant{{}} }, nil},
		{"user of another scope", func(s *sandbox.Spec) { s.UID, s.GID = 0x70000999, 0x70000999 }, nil},
		{"the image's other name", func(s *sandbox.Spec) { s.Image = "img:2" }, nil},
		{"tenant", func(s *sandbox.Spec) { s.Owner.Tenant = "u" }, nil},
		{"no tenant", func(s *sandbox.Spec) { s.Owner.Tenant = "" }, nil},
		{"instance", func(s *sandbox.Spec) { s.Owner.Instance = "j" }, []string{"instance"}},
		{"image", func(s *sandbox.Spec) { s.ImageID = "sha256:2" }, []string{"docker.image"}},
		{"user of settings", func(s *sandbox.Spec) { s.UID, s.GID = 1000, 1000 }, []string{"docker.user"}},
		{"group of its own", func(s *sandbox.Spec) { s.GID = 5 }, []string{"docker.user"}},
		{"agent's folder as workspace", func(s *sandbox.Spec) { s.Mounts[0].Source = "/home/a" }, []string{"workspace /workspace"}},
		{"workspace read-only", func(s *sandbox.Spec) { s.Mounts[0].ReadOnly = true }, []string{"workspace /workspace"}},
		{"agent's folder beside", func(s *sandbox.Spec) {
			s.Mounts = append(s.Mounts, sandbox.Mount{Source: "/home/a", Target: "/agent", ReadOnly: true, Role: sandbox.RoleAgent})
		}, []string{"agent /agent"}},
		{"a bind", func(s *sandbox.Spec) {
			s.Mounts = append(s.Mounts, sandbox.Mount{Source: "/data", Target: "/data", Role: sandbox.RoleBind})
		}, []string{"docker.binds /data"}},
		{"network", func(s *sandbox.Spec) { s.Network = "bridge" }, []string{"docker.network"}},
		{"memory", func(s *sandbox.Spec) { s.Resources.Memory = 2 << 30 }, []string{"docker.memory"}},
		{"hardening", func(s *sandbox.Spec) { s.Security.CapDrop = nil }, []string{"docker.capDrop"}},
		{"paths", func(s *sandbox.Spec) { s.Filesystem.DenyRead = []string{"/x"} }, []string{"filesystem.denyRead"}},
		{"local binding", func(s *sandbox.Spec) { s.Egress.AllowLocalBinding, s.Egress.HTTPProxyPort = true, 3128 }, nil},
		{"guest", func(s *sandbox.Spec) { s.Guest.Digest = "0b" }, []string{"guest.digest"}},
		{"lines at the start", func(s *sandbox.Spec) { s.OnStart = []string{"x"} }, []string{"docker.onStart", "docker.onStart"}},
		{"a browser", func(s *sandbox.Spec) { s.Kind = sandbox.KindBrowser }, []string{"kind"}},
		{"two things", func(s *sandbox.Spec) { s.ImageID, s.GPUs = "x", "all" }, []string{"docker.image", "docker.gpus"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := spec("sbx-1")
			tt.change(&s)
			ok, why := pool.CanBindLate(slot(), s)
			if ok != (tt.why == nil) || !slices.Equal(why, tt.why) {
				t.Errorf("CanBindLate = %v, %q; want %q", ok, why, tt.why)
			}
			if s.Kind != sandbox.KindSandbox {
				return
			}
			a, errA := pool.Shape(slot())
			b, errB := pool.Shape(s)
			if errA != nil || errB != nil || (a == b) != ok {
				t.Errorf("the shapes are the same is %v (%v, %v)", a == b, errA, errB)
			}
		})
	}
}

// TestStartLines holds that lines which ran without the session's variables
// are not taken for those that ran with them.
func TestStartLines(t *testing.T) {
	a, b := slot(), spec("sbx-1")
	a.OnStart, b.OnStart = []string{"x"}, []string{"x"}
	if ok, _ := pool.CanBindLate(a, b); ok {
		t.Error("lines that ran with other variables were taken over")
	}
	a.Env = b.Env
	if ok, why := pool.CanBindLate(a, b); !ok {
		t.Errorf("the same lines with the same variables: %q", why)
	}
}

// TestSlotOfTenant holds that a slot that was made for a tenant becomes nothing,
// neither that tenant's nor another's: what its labels say is never changed.
func TestSlotOfTenant(t *testing.T) {
	a := slot()
	a.Owner.Tenant = "t"
	shape, err := pool.Shape(a)
	if err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []string{"t", "u", ""} {
		b := spec("sbx-1")
		b.Owner.Tenant = tenant
		if ok, why := pool.CanBindLate(a, b); ok || !slices.Equal(why, []string{"tenant"}) {
			t.Errorf("it can become a sandbox of %q: %v, %q", tenant, ok, why)
		}
		if s, err := pool.Shape(b); err != nil || s == shape {
			t.Errorf("a sandbox of %q has its shape, %v", tenant, err)
		}
	}
}

func TestSlotIsNoSandbox(t *testing.T) {
	a := slot()
	a.Kind = sandbox.KindSandbox
	if ok, _ := pool.CanBindLate(a, spec("sbx-1")); ok {
		t.Error("somebody's sandbox was taken for a slot")
	}
}

func ExampleCanBindLate() {
	wanted := spec("sbx-1")
	wanted.Mounts[0].Source = "/home/anna/project"
	fmt.Println(pool.CanBindLate(slot(), wanted))
	// Output: false [workspace /workspace]
}
