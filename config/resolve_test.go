package config_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares v as indented JSON with a file in testdata.
func golden(t *testing.T, name string, v any) {
	t.Helper()
	got, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	goldenBytes(t, name+".golden.json", append(got, '\n'))
}

func goldenBytes(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s differs (-want +got); run with -update when that is right:\n%s", file, cmp.Diff(string(want), string(got)))
	}
}

func parse(t testing.TB, in string) *config.Settings {
	t.Helper()
	s, err := config.Parse("test.json", []byte(in))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func resolve(t testing.TB, in string, who config.Who, o config.Overrides) config.Resolved {
	t.Helper()
	r, err := config.Resolve(parse(t, in), who, o.Layer())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var ann = config.Who{Tenant: "acme", Agent: "researcher", Session: "chat-42"}

// mixes are the settings of the golden files.
func mixes(t testing.TB) map[string]config.Resolved {
	every, err := os.ReadFile("testdata/every-key.json")
	if err != nil {
		t.Fatal(err)
	}
	const layered = `{"agents":{
		"defaults":{"sandbox":{"preset":"strict","docker":{"memory":"1g","env":{"A":"d","B":"d"},"binds":["/data/a:/a"],
			"ulimits":{"nofile":100}},"commands":{"excluded":["git"]},"network":{"allowedDomains":["a.example"]},"prune":{"idle":"1h"}}},
		"list":[{"id":"researcher","mainSession":"home","workspace":"~/agents/r","sandbox":{"scope":"agent","workspaceAccess":"ro",
			"docker":{"env":{"B":"a"},"binds":["~/b:/b:rw"],"ulimits":{"stack":"1:2"}},"commands":{"excluded":["npm"]},
			"network":{"allowedDomains":["b.example"]}}}]}}`
	timeout := 5 * time.Second
	return map[string]config.Resolved{
		"strict":     resolve(t, inDefaults(`"preset":"strict"`), ann, config.Overrides{}),
		"restricted": resolve(t, `{}`, ann, config.Overrides{}),
		"normal":     resolve(t, inDefaults(`"preset":"normal"`), ann, config.Overrides{}),
		"permissive": resolve(t, inDefaults(`"preset":"permissive"`), ann, config.Overrides{}),
		"layers":     resolve(t, layered, ann, config.Overrides{}),
		"flags": resolve(t, layered, ann, config.Overrides{
			Image: "other:1", Workspace: "/srv/project", Env: map[string]string{"B": "f", "C": "f"}, Workdir: "/workspace/x",
			Timeout: &timeout, AllowDomains: []string{"c.example"}, Ask: true, Provider: "auto",
		}),
		"shared": resolve(t, strings.Replace(layered, `"scope":"agent"`, `"scope":"shared","browser":{"cdpPort":9333},"prune":{"idle":"2h"}`, 1), ann, config.Overrides{}),
		"every":  resolve(t, string(every), ann, config.Overrides{}),
	}
}

func TestResolveGolden(t *testing.T) {
	for name, r := range mixes(t) {
		t.Run(name, func(t *testing.T) { golden(t, "resolve/"+name, r) })
	}
}

// TestPresets holds the contents of DESIGN's presets, apart from golden files.
func TestPresets(t *testing.T) {
	m := mixes(t)
	strict, restricted, normal, permissive := m["strict"], m["restricted"], m["normal"], m["permissive"]
	checks := map[string]bool{
		"strict access":       strict.WorkspaceAccess == sandbox.AccessNone,
		"strict commands":     strict.Commands.Strictness == "strict",
		"strict browser":      !strict.Browser.Enabled,
		"strict drift":        strict.DriftPolicy == sandbox.DriftRefuse,
		"strict size":         strict.Docker.CPUs == 1 && strict.Docker.Memory == 512<<20 && strict.Docker.PIDsLimit == 128,
		"strict timeout":      strict.Limits.Timeout == config.Duration(2*time.Minute),
		"strict evidence":     strict.RequireEvidence,
		"strict network":      len(strict.Network.AllowedDomains) == 0 && !strict.Network.AllowPublic && !strict.Network.Ask,
		"restricted size":     restricted.Docker.CPUs == 2 && restricted.Docker.Memory == 2<<30 && restricted.Docker.PIDsLimit == 512,
		"restricted drift":    restricted.DriftPolicy == sandbox.DriftKeep,
		"restricted network":  len(restricted.Network.AllowedDomains) == 0 && !restricted.Network.AllowPublic && !restricted.Network.Ask,
		"normal access":       normal.WorkspaceAccess == sandbox.AccessRW,
		"normal commands":     normal.Commands.Strictness == "normal",
		"normal network":      normal.Network.Ask && !normal.Network.AllowPublic,
		"permissive reads":    cmp.Equal(permissive.Filesystem.AllowRead, []string{"/"}) && len(permissive.Filesystem.DenyRead) >= 13,
		"permissive network":  permissive.Network.AllowPublic && !permissive.Network.AllowPrivate,
		"permissive commands": permissive.Commands.Strictness == "permissive",
	}
	for name, ok := range checks {
		if !ok {
			t.Errorf("%s is not as it should be", name)
		}
	}
	for name, r := range map[string]config.Resolved{"strict": strict, "normal": normal, "permissive": permissive} {
		d := r.Docker
		d.CPUs, d.Memory, d.PIDsLimit = restricted.Docker.CPUs, restricted.Docker.Memory, restricted.Docker.PIDsLimit
		if diff := cmp.Diff(restricted.Docker, d); diff != "" {
			t.Errorf("preset %s touches hardening:\n%s", name, diff)
		}
	}
}

func TestOrigin(t *testing.T) {
	m := mixes(t)
	tests := []struct{ mix, path, want string }{
		{"restricted", "docker.memory", "default"},
		{"restricted", "docker.user", "default"},
		{"strict", "docker.memory", "preset strict"},
		{"strict", "preset", "agents.defaults"},
		{"layers", "docker.memory", "agents.defaults"},
		{"layers", "docker.cpus", "preset strict"},
		{"layers", "docker.env.LANG", "default"},
		{"layers", "docker.env.A", "agents.defaults"},
		{"layers", "docker.env.B", "agents.list[researcher]"},
		{"layers", "docker.env", "agents.list[researcher]"},
		{"layers", "docker.binds[0]", "agents.defaults"},
		{"layers", "docker.binds[1]", "agents.list[researcher]"},
		{"layers", "docker.ulimits.nofile", "agents.defaults"},
		{"layers", "docker.ulimits.core", "default"},
		{"layers", "filesystem.denyRead[0]", "default"},
		{"layers", "scope", "agents.list[researcher]"},
		{"flags", "docker.env.B", "flag"},
		{"flags", "docker.env.A", "agents.defaults"},
		{"flags", "limits.timeout", "flag"},
		{"flags", "network.allowedDomains[0]", "agents.list[researcher]"},
		{"flags", "network.allowedDomains[1]", "flag"},
		{"flags", "workspace", "flag"},
		{"shared", "scope", "agents.list[researcher]"},
		{"shared", "docker.env.B", "agents.defaults"},
		{"shared", "prune.idle", "agents.defaults"},
		{"shared", "workspaceAccess", "agents.list[researcher]"},
	}
	for _, tt := range tests {
		if got := m[tt.mix].Origin(tt.path); got != tt.want {
			t.Errorf("%s: Origin(%q) = %q; want %q", tt.mix, tt.path, got, tt.want)
		}
	}
}

// TestProgram holds that what a program lays over the settings counts for every
// agent, more than the file and less than the flags of a call, and is checked
// like both.
func TestProgram(t *testing.T) {
	who := config.Who{Agent: "b", Session: "s"}
	s := parse(t, `{"agents": {"defaults": {"sandbox": {"provider": "auto"}}, "list": [{"id": "b", "sandbox": {"provider": "docker"}}]}}`)
	s.Program = config.Overrides{Provider: "local"}.Layer()
	for _, tt := range []struct {
		flags        *config.SandboxSettings
		want, origin string
	}{
		{nil, "local", "program"},
		{config.Overrides{Provider: "docker"}.Layer(), "docker", "flag"},
		{config.Overrides{Workdir: "/tmp"}.Layer(), "local", "program"},
	} {
		r, err := config.Resolve(s, who, tt.flags)
		if err != nil || r.Provider != tt.want || r.Origin("provider") != tt.origin {
			t.Errorf("%s by %s, %v; want %s by %s", r.Provider, r.Origin("provider"), err, tt.want, tt.origin)
		}
	}
	if got := config.Providers(s); !slices.Equal(got, []string{"local"}) {
		t.Errorf("sessions are to use %q", got)
	}
	s.Program = config.Overrides{Provider: "nothing"}.Layer()
	_, err := config.Resolve(s, who, nil)
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != sandbox.CodeValidation || e.Field != "program.provider" {
		t.Errorf("a sandbox that there is not: %v", err)
	}
}

func TestMergeRules(t *testing.T) {
	m := mixes(t)
	l, f, s := m["layers"], m["flags"], m["shared"]
	tests := []struct {
		name      string
		got, want any
	}{
		{"env merges by key", l.Docker.Env, map[string]string{"LANG": "C.UTF-8", "HOME": "/home/sandbox", "A": "d", "B": "a"}},
		{"ulimits merge by key", len(l.Docker.Ulimits), 3},
		{"binds append", l.Docker.Binds, []string{"/data/a:/a", "~/b:/b:rw"}},
		{"excluded appends", l.Commands.Excluded, []string{"git", "npm"}},
		{"domains are replaced", l.Network.AllowedDomains, []string{"b.example"}},
		{"a flag adds domains", f.Network.AllowedDomains, []string{"b.example", "c.example"}},
		{"env of flags merges", f.Docker.Env["B"] + f.Docker.Env["A"] + f.Docker.Env["C"], "fdf"},
		{"shared ignores an agent's binds", s.Docker.Binds, []string{"/data/a:/a"}},
		{"shared ignores an agent's env", s.Docker.Env["B"], "d"},
		{"shared ignores an agent's prune", s.Prune.Idle, config.Duration(time.Hour)},
		{"shared ignores an agent's browser", s.Browser.CDPPort, int64(9222)},
		{"shared keeps an agent's commands", s.Commands.Excluded, []string{"git", "npm"}},
		{"scope key of a session", m["strict"].ScopeKey, "agent:researcher:session:chat-42"},
		{"scope key of an agent", l.ScopeKey, "agent:researcher"},
		{"scope key of all", s.ScopeKey, "shared"},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	ignored := map[string]bool{}
	for _, n := range s.NoEffect {
		ignored[n.Path] = true
	}
	for _, p := range []string{"docker.env", "docker.binds", "browser.cdpPort", "prune.idle"} {
		if !ignored["agents.list[0].sandbox."+p] {
			t.Errorf("nothing says that %s of the agent does not count: %v", p, s.NoEffect)
		}
	}
}

func TestBuiltInDeniesStay(t *testing.T) {
	want := mixes(t)["restricted"].Filesystem.DenyRead
	r := resolve(t, inDefaults(`"filesystem":{"denyRead":[],"denyWrite":[]}`), ann, config.Overrides{})
	if diff := cmp.Diff(want, r.Filesystem.DenyRead); diff != "" {
		t.Errorf("an empty list changed the built-in denies:\n%s", diff)
	}
	r = resolve(t, inDefaults(`"preset":"permissive","filesystem":{"denyRead":["/x"],"allowRead":["~/.ssh"]}`), ann, config.Overrides{})
	if diff := cmp.Diff(append(want, "/x"), r.Filesystem.DenyRead); diff != "" {
		t.Errorf("denies (-want +got):\n%s", diff)
	}
}

func TestPresetOfTheStrongestLayer(t *testing.T) {
	in := `{"agents":{"defaults":{"sandbox":{"preset":"strict","limits":{"timeout":"3m"}}},"list":[{"id":"a","sandbox":{"preset":"normal"}}]}}`
	s := parse(t, in)
	get := func(agent string, flags *config.SandboxSettings) config.Resolved {
		r, err := config.Resolve(s, config.Who{Agent: agent, Session: "s"}, flags)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := get("other", nil); r.Preset != "strict" || r.Docker.PIDsLimit != 128 || r.KnownAgent {
		t.Errorf("agent that is not listed: %s, %d", r.Preset, r.Docker.PIDsLimit)
	}
	if r := get("a", nil); r.Preset != "normal" || r.Docker.PIDsLimit != 512 || r.WorkspaceAccess != sandbox.AccessRW || !r.KnownAgent {
		t.Errorf("listed agent: %s, %d", r.Preset, r.Docker.PIDsLimit)
	}
	r := get("a", &config.SandboxSettings{Preset: new("permissive")})
	if r.Preset != "permissive" || !r.Network.AllowPublic || r.WorkspaceAccess != sandbox.AccessNone {
		t.Errorf("flag: %s", r.Preset)
	}
	if r.Limits.Timeout != config.Duration(3*time.Minute) {
		t.Errorf("a preset named by a flag lies over agents.defaults: timeout %v", r.Limits.Timeout)
	}
}

func TestSandboxed(t *testing.T) {
	tests := []struct {
		name, in, session string
		want              bool
		reason            string
	}{
		{"all", `{}`, "main", true, "mode is all"},
		{"off", inDefaults(`"mode":"off"`), "x", false, "mode is off"},
		{"disabled", inDefaults(`"enabled":false`), "x", false, "enabled is false"},
		{"non-main, main session", inDefaults(`"mode":"non-main"`), "main", false, `"main" is the main session`},
		{"non-main, other session", inDefaults(`"mode":"non-main"`), "x", true, `"x" is not the main session`},
		{"non-main, own main session", `{"agents":{"list":[{"id":"researcher","mainSession":"home","sandbox":{"mode":"non-main"}}]}}`, "home", false, `"home" is the main session`},
		{"non-main, main is another", `{"agents":{"list":[{"id":"researcher","mainSession":"home","sandbox":{"mode":"non-main"}}]}}`, "main", true, `which is "home"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := resolve(t, tt.in, config.Who{Agent: "researcher", Session: tt.session}, config.Overrides{})
			if r.Sandboxed != tt.want || !strings.Contains(r.Reason, tt.reason) {
				t.Fatalf("Sandboxed = %v, %q", r.Sandboxed, r.Reason)
			}
		})
	}
}

func TestNoEffectNamesOnlyWhatWasSet(t *testing.T) {
	if n := resolve(t, `{}`, ann, config.Overrides{}).NoEffect; len(n) != 0 {
		t.Errorf("an empty file has notices: %v", n)
	}
	r := resolve(t, inDefaults(`"pool":{"size":3},"limits":{"timeout":"1m","memory":"1g"},"docker":{"memory":"1g"},"network":{"allowedDomains":["a.example"],"allowLocalBinding":true}`), ann, config.Overrides{})
	var got []string
	for _, n := range r.NoEffect {
		got = append(got, n.Path+" "+n.Value)
	}
	want := []string{defaultsPath + "network.allowLocalBinding true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
	for provider, notices := range map[string]int{"docker": 1, "auto": 1, "local": 0} {
		r = resolve(t, inDefaults(`"provider":"`+provider+`","filesystem":{"allowRead":["/srv"]},"commands":{"allowUnsandboxed":true,"block":["rm"]}`), ann, config.Overrides{})
		if len(r.NoEffect) != notices {
			t.Errorf("path rules and a blocked command with the provider %s: %v", provider, r.NoEffect)
		}
	}
	r = resolve(t, inDefaults(`"provider":"auto","filesystem":{"allowRead":["/srv"]},"pool":{"size":3},"docker":{"image":"x:1"}`), ann, config.Overrides{})
	for provider, paths := range map[string][]string{
		"auto": {"filesystem.allowRead", "pool.size"}, "docker": {"filesystem.allowRead"}, "local": {"docker.image", "pool.size"},
	} {
		var got []string
		for _, n := range r.NoEffectWith("linux", provider) {
			got = append(got, strings.TrimPrefix(n.Path, defaultsPath))
		}
		if diff := cmp.Diff(paths, got); diff != "" {
			t.Errorf("auto that has become %s (-want +got):\n%s", provider, diff)
		}
	}
	r = resolve(t, inDefaults(`"provider":"auto","filesystem":{"allowRead":["/srv"]},"network":{"allowLocalBinding":true}`), ann, config.Overrides{})
	for _, tt := range []struct {
		goos, provider string
		want           []string
	}{
		{"linux", "local", []string{"network.allowLocalBinding"}},
		{"darwin", "local", nil},
		{"windows", "local", []string{"network.allowLocalBinding"}},
		{"linux", "docker", []string{"filesystem.allowRead", "network.allowLocalBinding"}},
		{"darwin", "docker", []string{"filesystem.allowRead", "network.allowLocalBinding"}},
		{"darwin", "auto", []string{"filesystem.allowRead", "network.allowLocalBinding"}},
	} {
		var got []string
		for _, n := range r.NoEffectWith(tt.goos, tt.provider) {
			got = append(got, strings.TrimPrefix(n.Path, defaultsPath))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s on %s (-want +got):\n%s", tt.provider, tt.goos, diff)
		}
	}
	r = resolve(t, inDefaults(`"preset":"strict"`), ann, config.Overrides{})
	if len(r.NoEffect) != 0 {
		t.Errorf("something of the preset strict has no effect: %v", r.NoEffect)
	}
}

func TestResolveRefusesFlags(t *testing.T) {
	for field, flags := range map[string]*config.SandboxSettings{
		"flag.docker.network":  {Docker: &config.DockerSettings{Network: new("host")}},
		"flag.docker.binds[0]": {Docker: &config.DockerSettings{Binds: []string{"/etc:/x"}}},
		"flag.workspace":       config.Overrides{Workspace: "/etc"}.Layer(),
		"flag.mode":            {Mode: new(sandbox.Mode("some"))},
		"flag.docker.env.A=B":  config.Overrides{Env: map[string]string{"A=B": "x"}}.Layer(),
		"flag.docker.image":    config.Overrides{Image: "-x"}.Layer(),
		"flag.docker.workdir":  config.Overrides{Workdir: "../x"}.Layer(),
		"flag.limits.timeout":  config.Overrides{Timeout: new(-time.Second)}.Layer(),
	} {
		t.Run(field, func(t *testing.T) {
			_, err := config.Resolve(nil, ann, flags)
			es := all(err)
			if len(es) == 0 || strings.ReplaceAll(es[0].Field, `["A=B"]`, ".A=B") != field {
				t.Fatalf("Resolve says %v", err)
			}
		})
	}
}

// TestRelativeWorkspaceOfAFlag holds that "--workspace ." is left to the
// caller, who knows the current folder, and judged by what it leads to.
func TestRelativeWorkspaceOfAFlag(t *testing.T) {
	r := resolve(t, `{}`, ann, config.Overrides{Workspace: "../project"})
	if r.Workspace != "../project" || r.Origin("workspace") != "flag" {
		t.Errorf("workspace is %q from %s", r.Workspace, r.Origin("workspace"))
	}
	f := facts()
	f.Workspace = "/etc"
	if _, err := config.BuildSpec(r, f); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Errorf("BuildSpec takes /etc as workspace: %v", err)
	}
}

func TestWho(t *testing.T) {
	ok := []config.Who{
		{Agent: "main", Session: "default"},
		{Tenant: "t-1", Agent: "A.b_c-9", Session: "chat 42 / 数据 ✓"},
		{Agent: strings.Repeat("a", 64), Session: strings.Repeat("s", 256)},
	}
	for _, w := range ok {
		if err := w.Validate(); err != nil {
			t.Errorf("%+v: %v", w, err)
		}
	}
	bad := map[string]config.Who{
		"no agent":          {Session: "s"},
		"agent with slash":  {Agent: "a/b", Session: "s"},
		"agent dot":         {Agent: "..", Session: "s"},
		"agent dash":        {Agent: "-rf", Session: "s"},
		"agent long":        {Agent: strings.Repeat("a", 65), Session: "s"},
		"agent newline":     {Agent: "a\n", Session: "s"},
		"tenant colon":      {Tenant: "a:b", Agent: "a", Session: "s"},
		"no session":        {Agent: "a"},
		"session long":      {Agent: "a", Session: strings.Repeat("s", 257)},
		"session NUL":       {Agent: "a", Session: "a\x00"},
		"session escape":    {Agent: "a", Session: "\x1b[2J"},
		"session C1":        {Agent: "a", Session: "\u009b2J"},
		"session UTF-8":     {Agent: "a", Session: "\xff"},
		"session reordered": {Agent: "a", Session: "\u202ex"},
		"session line":      {Agent: "a", Session: "a\u2028b"},
	}
	for name, w := range bad {
		t.Run(name, func(t *testing.T) {
			err := w.Validate()
			if sandbox.CodeOf(err) != sandbox.CodeValidation || strings.ContainsAny(err.Error(), "\x00\x1b\n") {
				t.Fatalf("Validate() = %v", err)
			}
		})
	}
}

// TestValuesMatchSettings holds that every setting has its value of the same
// name in the file.
func TestValuesMatchSettings(t *testing.T) {
	var walk func(t *testing.T, s, v reflect.Type)
	walk = func(t *testing.T, s, v reflect.Type) {
		names := map[string]string{}
		for i := range v.NumField() {
			names[v.Field(i).Name], _, _ = strings.Cut(v.Field(i).Tag.Get("json"), ",")
		}
		for i := range s.NumField() {
			f := s.Field(i)
			if f.Tag.Get("refused") != "" || f.Tag.Get("alias") != "" || f.Tag.Get("imported") != "" {
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if got, ok := names[f.Name]; !ok || got != name {
				t.Errorf("%s.%s is %q in the file and %q in %s", s.Name(), f.Name, name, got, v.Name())
				continue
			}
			delete(names, f.Name)
			if f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct {
				g, _ := v.FieldByName(f.Name)
				walk(t, f.Type.Elem(), g.Type)
			}
		}
		for name := range names {
			t.Errorf("%s.%s has no setting", v.Name(), name)
		}
	}
	walk(t, reflect.TypeFor[config.SandboxSettings](), reflect.TypeFor[config.Values]())
}

func TestRedact(t *testing.T) {
	r := mixes(t)["every"]
	shown, err := json.Marshal(r.Redact())
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(shown, []byte("hunter2")) || bytes.Contains(shown, []byte("never")) {
		t.Errorf("a value shows: %s", shown)
	}
	if !bytes.Contains(shown, []byte("API_TOKEN")) || !bytes.Contains(shown, []byte("C.UTF-8")) {
		t.Errorf("names and defaults should show: %s", shown)
	}
	if r.Docker.Env["API_TOKEN"] != "hunter2" {
		t.Error("Redact changed its receiver")
	}
	vars := r.Variables()
	if len(vars) != 4 || vars[0].Name != "API_TOKEN" || vars[0].Origin != "agents.defaults" || vars[1].Origin != "default" {
		t.Errorf("Variables() = %v", vars)
	}
}

func TestNoticesShowNoValuesOfVariables(t *testing.T) {
	in := `{"agents":{"list":[{"id":"researcher","sandbox":{"scope":"shared","docker":{"env":{"TOKEN":"hunter2"}}}}]}}`
	n := fmt.Sprint(resolve(t, in, ann, config.Overrides{}).NoEffect)
	if strings.Contains(n, "hunter2") || !strings.Contains(n, "TOKEN") {
		t.Errorf("notices are %s", n)
	}
}

func TestPlatformEnabled(t *testing.T) {
	r := resolve(t, inDefaults(`"enabledPlatforms":["macos","wsl"]`), ann, config.Overrides{})
	if !r.PlatformEnabled("darwin", false) || !r.PlatformEnabled("linux", true) || r.PlatformEnabled("linux", false) {
		t.Error("macos and wsl should be enabled, linux not")
	}
	if r := resolve(t, `{}`, ann, config.Overrides{}); !r.PlatformEnabled("linux", false) {
		t.Error("every platform should be enabled")
	}
}

func BenchmarkResolve(b *testing.B) {
	every, err := os.ReadFile("testdata/every-key.json")
	if err != nil {
		b.Fatal(err)
	}
	for name, in := range map[string]string{"defaults": `{}`, "every key": string(every)} {
		b.Run(name, func(b *testing.B) {
			s := parse(b, in)
			for b.Loop() {
				if _, err := config.Resolve(s, ann, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func ExampleResolve() {
	s, err := config.Parse("sandbox.json", []byte(`{
		"agents": {
			"defaults": {"sandbox": {"preset": "strict"}},
			"list": [{"id": "researcher", "sandbox": {"docker": {"memory": "1g"}}}], // more for this one
		},
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := config.Resolve(s, config.Who{Agent: "researcher", Session: "chat-42"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Docker.Memory, "from", r.Origin("docker.memory"))
	fmt.Println(r.Docker.CPUs, "from", r.Origin("docker.cpus"))
	fmt.Println(r.Docker.Network, "from", r.Origin("docker.network"))
	// Output:
	// 1g from agents.list[researcher]
	// 1 from preset strict
	// none from preset strict
}
