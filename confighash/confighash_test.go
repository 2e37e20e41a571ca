package confighash_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/confighash"
	"github.com/bulkhead-dev/sandbox/provider/seccomp"
)

// full is a Spec in which no field is empty.
func full() sandbox.Spec {
	return sandbox.Spec{
		Format: 1, Name: "sbx-a", Kind: sandbox.KindSandbox, Provider: "docker",
		Owner: sandbox.Owner{Instance: "i", Tenant: "t", Agent: "a", Session: "s", Scope: sandbox.ScopeAgent, ScopeKey: "agent:a"},
		Image: "img:1", ImageID: "sha256:1", Setup: []string{"s1", "s2"}, OnStart: []string{"o1", "o2"},
		Workdir: "/workspace", UID: 5, GID: 6, Env: map[string]string{"A": "secret-1", "B": "secret-2"},
		Mounts: []sandbox.Mount{
			{Source: "/w", Target: "/workspace", Role: sandbox.RoleWorkspace},
			{Source: "/d", Target: "/data", ReadOnly: true, Role: sandbox.RoleBind},
		},
		Tmpfs:        []sandbox.Tmpfs{{Target: "/tmp", Size: 2 << 20, Exec: true, Mode: 0o1777, Owned: true}, {Target: "/run", Size: 1 << 20, Mode: 0o755}},
		ReadOnlyRoot: true, Network: "bridge", DNS: []string{"10.0.0.1", "10.0.0.2"}, ExtraHosts: []string{"a:10.0.0.1", "b:10.0.0.2"},
		Security: sandbox.Security{
			CapDrop: []string{"ALL", "NET_RAW"}, NoNewPrivileges: true, Seccomp: `{"a":1,"b":[1,2]}`,
			AppArmor: "p", Dangerous: []string{"x", "y"},
		},
		Resources: sandbox.Resources{
			Memory: 2 << 30, MemorySwap: 2 << 30, NanoCPUs: 15e8, PIDs: 512, ShmSize: 64 << 20,
			Ulimits: []sandbox.Ulimit{{Name: "core"}, {Name: "nofile", Soft: 10, Hard: 20}},
		},
		Limits:  sandbox.Limits{Timeout: time.Minute, MaxOutputBytes: 1, Memory: 1, CPUSeconds: 1, FileSize: 1, OpenFiles: 1, Processes: 1},
		Runtime: "runsc", GPUs: "all", Guest: sandbox.GuestRef{Dir: "/g", Digest: "0a"},
		Filesystem: sandbox.FilesystemRules{
			AllowRead: []string{"/r"}, DenyRead: []string{"/x", "/y"}, AllowWrite: []string{"/w"}, DenyWrite: []string{"/z"}, AllowUnixSockets: []string{"/s"},
		},
		Egress: sandbox.EgressRules{
			AllowedDomains: []string{"a.example", "b.example"}, DeniedDomains: []string{"c.example"}, AllowPrivate: true, AllowPublic: true,
			Ask: true, AllowLocalBinding: true, HTTPProxyPort: 1,
			Secrets: []sandbox.SecretRef{{Name: "K", Hosts: []string{"a.example", "b.example:8443"}}, {Name: "L", Hosts: []string{"c.example"}}},
		},
		Options: map[string]any{"k": "secret-3", "l": map[string]any{"m": 1.0}},
	}
}

func sum(t testing.TB, s sandbox.Spec) string {
	t.Helper()
	h, err := confighash.Sum(s)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// leaves calls change for every value inside v that can be changed, with its
// path, and undoes the change afterwards.
func leaves(v reflect.Value, path string, visit func(path string)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			leaves(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
		}
		return
	case reflect.Slice:
		for i := range v.Len() {
			leaves(v.Index(i), fmt.Sprintf("%s[%d]", path, i), visit)
		}
		if v.Len() > 0 {
			old := reflect.ValueOf(v.Interface())
			v.Set(v.Slice(0, v.Len()-1))
			visit(path + " shortened")
			v.Set(old)
		}
		return
	case reflect.Map:
		for _, k := range v.MapKeys() {
			old := v.MapIndex(k)
			v.SetMapIndex(k, reflect.Zero(v.Type().Elem()))
			visit(path + "." + k.String())
			v.SetMapIndex(k, reflect.Value{})
			visit(path + "." + k.String() + " removed")
			v.SetMapIndex(k, old)
		}
		return
	}
	old := reflect.ValueOf(v.Interface())
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint32:
		v.SetUint(v.Uint() + 1)
	default:
		panic("a field of kind " + v.Kind().String() + " is not tested: " + path)
	}
	visit(path)
	v.Set(old)
}

// TestEveryFieldCounts changes each value of a Spec in turn. It holds that the
// hash notices exactly what it should, and that Diff agrees with the hash.
func TestEveryFieldCounts(t *testing.T) {
	s := full()
	want := sum(t, s)
	n := 0
	leaves(reflect.ValueOf(&s).Elem(), "", func(path string) {
		n++
		leftOut := path == ".Name" || path == ".Image" || path == ".Owner.Agent" || path == ".Owner.Session" || strings.HasPrefix(path, ".Limits.") || strings.HasPrefix(path, ".Egress.")
		if same := sum(t, s) == want; same != leftOut {
			t.Errorf("%s: hash unchanged is %v; want %v", path, same, leftOut)
		}
		if d := confighash.Diff(full(), s); (len(d) == 0) != leftOut {
			t.Errorf("%s: Diff says %v", path, d)
		}
		if text := fmt.Sprint(confighash.Diff(full(), s), confighash.Diff(s, full())); strings.Contains(text, "secret-") {
			t.Errorf("%s: Diff tells a value: %s", path, text)
		}
	})
	if n < 80 {
		t.Fatalf("only %d changes were tried", n)
	}
	if sum(t, s) != want {
		t.Fatal("the test did not undo its changes")
	}
}

func TestOrderThatDoesNotCount(t *testing.T) {
	want := sum(t, full())
	for name, change := range map[string]func(*sandbox.Spec){
		"capabilities":                           func(s *sandbox.Spec) { s.Security.CapDrop = []string{"NET_RAW", "ALL"} },
		"capabilities in lower case with prefix": func(s *sandbox.Spec) { s.Security.CapDrop = []string{"cap_net_raw", "all", "ALL"} },
		"switches":                               func(s *sandbox.Spec) { s.Security.Dangerous = []string{"y", "x"} },
		"ulimits":                                func(s *sandbox.Spec) { u := s.Resources.Ulimits; u[0], u[1] = u[1], u[0] },
		"tmpfs":                                  func(s *sandbox.Spec) { u := s.Tmpfs; u[0], u[1] = u[1], u[0] },
		"rules":                                  func(s *sandbox.Spec) { s.Filesystem.DenyRead = []string{"/y", "/x", "/y"} },
		"profile":                                func(s *sandbox.Spec) { s.Security.Seccomp = "{ \"b\": [1, 2],\n \"a\": 1 }" },
	} {
		t.Run(name, func(t *testing.T) {
			s := full()
			change(&s)
			if sum(t, s) != want || len(confighash.Diff(full(), s)) != 0 {
				t.Errorf("counts as changed: %v", confighash.Diff(full(), s))
			}
		})
	}
}

func TestOrderThatCounts(t *testing.T) {
	want := sum(t, full())
	for name, change := range map[string]func(*sandbox.Spec){
		"mounts":     func(s *sandbox.Spec) { m := s.Mounts; m[0], m[1] = m[1], m[0] },
		"setup":      func(s *sandbox.Spec) { s.Setup = []string{"s2", "s1"} },
		"onStart":    func(s *sandbox.Spec) { s.OnStart = []string{"o2", "o1"} },
		"dns":        func(s *sandbox.Spec) { s.DNS = []string{"10.0.0.2", "10.0.0.1"} },
		"extraHosts": func(s *sandbox.Spec) { s.ExtraHosts = []string{"b:10.0.0.2", "a:10.0.0.1"} },
		"profile":    func(s *sandbox.Spec) { s.Security.Seccomp = `{"a":1,"b":[2,1]}` },
	} {
		t.Run(name, func(t *testing.T) {
			s := full()
			change(&s)
			if sum(t, s) == want || len(confighash.Diff(full(), s)) == 0 {
				t.Error("does not count as changed")
			}
		})
	}
}

func TestNilAndEmptyAreTheSame(t *testing.T) {
	a := sandbox.Spec{}
	b := sandbox.Spec{
		Setup: []string{}, OnStart: []string{}, Env: map[string]string{}, Mounts: []sandbox.Mount{}, Tmpfs: []sandbox.Tmpfs{},
		DNS: []string{}, ExtraHosts: []string{}, Options: map[string]any{},
		Security:   sandbox.Security{CapDrop: []string{}, Dangerous: []string{}},
		Resources:  sandbox.Resources{Ulimits: []sandbox.Ulimit{}},
		Filesystem: sandbox.FilesystemRules{AllowRead: []string{}},
		Egress:     sandbox.EgressRules{AllowedDomains: []string{}},
	}
	if sum(t, a) != sum(t, b) || len(confighash.Diff(a, b)) != 0 {
		t.Errorf("nil and empty differ: %v", confighash.Diff(a, b))
	}
}

func TestSumLeavesItsArgumentAlone(t *testing.T) {
	s := full()
	s.Security.CapDrop = []string{"b", "a"}
	s.Tmpfs[0], s.Tmpfs[1] = s.Tmpfs[1], s.Tmpfs[0]
	want := fmt.Sprint(s)
	sum(t, s)
	confighash.Diff(s, full())
	if fmt.Sprint(s) != want {
		t.Error("the Spec was changed")
	}
}

// TestSumIsStable holds that an upgrade does not make every sandbox count as
// changed. Raise sandbox.SpecFormat when this has to differ.
func TestSumIsStable(t *testing.T) {
	if got, want := sum(t, full()), "3762a1dbcc947e7641f6a8de3c66dac2e347fc7f"; got != want {
		t.Fatalf("Sum = %s; want %s", got, want)
	}
}

func TestSumReportsWhatIsNoJSON(t *testing.T) {
	_, err := confighash.Sum(sandbox.Spec{Options: map[string]any{"a": math.NaN()}})
	if sandbox.CodeOf(err) != sandbox.CodeInternal {
		t.Fatalf("Sum = %v", err)
	}
}

func TestDiffTightens(t *testing.T) {
	tests := []struct {
		name     string
		change   func(*sandbox.Spec)
		field    string
		tightens bool
	}{
		{"less memory", func(s *sandbox.Spec) { s.Resources.Memory = 1 << 30 }, "docker.memory", true},
		{"more memory", func(s *sandbox.Spec) { s.Resources.Memory = 4 << 30 }, "docker.memory", false},
		{"memory unbounded", func(s *sandbox.Spec) { s.Resources.Memory = 0 }, "docker.memory", false},
		{"fewer processes", func(s *sandbox.Spec) { s.Resources.PIDs = 10 }, "docker.pidsLimit", true},
		{"fewer processors", func(s *sandbox.Spec) { s.Resources.NanoCPUs = 1e9 }, "docker.cpus", true},
		{"no network", func(s *sandbox.Spec) { s.Network = "none" }, "docker.network", true},
		{"another network", func(s *sandbox.Spec) { s.Network = "web" }, "docker.network", false},
		{"bind read-only", func(s *sandbox.Spec) { s.Mounts[0].ReadOnly = true }, "workspace /workspace", true},
		{"bind writable", func(s *sandbox.Spec) { s.Mounts[1].ReadOnly = false }, "docker.binds /data", false},
		{"bind from elsewhere", func(s *sandbox.Spec) { s.Mounts[1].Source = "/e" }, "docker.binds /data", false},
		{"bind gone", func(s *sandbox.Spec) { s.Mounts = s.Mounts[:1] }, "docker.binds /data", true},
		{"bind new", func(s *sandbox.Spec) {
			s.Mounts = append(s.Mounts, sandbox.Mount{Source: "/n", Target: "/n", Role: sandbox.RoleBind})
		}, "docker.binds /n", false},
		{"private view of what was writable", func(s *sandbox.Spec) {
			s.Mounts[0].Source, s.Mounts[0].Base = "/state/x-private", "/w"
		}, "workspace /workspace", true},
		{"private view of another folder", func(s *sandbox.Spec) {
			s.Mounts[0].Source, s.Mounts[0].Base = "/state/x-private", "/other"
		}, "workspace /workspace", false},
		{"root writable", func(s *sandbox.Spec) { s.ReadOnlyRoot = false }, "docker.readOnlyRoot", false},
		{"more capabilities dropped", func(s *sandbox.Spec) { s.Security.CapDrop = []string{"ALL", "NET_RAW", "X"} }, "docker.capDrop", true},
		{"fewer capabilities dropped", func(s *sandbox.Spec) { s.Security.CapDrop = []string{"NET_RAW"} }, "docker.capDrop", false},
		{"other capabilities dropped", func(s *sandbox.Spec) { s.Security.CapDrop = []string{"ALL", "X"} }, "docker.capDrop", false},
		{"another profile", func(s *sandbox.Spec) { s.Security.Seccomp = "{}" }, "docker.seccompProfile", false},
		{"switch off", func(s *sandbox.Spec) { s.Security.Dangerous = []string{"x"} }, "security.dangerous", true},
		{"switch on", func(s *sandbox.Spec) { s.Security.Dangerous = []string{"x", "y", "z"} }, "security.dangerous", false},
		{"new privileges", func(s *sandbox.Spec) { s.Security.NoNewPrivileges = false }, "security.noNewPrivileges", false},
		{"smaller tmpfs", func(s *sandbox.Spec) { s.Tmpfs[0].Size = 1 << 20 }, "docker.tmpfs /tmp", true},
		{"tmpfs noexec", func(s *sandbox.Spec) { s.Tmpfs[0].Exec = false }, "docker.tmpfs /tmp", true},
		{"tmpfs exec", func(s *sandbox.Spec) { s.Tmpfs[1].Exec = true }, "docker.tmpfs /run", false},
		{"lower ulimit", func(s *sandbox.Spec) { s.Resources.Ulimits[1].Hard = 15 }, "docker.ulimits.nofile", true},
		{"ulimit unlimited", func(s *sandbox.Spec) { s.Resources.Ulimits[1].Hard = -1 }, "docker.ulimits.nofile", false},
		{"ulimit gone", func(s *sandbox.Spec) { s.Resources.Ulimits = s.Resources.Ulimits[:1] }, "docker.ulimits.nofile", false},
		{"more denied", func(s *sandbox.Spec) { s.Filesystem.DenyRead = []string{"/x", "/y", "/z"} }, "filesystem.denyRead", true},
		{"less allowed", func(s *sandbox.Spec) { s.Filesystem.AllowWrite = nil }, "filesystem.allowWrite", true},
		{"another image", func(s *sandbox.Spec) { s.ImageID = "sha256:2" }, "docker.image", false},
		{"another user", func(s *sandbox.Spec) { s.UID = 9 }, "docker.user", false},
		{"no accelerators", func(s *sandbox.Spec) { s.GPUs = "" }, "docker.gpus", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := full()
			tt.change(&s)
			d := confighash.Diff(full(), s)
			if len(d) != 1 || d[0].Field != tt.field || d[0].Tightens != tt.tightens || d[0].From == d[0].To {
				t.Fatalf("Diff = %+v; want one change of %s, tightens %v", d, tt.field, tt.tightens)
			}
		})
	}
}

func TestDiffOrderIsFixed(t *testing.T) {
	want := confighash.Diff(full(), sandbox.Spec{})
	for range 20 {
		if diff := cmp.Diff(want, confighash.Diff(full(), sandbox.Spec{})); diff != "" {
			t.Fatal(diff)
		}
	}
}

func BenchmarkSum(b *testing.B) {
	s := full()
	for b.Loop() {
		sum(b, s)
	}
}

func ExampleDiff() {
	old := sandbox.Spec{Network: "bridge", Resources: sandbox.Resources{Memory: 2 << 30}, Env: map[string]string{"TOKEN": "a"}}
	new := sandbox.Spec{Network: "none", Resources: sandbox.Resources{Memory: 3 << 30}, Env: map[string]string{"TOKEN": "b"}}
	for _, c := range confighash.Diff(old, new) {
		fmt.Printf("%s: %s → %s (tightens: %v)\n", c.Field, c.From, c.To, c.Tightens)
	}
	// Output:
	// docker.network: bridge → none (tightens: true)
	// docker.env.TOKEN: set → changed (tightens: false)
	// docker.memory: 2g → 3g (tightens: false)
}

// TestBuiltinProfile holds that the form of our profile that is kept ready is
// the one that is made of anybody's.
func TestBuiltinProfile(t *testing.T) {
	for _, p := range []string{seccomp.Profile(), seccomp.Browser()} {
		ours, theirs := sandbox.Spec{}, sandbox.Spec{}
		ours.Security.Seccomp, theirs.Security.Seccomp = p, p+" "
		a, err := confighash.Sum(ours)
		if err != nil {
			t.Fatal(err)
		}
		b, err := confighash.Sum(theirs)
		if err != nil || a != b {
			t.Errorf("hashes %s and %s, %v", a, b, err)
		}
	}
}
