package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

const profile = `{"defaultAction":"SCMP_ACT_ERRNO"}`

// facts is the world of the tests.
func facts() config.Facts {
	return config.Facts{
		Instance: "0011223344556677", ImageID: "sha256:abc", UID: 70001, GID: 70001,
		Workspace: "/srv/state/workspaces/w", AgentDir: "/root/agents/r", SocketDir: "/srv/state/run/0a",
		PasswdFile: "/srv/state/identity/1/passwd", GroupFile: "/srv/state/identity/1/group",
		TrustDir: "/srv/state/egress/trust", Guest: sandbox.GuestRef{Dir: "/srv/state/guest/0a", Digest: "0a"},
		Seccomp: profile, HostCPUs: 2, HostMemory: 8 << 30, Home: "/root",
		Sensitive: []string{"/srv/state", "/run/docker.sock"}, Workspaces: []string{"/srv/state/workspaces"},
	}
}

// lookup fills Canonical with each host path of r as its own canonical form,
// and gives the sandbox the scratch workspace of its name.
func lookup(t testing.TB, r config.Resolved, f *config.Facts) {
	t.Helper()
	paths, err := r.HostPaths(f.Home, f.Env)
	if err != nil {
		t.Fatal(err)
	}
	f.Canonical, f.Via = map[string]string{}, map[string][]string{}
	for _, p := range paths {
		f.Canonical[p], f.Via[p] = p, []string{p}
	}
	f.Workspace = "/srv/state/workspaces/" + scratch(t, r, *f)
}

// scratch is the name of the sandbox that r asks for.
func scratch(t testing.TB, r config.Resolved, f config.Facts) string {
	t.Helper()
	name, err := config.Name(r.Docker.ContainerPrefix, sandbox.Owner{
		Instance: f.Instance, Tenant: r.Tenant, Agent: r.Agent, Session: r.Session, Scope: r.Scope, ScopeKey: r.ScopeKey,
	})
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// TestUndefinedVariableNamesItsField holds that a path with a variable that is
// not set names the setting that it stands in.
func TestUndefinedVariableNamesItsField(t *testing.T) {
	for members, field := range map[string]string{
		`"docker":{"binds":["/srv/a:/a:ro","$NOPE/x:/x:ro"]}`: defaultsPath + "docker.binds[1]", `"docker":{"binds":["${NOPE}:/x:ro"]}`: defaultsPath + "docker.binds[0]",
		`"filesystem":{"allowRead":["/a","$NOPE/x"]}`: defaultsPath + "filesystem.allowRead[1]", `"filesystem":{"denyWrite":["$NOPE/x"]}`: defaultsPath + "filesystem.denyWrite[0]",
		`"filesystem":{"allowUnixSockets":["$NOPE/s"]}`: defaultsPath + "filesystem.allowUnixSockets[0]",
	} {
		_, err := resolvedFor(t, members).HostPaths("/root", map[string]string{"SET": "/x", "NOPE": ""})
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Field != field || !strings.Contains(e.Message, "NOPE") {
			t.Errorf("%s: %#v; want the field %s", members, err, field)
		}
	}
}

func TestBuildSpecGolden(t *testing.T) {
	for name, r := range mixes(t) {
		t.Run(name, func(t *testing.T) {
			f := facts()
			f.Home = "/home/ann"
			f.AgentDir = "/home/ann/agents/r"
			lookup(t, r, &f)
			switch name {
			case "flags":
				f.Provider, f.Workspace = "docker", "/srv/project"
			case "every":
				f.Provider, f.SeccompOverride = "docker", `{"defaultAction":"SCMP_ACT_KILL"}`
			}
			s, err := config.BuildSpec(r, f)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "spec/"+name, s)
			again, err := config.BuildSpec(r, f)
			if err != nil || !cmp.Equal(s, again) {
				t.Fatalf("a second time it is different: %v", cmp.Diff(s, again))
			}
		})
	}
}

func build(t *testing.T, in string, change func(*config.Facts)) (sandbox.Spec, error) {
	t.Helper()
	r := resolve(t, in, ann, config.Overrides{})
	f := facts()
	f.Env = map[string]string{"DATA": "/data", "ETC": "/etc"}
	lookup(t, r, &f)
	if change != nil {
		change(&f)
	}
	return config.BuildSpec(r, f)
}

func TestBuildSpecRefuses(t *testing.T) {
	points := func(from, to string) func(*config.Facts) { return func(f *config.Facts) { f.Canonical[from] = to } }
	exposed := func(dir string) func(*config.Facts) { return func(f *config.Facts) { f.Exposed = []string{dir} } }
	bind := func(s string) string { return inDefaults(`"docker":{"binds":["` + s + `"]}`) }
	tests := []struct {
		name, in string
		change   func(*config.Facts)
		code     sandbox.Code
		field    string
		message  string
	}{
		{"bind that leads to etc", bind("/data/x:/x"), points("/data/x", "/etc"), sandbox.CodeCapabilityBlocked, defaultsPath + "docker.binds[0]", `leads to "/etc"`},
		{"bind that leads to the root", bind("/data/x:/x"), points("/data/x", "/"), sandbox.CodeCapabilityBlocked, defaultsPath + "docker.binds[0]", "root of the host"},
		{"bind that leads to the state folder", bind("/data/x:/x"), points("/data/x", "/srv/state/registry"), sandbox.CodeCapabilityBlocked, defaultsPath + "docker.binds[0]", "what runs the sandboxes"},
		{"bind through a variable", bind("$ETC/ssl:/x"), nil, sandbox.CodeCapabilityBlocked, defaultsPath + "docker.binds[0]", "configuration"},
		{"bind that was not looked up", bind("/data/x:/x"), func(f *config.Facts) { f.Canonical = nil }, sandbox.CodeCapabilityBlocked, defaultsPath + "docker.binds[0]", "not looked up"},
		{"bind with unknown variable", bind("$DATA/x:/x"), func(f *config.Facts) { f.Env = nil }, sandbox.CodeValidation, defaultsPath + "docker.binds[0]", "DATA"},
		{"below root's home", bind("~/data:/x"), nil, sandbox.CodeCapabilityBlocked, defaultsPath + "docker.binds[0]", "home of the host's root"},
		{"root user", `{}`, func(f *config.Facts) { f.UID = 0 }, sandbox.CodeCapabilityBlocked, "docker.user", "user id 0"},
		{"root group", `{}`, func(f *config.Facts) { f.GID = 0 }, sandbox.CodeCapabilityBlocked, "docker.user", "group id 0"},
		{"no profile", `{}`, func(f *config.Facts) { f.Seccomp = "" }, sandbox.CodeCapabilityBlocked, "docker.seccompProfile", "without a profile"},
		{"no workspace", `{}`, func(f *config.Facts) { f.Workspace = "" }, sandbox.CodeInternal, "", "Workspace"},
		{"no instance", `{}`, func(f *config.Facts) { f.Instance = "" }, sandbox.CodeInternal, "", "Instance"},
		{"no image", `{}`, func(f *config.Facts) { f.ImageID = "" }, sandbox.CodeInternal, "", "ImageID"},
		{"no guest", `{}`, func(f *config.Facts) { f.Guest.Digest = "" }, sandbox.CodeInternal, "", "Guest"},
		{"no agent's folder", inDefaults(`"workspaceAccess":"ro"`), func(f *config.Facts) { f.AgentDir = "" }, sandbox.CodeInternal, "", "AgentDir"},
		{"provider not chosen", inDefaults(`"provider":"auto"`), nil, sandbox.CodeInternal, "", "Provider"},
		{"profile not read", inDefaults(`"docker":{"seccompProfile":"/srv/p.json"}`), nil, sandbox.CodeInternal, "", "SeccompOverride"},
		{"profile that allows all", inDefaults(`"docker":{"seccompProfile":"/srv/p.json"}`), func(f *config.Facts) { f.SeccompOverride = `{"defaultAction":"SCMP_ACT_ALLOW"}` }, sandbox.CodeCapabilityBlocked, defaultsPath + "docker.seccompProfile", "forbids nothing"},
		{"workspace is the home", `{}`, func(f *config.Facts) { f.Workspace = "/root" }, sandbox.CodeCapabilityBlocked, "mounts[4].source", "whole home"},
		{"workspace is the state folder", `{}`, func(f *config.Facts) { f.Workspace = "/srv/state" }, sandbox.CodeCapabilityBlocked, "mounts[4].source", "what runs"},
		{"folder to view is missing", inDefaults(`"workspaceAccess":"private"`), func(f *config.Facts) { f.AgentDir = "" }, sandbox.CodeInternal, "", "AgentDir"},
		{"folder to view holds keys", inDefaults(`"workspaceAccess":"private"`), func(f *config.Facts) { f.Workspace += "-private"; f.AgentDir = "/root/.ssh" }, sandbox.CodeCapabilityBlocked, "mounts[4].base", "credentials"},
		{"agent's folder holds keys", inDefaults(`"workspaceAccess":"rw"`), func(f *config.Facts) { f.AgentDir = "/root/.ssh" }, sandbox.CodeCapabilityBlocked, "mounts[4].source", "credentials"},
		{"working folder outside", inDefaults(`"docker":{"workdir":"/opt"}`), nil, sandbox.CodeValidation, defaultsPath + "docker.workdir", "no mount and no tmpfs"},
		{"working folder beside the workspace", inDefaults(`"docker":{"workdir":"/workspace2"}`), nil, sandbox.CodeValidation, defaultsPath + "docker.workdir", "no mount and no tmpfs"},
		{"workspace of another sandbox", `{}`, func(f *config.Facts) { f.Workspace += "x" }, sandbox.CodeCapabilityBlocked, "mounts[4].source", "other sandboxes"},
		{"agent's folder among the workspaces", inDefaults(`"workspaceAccess":"rw"`), func(f *config.Facts) { f.AgentDir = "/srv/state/workspaces/other" }, sandbox.CodeCapabilityBlocked, "mounts[4].source", "other sandboxes"},
		{"agent's folder that another agent can exchange", inDefaults(`"workspaceAccess":"ro"`), exposed("/root/agents"), sandbox.CodeCapabilityBlocked, "mounts[5].source", "which a sandbox can write"},
		{"agent's folder behind a link that another agent can exchange", inDefaults(`"workspaceAccess":"rw"`), func(f *config.Facts) {
			f.Exposed, f.Via["/root/agents/r"] = []string{"/shared"}, []string{"/shared/link", "/root/agents/r"}
		}, sandbox.CodeCapabilityBlocked, "mounts[4].source", "which a sandbox can write"},
		{"bind below the own workspace", inDefaults(`"workspaceAccess":"rw","docker":{"binds":["/data/w/sub:/x"]}`), func(f *config.Facts) { f.AgentDir = "/data/w" }, sandbox.CodeCapabilityBlocked, defaultsPath + "docker.binds[0]", "which a sandbox can write"},
		{"bind below a writable bind that comes later", inDefaults(`"docker":{"binds":["/data/x:/x","/data:/y:rw"]}`), nil, sandbox.CodeCapabilityBlocked, defaultsPath + "docker.binds[0]", "which a sandbox can write"},
		{"bind behind a link in a writable bind", inDefaults(`"docker":{"binds":["/x/y:/x","/data:/y:rw"]}`), func(f *config.Facts) {
			f.Canonical["/x/y"], f.Via["/x/y"] = "/z", []string{"/x", "/x/y", "/data", "/data/link", "/z"}
		}, sandbox.CodeCapabilityBlocked, defaultsPath + "docker.binds[0]", "which a sandbox can write"},
		{"bind that another agent can exchange", bind("/data/x:/x"), exposed("/data"), sandbox.CodeCapabilityBlocked, defaultsPath + "docker.binds[0]", "which a sandbox can write"},
		{"bind whose way was not looked up", bind("/data/x:/x"), func(f *config.Facts) { f.Via, f.Exposed = nil, []string{"/other"} }, sandbox.CodeCapabilityBlocked, defaultsPath + "docker.binds[0]", "not looked up"},
		{"writable bind that leads to programs", bind("/data/x:/x:rw"), points("/data/x", "/usr/local/bin"), sandbox.CodeCapabilityBlocked, defaultsPath + "docker.binds[0]", "programs lie there"},
		{"bind over a tmpfs", bind("/data/x:/tmp"), nil, sandbox.CodeCapabilityBlocked, "docker.tmpfs[0]", "already taken"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := build(t, tt.in, tt.change)
			es := all(err)
			if len(es) == 0 || es[0].Code != tt.code || es[0].Field != tt.field || !strings.Contains(err.Error(), tt.message) {
				t.Fatalf("BuildSpec says %v; want %s of %q with %q", err, tt.code, tt.field, tt.message)
			}
			if !cmp.Equal(s, sandbox.Spec{}) {
				t.Error("a Spec came with the error")
			}
		})
	}
}

func TestBuildSpecMounts(t *testing.T) {
	targets := func(s sandbox.Spec) string {
		var out []string
		for _, m := range s.Mounts {
			m.Source = strings.Replace(m.Source, "/"+s.Name, "/w", 1)
			mode := "rw"
			if m.ReadOnly {
				mode = "ro"
			}
			if m.Base != "" {
				mode += "<-" + m.Base
			}
			out = append(out, m.Source+":"+m.Target+":"+mode)
		}
		return strings.Join(out, " ")
	}
	const ours = "/srv/state/guest/0a:/.sandbox/bin:ro /srv/state/run/0a:/.sandbox/run:rw " +
		"/srv/state/identity/1/passwd:/etc/passwd:ro /srv/state/identity/1/group:/etc/group:ro "
	tests := []struct {
		name, in string
		change   func(*config.Facts)
		want     string
	}{
		{"none", `{}`, nil, ours + "/srv/state/workspaces/w:/workspace:rw"},
		{"ro", inDefaults(`"workspaceAccess":"ro"`), nil, ours + "/srv/state/workspaces/w:/workspace:rw /root/agents/r:/agent:ro"},
		{"rw", inDefaults(`"workspaceAccess":"rw"`), nil, ours + "/root/agents/r:/workspace:rw"},
		{"private", inDefaults(`"workspaceAccess":"private"`), func(f *config.Facts) { f.Workspace += "-private" }, ours + "/srv/state/workspaces/w-private:/workspace:rw<-/root/agents/r"},
		{"no socket, no identity", `{}`, func(f *config.Facts) { f.SocketDir, f.PasswdFile, f.GroupFile = "", "", "" }, "/srv/state/guest/0a:/.sandbox/bin:ro /srv/state/workspaces/w:/workspace:rw"},
		{"binds in order, canonical", inDefaults(`"docker":{"binds":["$DATA/z:/z","/data/a:/a/:rw"]}`), func(f *config.Facts) { f.Canonical["/data/a"] = "/mnt/a" },
			ours + "/srv/state/workspaces/w:/workspace:rw /data/z:/z:ro /mnt/a:/a:rw"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := build(t, tt.in, tt.change)
			if err != nil {
				t.Fatal(err)
			}
			if got := targets(s); got != tt.want+" /srv/state/egress/trust:/.sandbox/trust:ro" {
				t.Errorf("mounts are\n%s; want\n%s", got, tt.want)
			}
		})
	}
}

func TestBuildSpecSizes(t *testing.T) {
	for _, memory := range []string{"32m", "33m", "100m", "512m", "2g", "16g"} {
		for _, extra := range []string{"", `,"shmSize":"8m"`, `,"tmpfs":["/tmp:size=2m"]`, `,"tmpfs":["/home/sandbox:size=1m","/tmp:size=1m"]`} {
			in := inDefaults(`"docker":{"memory":"` + memory + `"` + extra + `}`)
			if _, err := config.Parse("f", []byte(in)); err != nil {
				if extra == "" || !strings.HasPrefix(memory, "3") {
					t.Errorf("memory %s%s: %v", memory, extra, err)
				}
				continue
			}
			s, err := build(t, in, nil)
			if err != nil {
				t.Fatal(err)
			}
			sum := s.Resources.ShmSize
			home := false
			for _, m := range s.Tmpfs {
				sum += m.Size
				home = home || m.Target == sandbox.HomeDir && m.Owned
				if m.Size < 1<<20 || m.Size%4096 != 0 {
					t.Errorf("memory %s%s: %s has %d bytes", memory, extra, m.Target, m.Size)
				}
			}
			if sum > s.Resources.Memory/2 {
				t.Errorf("memory %s%s: folders in memory take %d of %d", memory, extra, sum, s.Resources.Memory)
			}
			if !home {
				t.Errorf("memory %s%s: no home", memory, extra)
			}
		}
	}
}

func TestClamps(t *testing.T) {
	r := resolve(t, inDefaults(`"docker":{"cpus":8,"memory":"32g"}`), ann, config.Overrides{})
	f := facts()
	lookup(t, r, &f)
	s, err := config.BuildSpec(r, f)
	if err != nil || s.Resources.NanoCPUs != 2e9 {
		t.Fatalf("NanoCPUs = %d, %v; want those of the host", s.Resources.NanoCPUs, err)
	}
	if n := fmt.Sprint(config.Clamps(r, f)); !strings.Contains(n, "docker.cpus") || !strings.Contains(n, "docker.memory") {
		t.Errorf("notices are %s", n)
	}
	f.HostCPUs, f.HostMemory = 0, 0
	if s, err := config.BuildSpec(r, f); err != nil || s.Resources.NanoCPUs != 8e9 || len(config.Clamps(r, f)) != 0 {
		t.Errorf("unknown host: %d, %v", s.Resources.NanoCPUs, err)
	}
}

func TestBreakGlassShowsInSpec(t *testing.T) {
	in := inDefaults(`"docker":{"readOnlyRoot":false,"dangerouslyAllowWritableRoot":true,
		"binds":["~/keys:/keys"],"dangerouslyAllowBindSources":["/root/keys"]}`)
	s, err := build(t, in, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"dangerouslyAllowBindSources=/root/keys", "dangerouslyAllowWritableRoot"}
	if diff := cmp.Diff(want, s.Security.Dangerous); diff != "" || s.ReadOnlyRoot {
		t.Errorf("switches (-want +got):\n%s", diff)
	}
}

func TestName(t *testing.T) {
	base := sandbox.Owner{Instance: "i", Tenant: "t", Scope: sandbox.ScopeSession, ScopeKey: "chat-42"}
	name := func(o sandbox.Owner) string {
		n, err := config.Name("sbx-", o)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	seen := map[string]string{name(base): "base"}
	for what, change := range map[string]func(*sandbox.Owner){
		"instance":              func(o *sandbox.Owner) { o.Instance = "j" },
		"tenant":                func(o *sandbox.Owner) { o.Tenant = "" },
		"scope":                 func(o *sandbox.Owner) { o.Scope = sandbox.ScopeShared },
		"key":                   func(o *sandbox.Owner) { o.ScopeKey = "chat-43" },
		"key with other case":   func(o *sandbox.Owner) { o.ScopeKey = "Chat-42" },
		"key with other sign":   func(o *sandbox.Owner) { o.ScopeKey = "chat/42" },
		"bytes between parts":   func(o *sandbox.Owner) { o.Instance, o.Tenant = "it", "" },
		"bytes between parts 2": func(o *sandbox.Owner) { o.Instance, o.Tenant = "", "it" },
	} {
		o := base
		change(&o)
		n := name(o)
		if other, ok := seen[n]; ok {
			t.Errorf("%s and %s share the name %s", what, other, n)
		}
		seen[n] = what
	}
	same := base
	same.Agent, same.Session = "other", "other"
	if name(same) != name(base) {
		t.Error("agent and session change the name")
	}
	for key, want := range map[string]string{
		"chat-42":                 "sbx-chat-42-",
		"agent:main":              "sbx-agent-main-",
		"agent:a.b:session:Chat":  "sbx-a-b-chat-",
		"--A  b!!c--":             "sbx-a-b-c-",
		"数据":                      "sbx-",
		strings.Repeat("x", 200):  "sbx-" + strings.Repeat("x", 32) + "-",
		strings.Repeat("x-", 100): "sbx-" + strings.Repeat("x-", 15) + "x-",
	} {
		o := base
		o.ScopeKey = key
		if n := name(o); !strings.HasPrefix(n, want) || len(n) != len(want)+16 {
			t.Errorf("key %.40q: name is %s; want %s and 16 digits", key, n, want)
		}
	}
	for _, prefix := range []string{"", "-a", "Sbx-", "a_b", "a b", strings.Repeat("a", 15), "ä"} {
		if _, err := config.Name(prefix, base); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
}

// TestNameIsStable holds that names survive an upgrade: existing sandboxes
// are found by them.
func TestNameIsStable(t *testing.T) {
	n, err := config.Name("sbx-", sandbox.Owner{Instance: "0011223344556677", Scope: sandbox.ScopeAgent, ScopeKey: "agent:main"})
	if want := "sbx-agent-main-bdf8cf3b70b04ba7"; err != nil || n != want {
		t.Fatalf("Name = %s, %v; want %s", n, err, want)
	}
}

func FuzzName(f *testing.F) {
	f.Add("sbx-", "i", "t", "session", "chat-42")
	f.Add("a", "", "", "", "")
	f.Add("aaaaaaaaaaaaaa", "\x00", "/", "x", strings.Repeat("ä", 300))
	f.Fuzz(func(t *testing.T, prefix, instance, tenant, scope, key string) {
		o := sandbox.Owner{Instance: instance, Tenant: tenant, Scope: sandbox.Scope(scope), ScopeKey: key}
		n, err := config.Name(prefix, o)
		if err != nil {
			return
		}
		if len(n) > 63 || strings.Trim(n, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || n[0] == '-' || n[len(n)-1] == '-' || !strings.HasPrefix(n, prefix) {
			t.Fatalf("name %q", n)
		}
		o.ScopeKey += "x"
		if other, _ := config.Name(prefix, o); other == n {
			t.Fatalf("%q and another key share %q", key, n)
		}
	})
}

func ExampleBuildSpec() {
	r, err := config.Resolve(nil, config.Who{Agent: "main", Session: "chat-42"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := config.BuildSpec(r, config.Facts{
		Instance: "0011223344556677", ImageID: "sha256:abc", UID: 70001, GID: 70001,
		Workspace: "/srv/workspaces/w", Guest: sandbox.GuestRef{Dir: "/srv/guest", Digest: "0a"}, Seccomp: profile,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	b, _ := json.Marshal(s.Mounts[1])
	fmt.Println(s.Network, s.ReadOnlyRoot, s.Security.CapDrop)
	fmt.Println(string(b))
	// Output:
	// none true [ALL]
	// {"source":"/srv/workspaces/w","target":"/workspace","role":"workspace"}
}

// TestVolumes holds that volumes of the image get a folder in memory each, within
// the half of memory that such folders may take.
func TestVolumes(t *testing.T) {
	declares := func(volumes ...string) func(*config.Facts) { return func(f *config.Facts) { f.Volumes = volumes } }
	folders := func(in string, volumes ...string) map[string]sandbox.Tmpfs {
		t.Helper()
		s, err := build(t, in, declares(volumes...))
		if err != nil {
			t.Fatal(err)
		}
		got, sum := map[string]sandbox.Tmpfs{}, s.Resources.ShmSize
		for _, f := range s.Tmpfs {
			if _, twice := got[f.Target]; twice {
				t.Errorf("%s is there twice", f.Target)
			}
			got[f.Target] = f
			sum += f.Size
		}
		if sum > s.Resources.Memory/2 {
			t.Errorf("the folders take %d of %d", sum, s.Resources.Memory)
		}
		return got
	}
	got := folders(`{}`, "/data/", "var/lib/x", "/data", "/workspace", "/run/pg")
	for _, v := range []string{"/data", "/var/lib/x", "/run/pg"} {
		if f := got[v]; f.Image != sandbox.ImageVolume || !f.Owned || !f.Exec || f.Size < 64<<20 {
			t.Errorf("%s: %+v", v, f)
		}
	}
	for _, v := range []string{"/run", sandbox.HomeDir} {
		if got[v].Image != sandbox.ImageContent {
			t.Errorf("%s: %+v", v, got[v])
		}
	}
	if len(got) != 7 || got["/tmp"].Image != "" {
		t.Errorf("%d folders: %+v", len(got), got)
	}
	got = folders(inDefaults(`"docker":{"tmpfs":["/tmp:size=64m","/data:size=100m","/run:size=8m"]}`), "/data", "/more")
	if f := got["/data"]; f.Size != 100<<20 || f.Image != sandbox.ImageVolume {
		t.Errorf("a volume that the settings name: %+v", f)
	}
	if f := got["/more"]; f.Size < 32<<20 || f.Image != sandbox.ImageVolume {
		t.Errorf("a volume that they do not name: %+v", f)
	}
	many := make([]string, 17)
	for i := range many {
		many[i] = "/data" + strconv.Itoa(i)
	}
	for what, volumes := range map[string][]string{"the file system of the kernel": {"/proc/x"}, "the root": {"/"}, "in the workspace": {"/workspace/x"}, "many": many} {
		if _, err := build(t, `{}`, declares(volumes...)); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked || !strings.Contains(err.Error(), "docker.image") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
