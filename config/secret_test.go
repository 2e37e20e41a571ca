package config_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/egress"
)

func TestParseSecret(t *testing.T) {
	for text, want := range map[string]config.SecretSettings{
		"TOKEN@api.example.com":                    {Hosts: []string{"api.example.com"}},
		"TOKEN@a.example:8443,b.example,[::1]:443": {Hosts: []string{"a.example:8443", "b.example", "[::1]:443"}},
		"TOKEN=env:OTHER@a.example":                {Hosts: []string{"a.example"}, From: config.SecretSource{Env: "OTHER"}},
		"TOKEN=file:~/x@y@a.example":               {Hosts: []string{"a.example"}, From: config.SecretSource{File: "~/x@y"}},
		"TOKEN=file:/run/a:b=c@a.example":          {Hosts: []string{"a.example"}, From: config.SecretSource{File: "/run/a:b=c"}},
	} {
		name, got, err := config.ParseSecret(text)
		if err != nil || name != "TOKEN" || !cmp.Equal(want, got) {
			t.Errorf("%s: %s %v %v", text, name, cmp.Diff(want, got), err)
		}
	}
}

// TestParseSecretRepeatsNothing holds that no message has a part of what was
// given, since that may be the secret itself.
func TestParseSecretRepeatsNothing(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "no host",
		"TOKEN":                         "no host",
		"TOKEN=hunter2":                 "no host",
		"TOKEN=hunter2@a.example":       "cannot be given",
		"TOKEN=hunter2:x@a.example":     "cannot be given",
		"TOKEN=value:hunter2@a.example": "cannot be given",
		"hunter2-x@a.example":           "no name of a variable",
		"@a.example":                    "no name of a variable",
		"PATH@a.example":                "act upon",
		"LD_PRELOAD@a.example":          "act upon",
		"https_proxy@a.example":         "proxy",
		"SSL_CERT_FILE@a.example":       "proxy",
		"TOKEN=env:@a.example":          "missing",
		"TOKEN=env:hunter2-x@a.example": "no name of one",
		"TOKEN=file:hunter2@a.example":  "not absolute",
		"TOKEN=file:/hun\nter2@a.b":     "control",
		"TOKEN=command:hunter2@a.b":     "settings file only",
		"TOKEN@":                        "host 1",
		"TOKEN@*.hunter2":               "host 1",
		"TOKEN@a.example,hunter2/x":     "host 2",
		"TOKEN@a.example,":              "host 2",
		"TOKEN@https://hunter2":         "host 1",
		"TOKEN@10.0.0.0/8":              "host 1",
		"TOKEN@a.example:0":             "host 1",
	} {
		_, _, err := config.ParseSecret(text)
		if sandbox.CodeOf(err) != sandbox.CodeValidation || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v, want one that says %q and nothing of the text", text, err, want)
		}
	}
}

// TestSettingsRepeatNoSecret holds the same for what is written in the file.
func TestSettingsRepeatNoSecret(t *testing.T) {
	for _, text := range []string{
		`"hunter2"`, `["hunter2"]`, `{"hosts":"hunter2"}`, `{"hosts":["a.example"],"from":"hunter2"}`, `{"hosts":["a.example"],"from":{"command":"hunter2"}}`,
		`{"hosts":["a.example"],"from":{"env":"hunter2 x"}}`, `{"hosts":["a.example"],"from":{"file":"hunter2"}}`, `{"hosts":["a.example"],"from":{"file":["hunter2"]}}`,
		`{"hosts":["a.example"],"from":{"env":"hunter2\u0001"}}`, `{"hosts":["a.example"],"from":{"command":["hunter2\u0000"]}}`, `{"hosts":["a.example"],"value":"hunter2"}`,
	} {
		_, err := config.Parse("settings", []byte(`{"agents":{"defaults":{"sandbox":{"network":{"secrets":{"TOKEN":`+text+`}}}}}}`))
		if sandbox.CodeOf(err) != sandbox.CodeValidation || !strings.Contains(err.Error(), "network.secrets.TOKEN") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestVariablesOfTheProxyAreNoSecrets holds that no stand-in takes the place of
// a variable that makes programs find the proxy or trust it.
func TestVariablesOfTheProxyAreNoSecrets(t *testing.T) {
	names := slices.Collect(maps.Keys(new(egress.Authority).Env()))
	names = append(names, "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy", "NODE_USE_ENV_PROXY", "PATH", "LD_PRELOAD", "HOME", "BASH_ENV")
	if len(names) < 25 {
		t.Fatalf("only %q", names)
	}
	for _, name := range names {
		if _, _, err := config.ParseSecret(name + "@a.example"); err == nil {
			t.Errorf("%s can be a secret", name)
		}
	}
}

func FuzzParseSecret(f *testing.F) {
	for _, s := range []string{"A@b", "A=env:B@c:1,d", "A=file:/b@c", "A=b@c", "@", "=@"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name, s, err := config.ParseSecret(text)
		if err != nil {
			return
		}
		given := s.From.Env != "" || s.From.File != ""
		if !strings.HasPrefix(text, name) || strings.Contains(text[:strings.LastIndexByte(text, '@')], "=") != given || len(s.From.Command) > 0 {
			t.Errorf("%q: %s %+v", text, name, s)
		}
		r, err := config.Resolve(nil, ann, config.Overrides{AllowDomains: s.Hosts, Secrets: map[string]config.SecretSettings{name: s}}.Layer())
		if err != nil {
			return // a name that is too long for a rule, or an address
		}
		bound, err := r.BoundSecrets("/home/a", nil)
		if err == nil && (len(bound) != 1 || bound[0].Name != name || len(bound[0].Hosts) == 0) {
			t.Errorf("%q: %+v", text, bound)
		}
	})
}

func TestSecretsAreMergedByName(t *testing.T) {
	r := resolve(t, `{"agents":{
		"defaults":{"sandbox":{"network":{"allowedDomains":["*.example"],"secrets":{"A":{"hosts":["x.example"]},"B":{"hosts":["x.example"]},"C":{"hosts":["x.example"]}}}}},
		"list":[{"id":"researcher","sandbox":{"network":{"secrets":{"B":{"hosts":["y.example"],"from":{"file":"~/b"}}}}}}]}}`,
		ann, config.Overrides{Secrets: map[string]config.SecretSettings{"C": {Hosts: []string{"Z.example.", "y.example"}}}})
	bound, err := r.BoundSecrets("/home/ann", nil)
	want := []config.BoundSecret{
		{Name: "A", Hosts: []string{"x.example"}, From: config.SecretSource{Env: "A"}},
		{Name: "B", Hosts: []string{"y.example"}, From: config.SecretSource{File: "/home/ann/b"}},
		{Name: "C", Hosts: []string{"y.example", "z.example"}, From: config.SecretSource{Env: "C"}},
	}
	if diff := cmp.Diff(want, bound); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for path, layer := range map[string]string{
		"network.secrets.A": "agents.defaults", "network.secrets.B": "agents.list[researcher]", "network.secrets.B.from.file": "agents.list[researcher]",
		"network.secrets.C": "flag", "network.secrets.C.hosts": "flag", "docker.env.UNSET": "default",
	} {
		if got := r.Origin(path); got != layer {
			t.Errorf("%s comes from %s, want %s", path, got, layer)
		}
	}
	if _, err := r.BoundSecrets("", nil); err == nil {
		t.Error("a file in a home that is not known is no error")
	}
}

func TestSecretErrors(t *testing.T) {
	const allowed = `"network":{"allowedDomains":["https://a.example","b.example:8443"],"secrets":`
	tests := []struct{ name, in, field, message string }{
		{"not allowed", allowed + `{"A":{"hosts":["c.example"]}}}`, "network.secrets.A.hosts[0]", `add "c.example" to network.allowedDomains`},
		{"second not allowed", allowed + `{"A":{"hosts":["a.example","c.example:99"]}}}`, "network.secrets.A.hosts[1]", `add "c.example:99" to`},
		{"at another port", allowed + `{"A":{"hosts":["b.example"]}}}`, "network.secrets.A.hosts[0]", "cannot be reached"},
		{"denied", `"network":{"allowedDomains":["a.example"],"deniedDomains":["a.example:443"],"secrets":{"A":{"hosts":["a.example"]}}}`, "network.secrets.A.hosts[0]", "network.deniedDomains[0]"},
		{"TLS denied", `"network":{"allowedDomains":["a.example"],"deniedDomains":["https://a.example"],"secrets":{"A":{"hosts":["a.example"]}}}`, "network.secrets.A.hosts[0]", "network.deniedDomains[0]"},
		{"nothing allowed", `"network":{"secrets":{"A":{"hosts":["a.example"]}}}`, "network.secrets.A.hosts[0]", "cannot be reached"},
		{"variable twice", `"docker":{"env":{"A":"x"}},` + allowed + `{"A":{"hosts":["a.example"]}}}`, "network.secrets.A", "docker.env sets A too"},
	}
	for _, tt := range tests {
		_, err := config.Parse("f", []byte(inDefaults(tt.in)))
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Field != defaultsPath+tt.field || !strings.Contains(err.Error(), tt.message) {
			t.Errorf("%s: %v, want %s with %q", tt.name, err, tt.field, tt.message)
		}
	}
	for name, in := range map[string]string{
		"allowed":       allowed + `{"A":{"hosts":["a.example","b.example:8443"]}}}`,
		"asked about":   `"network":{"ask":true,"secrets":{"A":{"hosts":["a.example"]}}}`,
		"of the public": `"preset":"permissive","network":{"secrets":{"A":{"hosts":["a.example"]}}}`,
		"by a program":  allowed + `{"A":{"hosts":["a.example"],"from":{"command":["pass","show"]}}}}`,
	} {
		if _, err := config.Parse("f", []byte(inDefaults(in))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSecretsOfACall(t *testing.T) {
	flags := func(s config.SecretSettings) *config.SandboxSettings {
		return config.Overrides{AllowDomains: []string{"a.example"}, Secrets: map[string]config.SecretSettings{"A": s}}.Layer()
	}
	if _, err := config.Resolve(nil, ann, flags(config.SecretSettings{Hosts: []string{"a.example"}, From: config.SecretSource{File: "/x"}})); err != nil {
		t.Error(err)
	}
	for want, s := range map[string]config.SecretSettings{
		"the settings file can": {Hosts: []string{"a.example"}, From: config.SecretSource{Command: []string{"pass"}}},
		"cannot be reached":     {Hosts: []string{"b.example"}},
		"no host":               {},
	} {
		if _, err := config.Resolve(nil, ann, flags(s)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestRulesBesideANetwork checks that rules which programs can bypass are
// refused, and that a preset's part in them is reported.
func TestRulesBesideANetwork(t *testing.T) {
	for in, field := range map[string]string{
		`"docker":{"network":"bridge"},"network":{"allowedDomains":["a.example"]}`:                 "network.allowedDomains[0]",
		`"docker":{"network":"web"},"network":{"deniedDomains":["a.example"]}`:                     "network.deniedDomains[0]",
		`"docker":{"network":"bridge"},"permissions":{"allow":["WebFetch(domain:a.example)"]}`:     "permissions.allow[0]",
		`"docker":{"network":"own"},"network":{"allowedDomains":["a.example"]}`:                    "network.allowedDomains[0]",
		`"preset":"strict","docker":{"network":"bridge"},"network":{"allowedDomains":["a.b:443"]}`: "network.allowedDomains[0]",
	} {
		_, err := config.Parse("f", []byte(inDefaults(in)))
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Field != defaultsPath+field || !strings.Contains(e.Hint, "docker.network to none") {
			t.Errorf("%s: %v", in, err)
		}
	}
	r := resolve(t, inDefaults(`"preset":"permissive","docker":{"network":"bridge"}`), ann, config.Overrides{})
	reported := slices.ContainsFunc(r.NoEffect, func(n config.Notice) bool {
		return strings.HasSuffix(n.Path, "network.allowPublic") && strings.Contains(n.Why, "need not")
	})
	if !reported {
		t.Errorf("notices: %v", r.NoEffect)
	}
	if r = resolve(t, inDefaults(`"docker":{"network":"bridge"},"preset":"strict"`), ann, config.Overrides{}); len(r.Network.AllowedDomains) != 0 {
		t.Errorf("%v", r.Network)
	}
}

func TestSecretsAreRedacted(t *testing.T) {
	r := mixes(t)["every"]
	shown := fmt.Sprintf("%+v", r.Redact().Network.Secrets)
	if strings.Contains(shown, "hunter2") || !strings.Contains(shown, "signer") || !strings.Contains(shown, ".npm-token") || !strings.Contains(shown, "ORIGINAL") {
		t.Errorf("shown: %s", shown)
	}
	if got := r.Network.Secrets["SIGNED"].From.Command; len(got) != 2 || got[1] != "hunter2-argument" {
		t.Errorf("Redact changed its receiver: %v", got)
	}
}
