package config_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
)

// granted returns the policy of the settings of all agents for the manifest of
// [wishes].
func granted(t testing.TB, members string, in config.Inside) grant.Policy {
	t.Helper()
	p, err := config.GrantPolicy(resolvedFor(t, members), in, wishes())
	if err != nil {
		t.Fatalf("%s: %v", members, err)
	}
	return p
}

func resolvedFor(t testing.TB, members string) config.Resolved {
	t.Helper()
	s, err := config.Parse("f", []byte(inDefaults(members)))
	if err != nil {
		t.Fatalf("%s: %v", members, err)
	}
	r, err := config.Resolve(s, ann, nil)
	if err != nil {
		t.Fatalf("%s: %v", members, err)
	}
	return r
}

// spelledCaps writes the capabilities of a policy in short.
func spelledCaps(p grant.Policy) []string {
	var out []string
	for _, c := range p.Capabilities {
		s := string(c.Kind)
		for _, part := range []string{c.Path, c.Scheme, c.Host, c.Tool, c.Class, strings.Join(c.Actions, ",")} {
			if part != "" {
				s += " " + part
			}
		}
		if c.Port != 0 {
			s += " " + portText(c.Port)
		}
		if c.Kind != grant.Temp {
			out = append(out, s)
		}
	}
	return out
}

func portText(port int) string { return ":" + strconv.Itoa(port) }

func TestGrantPolicyCapabilities(t *testing.T) {
	const files = "fs.read /tmp|fs.read /workspace|fs.list /tmp|fs.list /workspace|fs.write /tmp|fs.write /workspace"
	tests := []struct {
		name, settings string
		in             config.Inside
		want           string
	}{
		{"the defaults", `"tools": {}`, config.Inside{}, files + "|proc git|proc make"},
		{"the agent's folder under ro", `"workspaceAccess": "ro"`, config.Inside{}, "fs.read /agent|fs.read /tmp|fs.read /workspace|fs.list /agent|fs.list /tmp|fs.list /workspace|fs.write /tmp|proc git|proc make"},
		{"what is allowed to be written under ro", `"workspaceAccess": "ro", "filesystem": {"allowWrite": ["/workspace/out", "/", "/workspace"]}`, config.Inside{},
			"fs.read /agent|fs.read /tmp|fs.read /workspace|fs.list /agent|fs.list /tmp|fs.list /workspace|fs.write /tmp|fs.write /workspace/out|proc git|proc make"},
		{"folders and patterns", `"filesystem": {"allowRead": ["/opt/a/b", "/opt/a", "/srv/**/x", "/usr/{lib,share}", "~/data"]}`, config.Inside{Home: "/home/me"},
			"fs.read /home/me/data|fs.read /home/sandbox/data|fs.read /opt/a|fs.read /tmp|fs.read /usr/lib|fs.read /usr/share|fs.read /workspace|" +
				"fs.list /home/me/data|fs.list /home/sandbox/data|fs.list /opt/a|fs.list /tmp|fs.list /usr/lib|fs.list /usr/share|fs.list /workspace|fs.write /tmp|fs.write /workspace|proc git|proc make"},
		{"hosts", `"network": {"allowedDomains": ["Example.com", "https://api.example.com", "http://example.org:8080/pub", "tcp://example.com:22", "a.example:25", "b.example:440-450", "10.0.0.0/8"]}`, config.Inside{},
			files + "|net.http example.com|net.http https api.example.com :443|net.http http example.org :8080|net.http a.example :25|" +
				"net.http b.example :440|net.http b.example :441|net.http b.example :442|net.http b.example :444|net.http b.example :445|net.http b.example :446|net.http b.example :447|" +
				"net.http b.example :448|net.http b.example :449|net.http b.example :450|net.http b.example|net.http 10.0.0.0/8|proc git|proc make"},
		{"every public host", `"network": {"allowPublic": true, "allowedDomains": ["*"]}`, config.Inside{}, files + "|net.http *|proc git|proc make"},
		{"private addresses alone", `"network": {"allowPrivate": true}`, config.Inside{}, files + "|proc git|proc make"},
		{"a browser that looks and acts", `"browser": {"enabled": true}`, config.Inside{}, files + "|browser click,extract,open,pdf,screenshot,type,upload,wait|proc git|proc make"},
		{"a browser that downloads", `"browser": {"enabled": true, "allowDownloads": true}`, config.Inside{}, files + "|browser click,extract,open,pdf,screenshot,type,upload,wait,download|proc git|proc make"},
		{"a program that is blocked", `"commands": {"block": ["git"]}`, config.Inside{}, files + "|proc make"},
		{"processors by name", `"docker": {"gpus": "device=0,GPU-a"}`, config.Inside{}, files + "|proc git|proc make|gpu 0|gpu GPU-a"},
		{"processors by number", `"docker": {"gpus": "2"}`, config.Inside{}, files + "|proc git|proc make|gpu any"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := spelledCaps(granted(t, tt.settings, tt.in))
			if d := cmp.Diff(strings.Split(tt.want, "|"), got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestGrantPolicyBounds(t *testing.T) {
	p := granted(t, `"limits": {"timeout": "90s", "fileSize": "3m"}, "docker": {"tmpfs": ["/run:size=1m", "/tmp:size=4m", "/var/tmp:size=2m"]},
		"filesystem": {"denyRead": ["~/.x", "/srv/a", "/srv/a/b", "rel/c", "**/*.key", "/z/**"], "denyWrite": ["/srv/w"]},
		"network": {"allowPublic": true, "allowPrivate": true, "allowedDomains": ["a.example"], "deniedDomains": ["b.example"]}`, config.Inside{Home: "/home/me"})
	if want := (grant.Limits{Timeout: 90 * time.Second, MaxBytesOut: 3 << 20}); p.Limits != want {
		t.Errorf("limits %+v, want %+v", p.Limits, want)
	}
	if want := (grant.Mappings{Root: "/workspace", Tmp: "/tmp"}); p.Mappings != want {
		t.Errorf("mappings %+v", p.Mappings)
	}
	for _, path := range []string{"/home/me/.x", "/home/sandbox/.x", "/srv/a", "/srv/w", "/workspace/rel/c", "/home/sandbox/rel/c", "/z", "/home/sandbox/.ssh"} {
		if !slices.Contains(p.Denied.Paths, path) {
			t.Errorf("%s is not denied: %q", path, p.Denied.Paths)
		}
	}
	if slices.ContainsFunc(p.Denied.Paths, func(s string) bool { return strings.ContainsAny(s, "*") || s == "/srv/a/b" }) {
		t.Errorf("denied %q", p.Denied.Paths)
	}
	if !slices.Equal(p.Denied.Domains, []string{"b.example"}) {
		t.Errorf("denied %q", p.Denied.Domains)
	}
	for _, rule := range []string{"a.example", "*", "10.0.0.0/8", "fc00::/7", "100.64.0.0/10"} {
		if !slices.Contains(p.Lists.Domains, rule) {
			t.Errorf("%s is not listed: %q", rule, p.Lists.Domains)
		}
	}
	i := slices.IndexFunc(p.Capabilities, func(c grant.Capability) bool { return c.Kind == grant.Temp })
	if i < 0 || p.Capabilities[i].Bytes != 4<<20 {
		t.Errorf("temporary space %+v", p.Capabilities)
	}
	if p := granted(t, `"tools": {}`, config.Inside{}); p.Lists.Domains == nil || len(p.Lists.Domains) != 0 {
		t.Errorf("without a host the list is %#v: none has to allow none", p.Lists.Domains)
	}
}

// TestGrantPolicyVersion holds that the version is that of what policies say:
// nothing else changes it, and whatever they go by does.
func TestGrantPolicyVersion(t *testing.T) {
	base := `"network": {"allowedDomains": ["a.example"]}`
	version := granted(t, base, config.Inside{}).Version
	if len(version) != 64 {
		t.Errorf("version %q", version)
	}
	for _, same := range []string{base, base + `, "prune": {"idle": "3h"}`, base + `, "docker": {"env": {"A": "1", "B": "2"}}`} {
		if got := granted(t, same, config.Inside{}).Version; got != version {
			t.Errorf("%s has another version", same)
		}
	}
	one, err := config.GrantPolicy(resolvedFor(t, base), config.Inside{}, grant.Manifest{})
	if err != nil || one.Version != version {
		t.Errorf("the manifest changes the version: %v", err)
	}
	seen := map[string]string{version: base}
	for _, other := range []string{
		base + `, "workspaceAccess": "rw"`, base + `, "filesystem": {"denyRead": ["**/*.pem"]}`, base + `, "commands": {"block": ["git"]}`,
		base + `, "tools": {"deny": ["x"]}`, base + `, "tools": {"alsoAllow": []}`, base + `, "limits": {"timeout": "1m"}`, base + `, "browser": {"enabled": true}`, base + `, "preset": "strict"`,
		base + `, "docker": {"env": {"HOME": "/tmp"}}`, base + `, "docker": {"tmpfs": ["/tmp:size=4m"]}`, base + `, "mode": "off"`, `"network": {"allowedDomains": ["b.example"]}`, `"network": {"ask": true}`,
	} {
		got := granted(t, other, config.Inside{}).Version
		if was, ok := seen[got]; ok {
			t.Errorf("%s and %s have one version", other, was)
		}
		seen[got] = other
	}
	if got := granted(t, base, config.Inside{FoldCase: true}).Version; seen[got] != "" {
		t.Error("a place that folds names has the version of one that does not")
	}
}

func TestGrantPolicyFailsClosed(t *testing.T) {
	r := resolvedFor(t, `"filesystem": {"denyWrite": ["/ok", "$NOWHERE/x"]}`)
	_, err := config.GrantPolicy(r, config.Inside{}, grant.Manifest{})
	refusedAt(t, err, "filesystem.denyWrite[1]")

	r = resolvedFor(t, `"tools": {}`)
	r.Network.AllowedDomains = []string{"ok.example", "bad host"}
	_, err = config.GrantPolicy(r, config.Inside{}, grant.Manifest{})
	refusedAt(t, err, "network.allowedDomains[1]")
	r.Network.AllowedDomains, r.Network.DeniedDomains = nil, []string{"bad host"}
	_, err = config.GrantPolicy(r, config.Inside{}, grant.Manifest{})
	refusedAt(t, err, "network.deniedDomains[0]")

	r = resolvedFor(t, `"tools": {}`)
	r.Docker.Tmpfs = []string{"/run:size=1m"}
	_, err = config.GrantPolicy(r, config.Inside{}, grant.Manifest{})
	refusedAt(t, err, "docker.tmpfs")

	r = resolvedFor(t, `"workspaceAccess": "ro"`)
	for i := range 100 {
		r.Filesystem.AllowWrite = append(r.Filesystem.AllowWrite, "/workspace/"+strconv.Itoa(10000+i))
	}
	_, err = config.GrantPolicy(r, config.Inside{}, grant.Manifest{})
	refusedAt(t, err, "filesystem.allowWrite")
}

func refusedAt(t *testing.T, err error, field string) {
	t.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != sandbox.CodeValidation || !strings.HasSuffix(e.Field, field) {
		t.Errorf("%v, want it at %s", err, field)
	}
}

// TestGrantPolicyOfManyRules holds that long lists make a policy that can be
// built with and says the same.
func TestGrantPolicyOfManyRules(t *testing.T) {
	r := resolvedFor(t, `"tools": {}`)
	for i := range 2000 {
		n := strconv.Itoa(10000 + i)
		r.Network.AllowedDomains = append(r.Network.AllowedDomains, "h"+n+".example", "*.w"+n+".example", "https://s"+n+".example", "10.1."+strconv.Itoa(i%200+1)+".1")
		r.Filesystem.AllowRead = append(r.Filesystem.AllowRead, "/opt/"+n)
	}
	p, err := config.GrantPolicy(r, config.Inside{}, wishes())
	if err != nil {
		t.Fatal(err)
	}
	g := guarding(t, p, "h10500.example", "s10500.example", "other.example", "10.1.7.1", "10.2.7.1")
	for url, allowed := range map[string]bool{
		"https://h10500.example/": true, "http://s10500.example/": false, "https://s10500.example/": true, "https://other.example/": false,
		"https://10.1.7.1/": true, "https://10.2.7.1/": false,
	} {
		err := g.Validate(grant.Operation{Kind: grant.OpNetHTTP, Method: "GET", URL: url}, grant.State{Now: noon()})
		if (err == nil) != allowed {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestGrantPolicyProfile holds that the settings of profiles are in the policy, that
// an empty list allows nothing, and that what is malformed is named.
func TestGrantPolicyProfile(t *testing.T) {
	const all = `"profile":{"mime":["text/*"],"tools":["git"],"methods":["GET"],"paths":["/workspace/docs"],"maxBytesIn":"2k","maxBytesOut":"3k",` +
		`"maxTmpBytes":"4k","maxFiles":5,"maxDepth":6,"maxConcurrency":7,"timeout":"8s"}`
	p := granted(t, all, config.Inside{})
	want := grant.Limits{MaxBytesIn: 2 << 10, MaxBytesOut: 3 << 10, MaxTmpBytes: 4 << 10, MaxFiles: 5, MaxDepth: 6, MaxConcurrency: 7, Timeout: 8 * time.Second}
	if p.Limits != want {
		t.Errorf("limits %+v", p.Limits)
	}
	if diff := cmp.Diff(grant.Lists{MIME: []string{"text/*"}, Tools: []string{"git"}, Methods: []string{"GET"}, Paths: []string{"/workspace/docs"}, Domains: p.Lists.Domains}, p.Lists); diff != "" {
		t.Error(diff)
	}
	if none := granted(t, ``, config.Inside{}); none.Version == p.Version || none.Lists.MIME != nil || none.Limits.MaxFiles != 0 {
		t.Errorf("without settings of profiles: %+v", none)
	}
	if p := granted(t, `"profile":{"mime":[],"timeout":"20m","maxBytesOut":"2m"},"limits":{"fileSize":"1m"}`, config.Inside{}); p.Lists.MIME == nil || p.Limits.Timeout != 10*time.Minute || p.Limits.MaxBytesOut != 1<<20 {
		t.Errorf("%+v", p)
	}
	for in, field := range map[string]string{
		`"mime":["text"]`: "mime[0]", `"mime":["text/*","TEXT/HTML"]`: "mime[1]", `"tools":["/bin/sh"]`: "tools[0]", `"methods":["get"]`: "methods[0]",
		`"paths":["docs"]`: "paths[0]", `"maxBytesIn":0`: "maxBytesIn", `"maxBytesOut":"-1k"`: "maxBytesOut", `"maxTmpBytes":true`: "maxTmpBytes",
		`"maxFiles":0`: "maxFiles", `"maxDepth":-1`: "maxDepth", `"maxConcurrency":"two"`: "maxConcurrency", `"timeout":"soon"`: "timeout", `"depth":1`: "depth",
	} {
		_, err := config.Parse("f", []byte(inDefaults(`"profile":{`+in+`}`)))
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Code != sandbox.CodeValidation || !strings.HasSuffix(e.Field, "sandbox.profile."+field) {
			t.Errorf("%s: %v", in, err)
		}
	}
}
