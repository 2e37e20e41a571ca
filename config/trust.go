package config

import (
	"maps"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// CAVariable is the variable of the environment that docker.caFile is taken from
// where no settings name a file.
const CAVariable = "SANDBOX_CA_FILE"

// JavaVariable is the variable that a Java virtual machine reads options of.
const JavaVariable = "JAVA_TOOL_OPTIONS"

// FromEnvironment returns the settings that variables of the environment give,
// or nil. Settings of every other layer replace them.
func FromEnvironment(env map[string]string) *SandboxSettings {
	file := env[CAVariable]
	if file == "" {
		return nil
	}
	return &SandboxSettings{Docker: &DockerSettings{CAFile: &file}}
}

// fillTrust sets the variables that make programs trust the certificates of
// docker.caFile. What settings or a flag set stays as it is; a name counts
// whatever its case, as npm reads it. To the options of Java those of the store
// are added.
func fillTrust(s *sandbox.Spec, r Resolved, f Facts) error {
	if len(f.TrustEnv) == 0 {
		return nil
	}
	env := maps.Clone(f.TrustEnv)
	for name := range r.Docker.Env {
		for ours := range env {
			if strings.EqualFold(name, ours) {
				delete(env, ours)
			}
		}
	}
	if s.Env == nil {
		s.Env = map[string]string{}
	}
	maps.Copy(s.Env, env)
	options, set := r.Docker.Env[JavaVariable]
	if !set {
		options = f.ImageJava
	}
	s.Env[JavaVariable] = WithJavaTrust(options, f.TrustJava)
	return nil
}

// WithJavaTrust adds the options in trust to others of a Java virtual machine,
// unless these name a store of trusted certificates themselves.
func WithJavaTrust(options, trust string) string {
	if strings.Contains(options, "-Djavax.net.ssl.trustStore=") {
		return options
	}
	return strings.TrimSpace(options + " " + trust)
}
