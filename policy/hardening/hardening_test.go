package hardening_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
)

const profile = `{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["read"],"action":"SCMP_ACT_ALLOW"}]}`

// goodSpec passes every rule.
func goodSpec() sandbox.Spec {
	return sandbox.Spec{
		Name: "w", Provider: "docker", Network: "none", UID: 4711, GID: 4711, ReadOnlyRoot: true,
		Security: sandbox.Security{CapDrop: []string{"ALL"}, NoNewPrivileges: true, Seccomp: profile},
		Guest:    sandbox.GuestRef{Dir: "/srv/state/guest/0a"},
		Mounts: []sandbox.Mount{
			{Source: "/srv/state/guest/0a", Target: "/.sandbox/bin", ReadOnly: true, Role: sandbox.RoleGuest},
			{Source: "/srv/state/run/0a", Target: "/.sandbox/run", Role: sandbox.RoleSocket},
			{Source: "/srv/state/identity/passwd", Target: "/etc/passwd", ReadOnly: true, Role: sandbox.RoleIdentity},
			{Source: "/srv/state/workspaces/w", Target: "/workspace", Role: sandbox.RoleWorkspace},
			{Source: "/root/agents/a", Target: "/agent", ReadOnly: true, Role: sandbox.RoleAgent},
			{Source: "/data/maps", Target: "/maps", ReadOnly: true, Role: sandbox.RoleBind},
		},
		Tmpfs: []sandbox.Tmpfs{{Target: "/tmp", Size: 1 << 20}},
	}
}

func withBind(source, target string) func(*sandbox.Spec) {
	return func(s *sandbox.Spec) {
		s.Mounts = append(s.Mounts, sandbox.Mount{Source: source, Target: target, Role: sandbox.RoleBind})
	}
}

const trust = "/srv/state/egress/trust"

func withTrust(source, target string, readOnly bool) func(*sandbox.Spec) {
	return func(s *sandbox.Spec) {
		s.Mounts = append(s.Mounts, sandbox.Mount{Source: source, Target: target, ReadOnly: readOnly, Role: sandbox.RoleTrust})
	}
}

func TestCheckRefuses(t *testing.T) {
	network := func(v string) func(*sandbox.Spec) { return func(s *sandbox.Spec) { s.Network = v } }
	seccomp := func(v string) func(*sandbox.Spec) { return func(s *sandbox.Spec) { s.Security.Seccomp = v } }
	apparmor := func(v string) func(*sandbox.Spec) { return func(s *sandbox.Spec) { s.Security.AppArmor = v } }
	runtime := func(v string) func(*sandbox.Spec) { return func(s *sandbox.Spec) { s.Runtime = v } }
	target := func(v string) func(*sandbox.Spec) { return withBind("/data/x", v) }
	tests := []struct {
		name, field, reason string
		change              func(*sandbox.Spec)
	}{
		{"host network", "docker.network", "network of the host", network("host")},
		{"host network in upper case", "docker.network", "network of the host", network("HOST")},
		{"host network with space", "docker.network", "network of the host", network(" Host")},
		{"host network with newline", "docker.network", "network of the host", network("host\n")},
		{"another container", "docker.network", "another container", network("container:db")},
		{"another container in mixed case", "docker.network", "another container", network("Container:db")},
		{"another container with space", "docker.network", "another container", network("container :db")},
		{"another container without name", "docker.network", "another container", network("container:")},
		{"namespace path", "docker.network", "namespace given from outside", network("ns:/proc/1/ns/net")},
		{"service", "docker.network", "namespace given from outside", network("service:web")},
		{"own in upper case", "docker.network", "that others may be on", network("OWN")},
		{"own with space", "docker.network", "that others may be on", network(" own")},
		{"network id", "docker.network", "by its id", network("0123456789ab")},
		{"network with odd characters", "docker.network", "not the name of a network", network("a b")},
		{"no network named", "docker.network", "its default one", network("")},
		{"seccomp unconfined", "docker.seccompProfile", "unconfined", seccomp("unconfined")},
		{"seccomp unconfined in upper case", "docker.seccompProfile", "unconfined", seccomp("UNCONFINED")},
		{"seccomp unconfined with space", "docker.seccompProfile", "unconfined", seccomp(" Unconfined\t")},
		{"seccomp unconfined as option", "docker.seccompProfile", "unconfined", seccomp("seccomp=unconfined")},
		{"seccomp unconfined as JSON string", "docker.seccompProfile", "unconfined", seccomp(`"unconfined"`)},
		{"seccomp that allows all", "docker.seccompProfile", "forbids nothing", seccomp(`{"defaultAction":"SCMP_ACT_ALLOW"}`)},
		{"seccomp that only logs", "docker.seccompProfile", "forbids nothing", seccomp(`{"defaultAction":"SCMP_ACT_LOG","syscalls":[{"action":"SCMP_ACT_ALLOW"}]}`)},
		{"seccomp without action", "docker.seccompProfile", "not a seccomp profile", seccomp(`{}`)},
		{"seccomp as a path", "docker.seccompProfile", "not a seccomp profile", seccomp("/data/profile.json")},
		{"no seccomp", "docker.seccompProfile", "without a profile", seccomp("")},
		{"apparmor unconfined", "docker.apparmorProfile", "unconfined", apparmor("unconfined")},
		{"apparmor unconfined in mixed case", "docker.apparmorProfile", "unconfined", apparmor("UnConfined ")},
		{"apparmor unconfined as option", "docker.apparmorProfile", "unconfined", apparmor("apparmor=unconfined")},
		{"apparmor with odd characters", "docker.apparmorProfile", "not the name of a profile", apparmor("a/b")},
		{"runtime as path", "docker.runtime", "run a program of the host", runtime("/usr/bin/runc")},
		{"runtime with space", "docker.runtime", "not the name of a runtime", runtime("runc --debug")},
		{"runtime with dash in front", "docker.runtime", "not the name of a runtime", runtime("-runc")},
		{"root user", "docker.user", "user id 0", func(s *sandbox.Spec) { s.UID = 0 }},
		{"root group", "docker.user", "group id 0", func(s *sandbox.Spec) { s.GID = 0 }},
		{"negative user", "docker.user", "below 0", func(s *sandbox.Spec) { s.UID = -1 }},
		{"capabilities kept", "docker.capDrop", "lacks ALL", func(s *sandbox.Spec) { s.Security.CapDrop = []string{"NET_RAW"} }},
		{"no capabilities dropped", "docker.capDrop", "lacks ALL", func(s *sandbox.Spec) { s.Security.CapDrop = nil }},
		{"writable root", "docker.readOnlyRoot", "writable root", func(s *sandbox.Spec) { s.ReadOnlyRoot = false }},
		{"new privileges", "security.noNewPrivileges", "gain privileges", func(s *sandbox.Spec) { s.Security.NoNewPrivileges = false }},
		{"unknown switch", "security.dangerous", "no such break-glass switch", func(s *sandbox.Spec) { s.Security.Dangerous = []string{"dangerouslyAllowHostNetwork"} }},
		{"bind of etc", "mounts[6].source", "configuration", withBind("/etc", "/data")},
		{"bind of the engine's socket", "mounts[6].source", "container engine", withBind("/run/docker.sock", "/data")},
		{"target workspace", "mounts[6].target", "the workspace lies there", target("/workspace")},
		{"target below the workspace", "mounts[6].target", "the workspace lies there", target("/workspace/x")},
		{"target workspace with slash", "mounts[6].target", "the workspace lies there", target("/workspace/")},
		{"target workspace in upper case", "mounts[6].target", "the workspace lies there", target("/WorkSpace")},
		{"target agent", "mounts[6].target", "the agent's folder lies there", target("/agent")},
		{"target below agent", "mounts[6].target", "the agent's folder lies there", target("/agent/skills")},
		{"target guest", "mounts[6].target", "guest", target("/.sandbox")},
		{"target guest's program", "mounts[6].target", "guest", target("/.sandbox/bin/sandbox-guest")},
		{"target proc", "mounts[6].target", "kernel's view", target("/proc/sys")},
		{"target sys", "mounts[6].target", "kernel's view", target("/sys")},
		{"target dev", "mounts[6].target", "devices", target("/dev/null")},
		{"target passwd", "mounts[6].target", "user database", target("/etc/passwd")},
		{"target group", "mounts[6].target", "user database", target("/etc/group")},
		{"target above passwd", "mounts[6].target", "would hide /etc/passwd", target("/etc")},
		{"target home", "mounts[6].target", "the home lies there", target("/home/sandbox")},
		{"target below home", "mounts[6].target", "the home lies there", target("/home/sandbox/.cache")},
		{"target above home", "mounts[6].target", "would hide", target("/home")},
		{"target root", "mounts[6].target", "would hide", target("/")},
		{"target relative", "mounts[6].target", "relative", target("data")},
		{"target empty", "mounts[6].target", "empty", target("")},
		{"target with dotdot", "mounts[6].target", "contains ..", target("/data/../workspace")},
		{"target with double slash", "mounts[6].target", "double slashes", target("//workspace")},
		{"target with dot", "mounts[6].target", "double slashes or dots", target("/./x")},
		{"target with colon", "mounts[6].target", "colon", target("/x:rw")},
		{"target with control character", "mounts[6].target", "control", target("/x\x1b")},
		{"target on Windows", "mounts[6].target", "Windows", target(`C:\x`)},
		{"duplicate target", "mounts[6].target", "already taken by mounts[5].target", target("/maps")},
		{"duplicate target with slash", "mounts[6].target", "already taken", target("/maps/")},
		{"bind over a tmpfs", "docker.tmpfs[0]", "already taken by mounts[6].target", target("/tmp")},
		{"tmpfs over the workspace", "docker.tmpfs[1]", "would hide", func(s *sandbox.Spec) {
			s.Tmpfs = append(s.Tmpfs, sandbox.Tmpfs{Target: "/workspace", Size: 1})
		}},
		{"tmpfs without size", "docker.tmpfs[1]", "without size", func(s *sandbox.Spec) {
			s.Tmpfs = append(s.Tmpfs, sandbox.Tmpfs{Target: "/var/tmp"})
		}},
		{"unknown role", "mounts[6].target", "unknown role", func(s *sandbox.Spec) {
			s.Mounts = append(s.Mounts, sandbox.Mount{Source: "/data/x", Target: "/x", Role: "own"})
		}},
		{"trust folder of elsewhere", "mounts[6].source", "authority's key lies above", withTrust("/srv/state/egress", sandbox.TrustDir, true)},
		{"trust folder that is etc", "mounts[6].source", "not the folder of public certificates", withTrust("/etc", sandbox.TrustDir, true)},
		{"trust folder at another place", "mounts[6].target", "belongs at", withTrust(trust, "/etc/ssl", true)},
		{"writable trust folder", "mounts[6].target", "must be read-only", withTrust(trust, sandbox.TrustDir, false)},
		{"bind over the trust folder", "mounts[6].target", "guest", target(sandbox.TrustDir)},
		{"bind of the trust folder", "mounts[6].source", "what runs the sandboxes", withBind(trust, "/certs")},
		{"writable guest", "mounts[0].target", "must be read-only", func(s *sandbox.Spec) { s.Mounts[0].ReadOnly = false }},
		{"guest from elsewhere", "mounts[0].source", "not the folder of the guest", func(s *sandbox.Spec) { s.Guest.Dir = "/x" }},
		{"workspace at another place", "mounts[3].target", "belongs at", func(s *sandbox.Spec) { s.Mounts[3].Target = "/proc" }},
		{"writable agent's folder", "mounts[4].target", "must be read-only", func(s *sandbox.Spec) { s.Mounts[4].ReadOnly = false }},
		{"state folder as workspace", "mounts[3].source", "what runs the sandboxes", func(s *sandbox.Spec) { s.Mounts[3].Source = "/srv/state" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := goodSpec()
			tt.change(&s)
			err := hardening.Check(s, world())
			for _, e := range refusals(err) {
				if e.Field == tt.field && strings.Contains(e.Message, tt.reason) {
					return
				}
			}
			t.Fatalf("Check says %v; want a refusal of %s with %q", err, tt.field, tt.reason)
		})
	}
}

// refusals takes joined refusals apart.
func refusals(err error) []*sandbox.Error {
	var out []*sandbox.Error
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			out = append(out, refusals(e)...)
		}
		return out
	}
	var e *sandbox.Error
	if errors.As(err, &e) && e.Code == sandbox.CodeCapabilityBlocked {
		out = append(out, e)
	}
	return out
}

func TestCheckAllowsAGoodSpec(t *testing.T) {
	s := goodSpec()
	if err := hardening.Check(s, world()); err != nil {
		t.Fatal(err)
	}
	withTrust(trust, sandbox.TrustDir, true)(&s)
	if err := hardening.Check(s, world()); err != nil {
		t.Fatal("with the trust folder: ", err)
	}
}

func TestCheckReportsEverything(t *testing.T) {
	s := goodSpec()
	s.Network, s.UID, s.ReadOnlyRoot = "host", 0, false
	if got := len(refusals(hardening.Check(s, world()))); got != 3 {
		t.Fatalf("%d refusals; want 3", got)
	}
}

func TestSwitchesOpenTheirRuleOnly(t *testing.T) {
	tests := []struct {
		name, entry string
		change      func(*sandbox.Spec)
	}{
		{"writable root", hardening.SwitchWritableRoot, func(s *sandbox.Spec) { s.ReadOnlyRoot = false }},
		{"capabilities", hardening.SwitchKeepCapabilities, func(s *sandbox.Spec) { s.Security.CapDrop = nil }},
		{"reserved target", hardening.SwitchReservedTargets, withBind("/data/x", "/home/sandbox/.cache")},
		{"bind source", hardening.SwitchBindSources + "=/etc/ssl", withBind("/etc/ssl", "/certs")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := goodSpec()
			tt.change(&s)
			if err := hardening.Check(s, world()); err == nil {
				t.Fatal("allowed without the switch")
			}
			for _, other := range tests {
				s.Security.Dangerous = []string{other.entry}
				if err := hardening.Check(s, world()); (err == nil) != (other.entry == tt.entry) {
					t.Errorf("with %s: %v", other.entry, err)
				}
			}
		})
	}
}

func TestReservedTargetsWithoutSwitch(t *testing.T) {
	for _, target := range []string{"/", "/.sandbox", "/.sandbox/run", "/proc", "/sys/fs", "/dev"} {
		if hardening.Target("f", target, hardening.Switches{ReservedTargets: true}) == nil {
			t.Errorf("%s was opened by a switch", target)
		}
	}
}

func TestCheckNoticesASwappedSource(t *testing.T) {
	w := world()
	w.Canonical = func(p string) (string, error) {
		if p == "/data/maps" {
			return "/data/other", nil
		}
		return p, nil
	}
	err := hardening.Check(goodSpec(), w)
	wantRefusal(t, refusals(err)[0], "mounts[5].source", "/data/maps", `leads to "/data/other" now`)
}

func TestSwitchesRoundTrip(t *testing.T) {
	list := hardening.Switches{
		BindSources: []string{"/b", "/a", "/b"}, ReservedTargets: true, WritableRoot: true, KeepCapabilities: true,
	}.List()
	want := "[dangerouslyAllowBindSources=/a dangerouslyAllowBindSources=/b dangerouslyAllowReservedTargets dangerouslyAllowWritableRoot dangerouslyKeepCapabilities]"
	if fmt.Sprint(list) != want {
		t.Fatalf("List() = %v; want %s", list, want)
	}
	s, err := hardening.ParseSwitches(list)
	if err != nil || fmt.Sprint(s.List()) != want {
		t.Fatalf("ParseSwitches(List()) = %+v, %v", s, err)
	}
}

func TestUser(t *testing.T) {
	tests := []struct {
		in       string
		uid, gid int
		reason   string
	}{
		{in: "1000", uid: 1000, gid: 1000},
		{in: "1000:2000", uid: 1000, gid: 2000},
		{in: "0", reason: "id 0 is root"},
		{in: "000", reason: "id 0 is root"},
		{in: "0:0", reason: "id 0 is root"},
		{in: "1000:0", reason: "id 0 is root"},
		{in: "0:1000", reason: "id 0 is root"},
		{in: "root", reason: "root is user id 0"},
		{in: "ROOT", reason: "root is user id 0"},
		{in: "1000:root", reason: "root is user id 0"},
		{in: "sandbox", reason: "not a numeric"},
		{in: "+0", reason: "not a numeric"},
		{in: "-1", reason: "not a numeric"},
		{in: "0x0", reason: "not a numeric"},
		{in: "", reason: "not a numeric"},
		{in: "1000:", reason: "not a numeric"},
		{in: "1000:1:2", reason: "not a numeric"},
		{in: "4294967295", reason: "not a numeric"},
		{in: "4294967296", reason: "not a numeric"},
		{in: "99999999999999999999", reason: "not a numeric"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			uid, gid, err := hardening.User("docker.user", tt.in)
			if tt.reason != "" {
				wantRefusal(t, err, "docker.user", tt.in, tt.reason)
			} else if err != nil || uid != tt.uid || gid != tt.gid {
				t.Fatalf("User(%q) = %d, %d, %v", tt.in, uid, gid, err)
			}
		})
	}
}

func TestSettingsThatExistOnlyToBeRefused(t *testing.T) {
	wantRefusal(t, hardening.Privileged("docker.privileged", true), "docker.privileged", "true", "every device")
	wantRefusal(t, hardening.CapAdd("docker.capAdd", []string{"SYS_ADMIN"}), "docker.capAdd", "SYS_ADMIN", "never given")
	for _, v := range []string{"host", "HOST ", "container:x", "shareable"} {
		wantRefusal(t, hardening.Namespace("docker.pid", "pid", v), "docker.pid", v, "pid namespace")
	}
	if err := errors.Join(
		hardening.Privileged("f", false), hardening.CapAdd("f", nil), hardening.Namespace("f", "ipc", "private"),
		hardening.Network("f", "bridge"), hardening.Network("f", "my_net-1"), hardening.Runtime("f", "io.containerd.runsc.v1"),
		hardening.AppArmor("f", "docker-default"), hardening.Seccomp("f", profile),
	); err != nil {
		t.Fatal(err)
	}
}

func TestParseBind(t *testing.T) {
	tests := []struct {
		name, in, reason string
		want             hardening.Bind
	}{
		{name: "read-only when not said", in: "/a:/b", want: hardening.Bind{Source: "/a", Target: "/b", ReadOnly: true}},
		{name: "read-only", in: "/a:/b:ro", want: hardening.Bind{Source: "/a", Target: "/b", ReadOnly: true}},
		{name: "writable", in: "~/a:/b:rw", want: hardening.Bind{Source: "~/a", Target: "/b"}},
		{name: "no target", in: "/a", reason: "no target"},
		{name: "empty", in: "", reason: "no target"},
		{name: "empty target", in: "/a:", reason: "empty"},
		{name: "empty source", in: ":/b", reason: "empty"},
		{name: "propagation", in: "/a:/b:rshared", reason: "neither ro nor rw"},
		{name: "several options", in: "/a:/b:ro,z", reason: "neither ro nor rw"},
		{name: "mode in upper case", in: "/a:/b:RW", reason: "neither ro nor rw"},
		{name: "empty mode", in: "/a:/b:", reason: "neither ro nor rw"},
		{name: "colon trick", in: "/a:/b:ro:/c:rw", reason: "too many colons"},
		{name: "colon in source", in: "/a:x:/b:ro", reason: "too many colons"},
		{name: "Windows drive", in: `C:\x:/b`, reason: "Windows drive"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := hardening.ParseBind("docker.binds[0]", tt.in)
			if tt.reason != "" {
				wantRefusal(t, err, "docker.binds[0]", tt.in, tt.reason)
			} else if err != nil || got != tt.want {
				t.Fatalf("ParseBind(%q) = %+v, %v", tt.in, got, err)
			}
		})
	}
}

func ExampleCheck() {
	s := sandbox.Spec{
		Network: "host", UID: 1000, GID: 1000, ReadOnlyRoot: true,
		Security: sandbox.Security{CapDrop: []string{"ALL"}, NoNewPrivileges: true},
	}
	err := hardening.Check(s, hardening.World{Home: "/home/ann"})
	fmt.Println(sandbox.CodeOf(err))
	fmt.Println(refusals(err)[0].Message)
	// Output:
	// SANDBOX.CAPABILITY_BLOCKED
	// "host" is refused: the sandbox would share the network of the host, with every service on its loopback
}

// TestCheckSettingsMount holds that the mount of settings files shows a folder that
// we keep for one, at its place and read-only.
func TestCheckSettingsMount(t *testing.T) {
	const folder = "/srv/state/agents/0123456789abcdef0123456789abcdef"
	for name, c := range map[string]struct {
		mount sandbox.Mount
		ok    bool
	}{
		"as we make it":  {sandbox.Mount{Source: folder, Target: sandbox.SettingsDir, ReadOnly: true}, true},
		"writable":       {sandbox.Mount{Source: folder, Target: sandbox.SettingsDir}, false},
		"elsewhere":      {sandbox.Mount{Source: folder, Target: "/data", ReadOnly: true}, false},
		"all of them":    {sandbox.Mount{Source: "/srv/state/agents", Target: sandbox.SettingsDir, ReadOnly: true}, false},
		"another folder": {sandbox.Mount{Source: "/srv/state/egress", Target: sandbox.SettingsDir, ReadOnly: true}, false},
		"no digest":      {sandbox.Mount{Source: "/srv/state/agents/claude", Target: sandbox.SettingsDir, ReadOnly: true}, false},
	} {
		s := goodSpec()
		c.mount.Role = sandbox.RoleSettings
		s.Mounts = append(s.Mounts, c.mount)
		if err := hardening.Check(s, world()); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
