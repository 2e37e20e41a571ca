package config

import (
	"errors"
	"slices"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
)

func resolvedOf(t *testing.T, file string, flags *SandboxSettings) Resolved {
	t.Helper()
	s, err := Parse("sandbox.json", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Resolve(s, Who{Agent: DefaultAgent, Session: DefaultSession}, flags)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRegistriesBecomeRules(t *testing.T) {
	for name, tt := range map[string]struct {
		file  string
		flags Overrides
		want  []string
	}{
		"a flag":     {`{}`, Overrides{Registries: []string{"npm"}}, []string{"https://registry.npmjs.org"}},
		"the file":   {`{"agents":{"defaults":{"sandbox":{"network":{"registries":["go"]}}}}}`, Overrides{}, []string{"https://proxy.golang.org", "https://sum.golang.org"}},
		"both":       {`{"agents":{"defaults":{"sandbox":{"network":{"registries":["maven"]}}}}}`, Overrides{Registries: []string{"npm"}}, []string{"https://repo.maven.apache.org", "https://registry.npmjs.org"}},
		"beside":     {`{"agents":{"defaults":{"sandbox":{"network":{"allowedDomains":["a.test"],"registries":["npm"]}}}}}`, Overrides{}, []string{"a.test", "https://registry.npmjs.org"}},
		"a mirror":   {`{"agents":{"defaults":{"sandbox":{"network":{"registries":["npm"],"registryHosts":{"npm":["https://m.test:8443"]}}}}}}`, Overrides{}, []string{"https://m.test:8443"}},
		"no host":    {`{"agents":{"defaults":{"sandbox":{"network":{"registries":["npm"],"registryHosts":{"npm":[]}}}}}}`, Overrides{}, nil},
		"only hosts": {`{"agents":{"defaults":{"sandbox":{"network":{"registryHosts":{"npm":["https://m.test"]}}}}}}`, Overrides{}, nil},
		"twice":      {`{"agents":{"defaults":{"sandbox":{"network":{"registries":["npm","npm"]}}}}}`, Overrides{}, []string{"https://registry.npmjs.org"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := resolvedOf(t, tt.file, tt.flags.Layer())
			if !slices.Equal(r.Network.AllowedDomains, tt.want) {
				t.Errorf("allowed are %q, want %q", r.Network.AllowedDomains, tt.want)
			}
		})
	}
}

func TestRegistryIsTheOriginOfItsRules(t *testing.T) {
	r := resolvedOf(t, `{"agents":{"defaults":{"sandbox":{"network":{"registries":["npm"]}}}}}`, nil)
	if got := r.Origin("network.allowedDomains[0]"); got != "agents.defaults network.registries npm" {
		t.Errorf("the rule comes from %q", got)
	}
}

func TestEveryRegistryHasRulesThatAreRead(t *testing.T) {
	for _, name := range Registries() {
		r := resolvedOf(t, `{}`, Overrides{Registries: []string{name}}.Layer()) // which checks each rule
		if len(r.Network.AllowedDomains) == 0 {
			t.Errorf("%s stands for no rule", name)
		}
	}
}

// A registry beside a network of the engine would look enforced and would not be.
func TestRegistriesNeedTheProxy(t *testing.T) {
	s, err := Parse("sandbox.json", []byte(`{"agents":{"defaults":{"sandbox":{"docker":{"network":"bridge"}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Resolve(s, Who{Agent: DefaultAgent, Session: DefaultSession}, Overrides{Registries: []string{"npm"}}.Layer())
	if sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("got %v", err)
	}
}

// A request that narrows the hosts of a sandbox narrows those of registries too.
func TestCreationReplacesRegistries(t *testing.T) {
	s, err := Parse("sandbox.json", []byte(`{"agents":{"defaults":{"sandbox":{"network":{"registries":["npm","go"]}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	who := Who{Agent: DefaultAgent, Session: DefaultSession}
	base, err := Resolve(s, who, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.Request, err = (Creation{Network: &NetworkRules{AllowedDomains: &[]string{"https://registry.npmjs.org"}}}).Layer(base, nil); err != nil {
		t.Fatal(err)
	}
	r, err := Resolve(s, who, nil)
	if err != nil || !slices.Equal(r.Network.AllowedDomains, []string{"https://registry.npmjs.org"}) {
		t.Errorf("%v; allowed are %q", err, r.Network.AllowedDomains)
	}
	if _, err := (Creation{Network: &NetworkRules{AllowedDomains: &[]string{"https://pypi.org"}}}).Layer(base, nil); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Errorf("a host of another registry: %v", err)
	}
}

func TestImageOfALanguage(t *testing.T) {
	for image, want := range map[string]string{
		"go": "sandbox-go:bookworm-slim", "node": "sandbox-node:bookworm-slim", "node:20": "node:20", "golang": "golang",
	} {
		if got := resolvedOf(t, `{}`, Overrides{Image: image}.Layer()).Docker.Image; got != want {
			t.Errorf("%s is %s, want %s", image, got, want)
		}
	}
}

func TestCacheSetsVariables(t *testing.T) {
	f := Facts{CacheDir: "/state/caches/x-1"}
	r := resolvedOf(t, `{"agents":{"defaults":{"sandbox":{"cache":{"tools":["npm","go"]},"docker":{"env":{"GOCACHE":"/mine"}}}}}}`, Overrides{CacheTools: []string{"pip"}}.Layer())
	s := sandbox.Spec{Env: r.Docker.Env}
	if err := fillCache(&s, r, f); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"npm_config_cache": "/.sandbox/cache/npm", "GOMODCACHE": "/.sandbox/cache/go/mod", "GOCACHE": "/mine", "PIP_CACHE_DIR": "/.sandbox/cache/pip", "CARGO_HOME": "",
	} {
		if s.Env[name] != want {
			t.Errorf("%s is %q, want %q", name, s.Env[name], want)
		}
	}
	if r.Poolable() {
		t.Error("a sandbox with caches would be kept ready for any session")
	}
}

func TestDevcontainer(t *testing.T) {
	d, err := ParseDevcontainer("devcontainer.json", []byte(`{
		// A comment, and commas at the end.
		"name": "x", "build": {"dockerfile": "Dockerfile", "context": "..", "args": {"A": "1", "B": "${localEnv:HOME}"}, "cacheFrom": "y"},
		"containerEnv": {"P": "${containerWorkspaceFolder}/x", "T": "${localEnv:TOKEN}", "bad name": "1"},
		"remoteEnv": {"Q": "2", "R": null}, "remoteUser": "root", "mounts": ["source=/,target=/host,type=bind"],
		"postCreateCommand": {"b": ["echo", "it's"], "a": "make"}, "forwardPorts": [3000, "db:5432", 0],
		"initializeCommand": "id", "hostRequirements": {"cpus": 64}, "privileged": false, "capAdd": [], "strange": 1,
	}`))
	if err != nil {
		t.Fatal(err)
	}
	if d.Build == nil || d.Build.Context != ".." || len(d.Build.Args) != 1 || d.Build.Args["A"] != "1" {
		t.Errorf("build is %+v", d.Build)
	}
	if len(d.ContainerEnv) != 1 || d.ContainerEnv["P"] != "/workspace/x" || len(d.RemoteEnv) != 1 {
		t.Errorf("variables are %q and %q", d.ContainerEnv, d.RemoteEnv)
	}
	if want := []string{"make", `'echo' 'it'\''s'`}; !slices.Equal(d.PostCreate, want) {
		t.Errorf("postCreateCommand is %q, want %q", d.PostCreate, want)
	}
	if !slices.Equal(d.ForwardPorts, []int{3000}) {
		t.Errorf("ports are %v", d.ForwardPorts)
	}
	var noted []string
	for _, n := range d.Notes {
		noted = append(noted, n.Path)
	}
	want := []string{"build.cacheFrom", "build.args.B", "containerEnv.T", "containerEnv.bad name", "forwardPorts[1]", "forwardPorts[2]", "hostRequirements", "initializeCommand", "mounts", "remoteUser", "strange"}
	slices.Sort(noted)
	slices.Sort(want)
	if !slices.Equal(noted, want) {
		t.Errorf("noted are %q, want %q", noted, want)
	}
}

func TestDevcontainerRefuses(t *testing.T) {
	for file, want := range map[string]struct {
		code  sandbox.Code
		field string
	}{
		`{"privileged": true}`:                         {sandbox.CodeCapabilityBlocked, "privileged"},
		`{"capAdd": ["SYS_ADMIN"]}`:                    {sandbox.CodeCapabilityBlocked, "capAdd"},
		`{"runArgs": ["--network=host"]}`:              {sandbox.CodeCapabilityBlocked, "runArgs"},
		`{"securityOpt": ["seccomp=unconfined"]}`:      {sandbox.CodeCapabilityBlocked, "securityOpt"},
		`{"dockerComposeFile": "x.yml"}`:               {sandbox.CodeCapabilityBlocked, "dockerComposeFile"},
		`{"image": "-x"}`:                              {sandbox.CodeValidation, "image"},
		`{"image": 1}`:                                 {sandbox.CodeValidation, "image"},
		`{"image": "a", "build": {"dockerfile": "b"}}`: {sandbox.CodeValidation, "image"},
		`{"build": {}}`:                                {sandbox.CodeValidation, "build.dockerfile"},
		`{"containerEnv": []}`:                         {sandbox.CodeValidation, "containerEnv"},
		`{"postCreateCommand": {"a": {"b": "c"}}}`:     {sandbox.CodeValidation, "postCreateCommand"},
		`[]`: {sandbox.CodeValidation, ""},
		`{`:  {sandbox.CodeValidation, ""},
		strings.Repeat(`{"name":`, 100) + `1` + strings.Repeat(`}`, 100): {sandbox.CodeValidation, ""},
	} {
		var e *sandbox.Error
		if _, err := ParseDevcontainer("devcontainer.json", []byte(file)); !errors.As(err, &e) || e.Code != want.code || e.Field != want.field {
			t.Errorf("%.80s: %v, want %v of %s", file, err, want.code, want.field)
		}
	}
}

func FuzzDevcontainer(f *testing.F) {
	f.Add(`{"image": "a", "postCreateCommand": ["a"], "containerEnv": {"A": "${x}"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDevcontainer("devcontainer.json", []byte(text))
		if err == nil && (d.Image != "" && !isImage(d.Image) || d.Image != "" && d.Build != nil) {
			t.Errorf("%q gives %+v", text, d)
		}
	})
}
