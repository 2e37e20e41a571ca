package config_test

import (
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

// TestTrustEnvironment holds which variables a sandbox has that trusts a
// company's authority: those that settings set stay, and options of Java are
// joined.
func TestTrustEnvironment(t *testing.T) {
	const store = "-Djavax.net.ssl.trustStore=/s.p12"
	tests := []struct {
		name, env, image string
		want             map[string]string
	}{
		{"nothing is set", ``, "", map[string]string{"PIP_CERT": "/b", "npm_config_cafile": "/b", "JAVA_TOOL_OPTIONS": store}},
		{"settings set some", `"PIP_CERT": "/mine", "NPM_CONFIG_CAFILE": "/mine", "JAVA_TOOL_OPTIONS": "-Xmx1g"`, "-Xss1m",
			map[string]string{"PIP_CERT": "/mine", "npm_config_cafile": "", "NPM_CONFIG_CAFILE": "/mine", "JAVA_TOOL_OPTIONS": "-Xmx1g " + store}},
		{"the image sets options", ``, "-Xss1m", map[string]string{"JAVA_TOOL_OPTIONS": "-Xss1m " + store}},
		{"settings name a store", `"JAVA_TOOL_OPTIONS": "-Djavax.net.ssl.trustStore=/mine"`, "", map[string]string{"JAVA_TOOL_OPTIONS": "-Djavax.net.ssl.trustStore=/mine"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := build(t, inDefaults(`"docker": {"caFile": "/ca.pem", "env": {`+tt.env+`}}`), func(f *config.Facts) {
				f.TrustEnv, f.TrustJava, f.ImageJava = map[string]string{"PIP_CERT": "/b", "npm_config_cafile": "/b"}, store, tt.image
			})
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range tt.want {
				if s.Env[name] != want {
					t.Errorf("%s is %q, want %q", name, s.Env[name], want)
				}
			}
		})
	}
}

// TestCAFileLayers holds where the file comes from, and that its path is
// absolute.
func TestCAFileLayers(t *testing.T) {
	given := config.FromEnvironment(map[string]string{config.CAVariable: "/env.pem"})
	tests := []struct{ name, in, file, origin string }{
		{"the environment", ``, "/env.pem", "environment SANDBOX_CA_FILE"},
		{"settings come first", `"docker": {"caFile": "~/ca.pem"}`, "~/ca.pem", "agents.defaults"},
		{"settings want none", `"docker": {"caFile": ""}`, "", "agents.defaults"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := config.Parse("x", []byte(inDefaults(tt.in)))
			if err != nil {
				t.Fatal(err)
			}
			s.Environment = given
			r, err := config.Resolve(s, ann, nil)
			if err != nil || r.Docker.CAFile != tt.file || r.Origin("docker.caFile") != tt.origin {
				t.Errorf("got %q of %s, %v", r.Docker.CAFile, r.Origin("docker.caFile"), err)
			}
		})
	}
	_, err := config.Parse("x", []byte(inDefaults(`"docker": {"caFile": "ca.pem"}`)))
	if sandbox.CodeOf(err) != sandbox.CodeValidation || !strings.Contains(err.Error(), "docker.caFile") || !strings.Contains(err.Error(), "not absolute") {
		t.Errorf("a relative path: %v", err)
	}
	if config.FromEnvironment(map[string]string{config.CAVariable: ""}) != nil {
		t.Error("an empty variable is a setting")
	}
}
