package config

import (
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// Overrides are the flags of one call. Zero fields are flags that were not given.
type Overrides struct {
	Image        string
	Workspace    string         // host folder to be the workspace
	Access       sandbox.Access // to that folder, or to the agent's; empty is what the settings say
	Env          map[string]string
	Workdir      string
	Timeout      *time.Duration // zero is unbounded
	AllowDomains []string       // added to those of the settings
	Registries   []string       // likewise
	CacheTools   []string       // likewise
	Ask          bool
	Provider     string

	// Secrets are bound beside those of the settings, and replace those of the
	// same name. ParseSecret reads them; none may come from a program.
	Secrets map[string]SecretSettings
}

// Layer returns the flags as the strongest layer of settings, or nil when no
// flag was given. The layer's name is "flag".
func (o Overrides) Layer() *SandboxSettings {
	var s SandboxSettings
	set := false
	text := func(v string) *string {
		if v == "" {
			return nil
		}
		set = true
		return &v
	}
	s.Workspace, s.Provider = text(o.Workspace), text(o.Provider)
	if o.Access != "" {
		s.WorkspaceAccess, set = new(o.Access), true
	}
	d := DockerSettings{Image: text(o.Image), Workdir: text(o.Workdir)}
	if len(o.Env) > 0 {
		d.Env, set = o.Env, true
	}
	s.Docker = &d
	if o.Timeout != nil {
		s.Limits, set = &LimitSettings{Timeout: span(*o.Timeout)}, true
	}
	if len(o.CacheTools) > 0 {
		s.Cache, set = &CacheSettings{Tools: o.CacheTools}, true
	}
	if len(o.AllowDomains)+len(o.Registries) > 0 || o.Ask || len(o.Secrets) > 0 {
		s.Network, set = &NetworkSettings{AllowedDomains: o.AllowDomains, Registries: o.Registries, Secrets: o.Secrets}, true
		if o.Ask {
			s.Network.Ask = new(true)
		}
	}
	if !set {
		return nil
	}
	return &s
}
