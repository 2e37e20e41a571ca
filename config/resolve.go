package config

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// Resolved are the settings of one call: every value, and for each the layer
// that it came from. It is plain data and safe to share when not changed.
type Resolved struct {
	Who
	Values

	// CopyOut says why the folder of the host with access rw is copied, where it is:
	// WorkspaceAccess is private then, and the changes are applied to the folder
	// after each call. Resolve leaves it empty.
	CopyOut string `json:"-"`

	// Kind is what the sandbox is for; empty is [sandbox.KindSandbox]. See
	// [Resolved.ForBrowser].
	Kind sandbox.Kind `json:"-"`

	Sandboxed      bool   `json:"sandboxed"`      // whether the session runs inside a sandbox at all
	Reason         string `json:"reason"`         // why so
	ScopeKey       string `json:"scopeKey"`       // as of [sandbox.Owner]
	MainSession    string `json:"mainSession"`    // session that counts as the agent's main one
	KnownAgent     bool   `json:"knownAgent"`     // whether agents.list names the agent
	AgentWorkspace string `json:"agentWorkspace"` // host folder of the agent as written, or empty

	// OptionsFor is the value of provider to which providerOptions belong: that
	// of their layer, or of the strongest layer below it that has one. It is
	// empty where no layer names a provider, and may be "auto" where a stronger
	// layer names another one.
	OptionsFor string `json:"-"`

	// NoEffect lists what the user set and what does nothing with the provider
	// that the settings name on this operating system, with the reason. See [Resolved.NoEffectWith].
	NoEffect []Notice `json:"noEffect,omitempty"`
	// Origins gives the layer of every value by its path, such as
	// "docker.memory", "docker.env.LANG" or "docker.binds[0]".
	Origins map[string]string `json:"origins"`

	fields   map[string]string // path → JSON path in the file, for messages
	noEffect []conditional
}

// A Notice says something about one setting that is no error.
type Notice struct {
	Path  string `json:"path"`  // "agents.defaults.sandbox.pool.size" or "docker.cpus"
	Value string `json:"value"` // what was asked for; values of variables are left out
	Why   string `json:"why"`
}

// Resolve lays the layers over each other for one call. s may be nil, which is
// an empty file, and so may flags. An agent that agents.list does not name is
// served by agents.defaults under its own id.
//
// What package hardening refuses is refused here, as far as settings alone
// show it. Errors are joined *sandbox.Error values with the JSON path in Field.
func Resolve(s *Settings, who Who, flags *SandboxSettings) (Resolved, error) {
	if err := who.Validate(); err != nil {
		return Resolved{}, err
	}
	agent, index := findAgent(s, who.Agent)
	layers, err := layersFor(s, who.Agent, flags)
	if err != nil {
		return Resolved{}, err
	}
	p := problems{file: "settings"}
	if s != nil {
		p.providers = s.Providers
	}
	for _, l := range layers {
		if l.path == l.name && !l.flag {
			continue // built in
		}
		p.tags(reflect.ValueOf(l.settings).Elem(), l.path)
		p.formats(l.settings, l.path)
	}
	if err := p.err(); err != nil {
		return Resolved{}, err
	}
	kept, ignored := maskShared(layers)
	kept, wider := boundTenant(kept)
	ignored = append(ignored, wider...)
	kept, of, foreign := ownOptions(kept)
	ignored = append(ignored, foreign...)
	r, m := fromLayers(kept, who)
	r.OptionsFor = of
	p.podOptions(s, &r)
	for _, err := range ruleErrors(r, m) {
		p.add(err)
	}
	r.KnownAgent = index >= 0
	r.MainSession = DefaultMainSession
	if agent.MainSession != nil {
		r.MainSession = *agent.MainSession
	}
	if agent.Workspace != nil {
		r.AgentWorkspace = *agent.Workspace
		p.add(checkWorkspace(fmt.Sprintf("agents.list[%d].workspace", index), r.AgentWorkspace))
	}
	r.Sandboxed, r.Reason = decide(r)
	r.noEffect = append(always(ignored...), noEffect(r, m)...)
	for _, l := range layers {
		r.noEffect = append(r.noEffect, always(l.notices...)...)
	}
	r.NoEffect = r.NoEffectWith(runtime.GOOS, r.Provider)
	return r, p.err()
}

// Origin returns the name of the layer that the value at path came from:
// "default", "preset restricted", "agents.defaults", "agents.list[ID]",
// "program", "request" or "flag". For a list it is the last layer that had a part in it, for an
// element or key that of the element, with the permission rule if it comes
// from one: "agents.defaults permissions.allow[0]". A path that no layer set is "default".
func (r Resolved) Origin(path string) string {
	for {
		if o, ok := r.Origins[path]; ok {
			return o
		}
		i := strings.LastIndexByte(path, '.')
		if i < 0 || !isElement(path[:i]) {
			return "default"
		}
		path = path[:i] // a part of an element is of its layer
	}
}

// SetBy reports whether a layer other than the built-in defaults, or a preset
// that some layer names, has set a value at or below one of paths, and returns
// the JSON path of the first of them for messages; without one that is the
// first of paths.
func (r Resolved) SetBy(paths ...string) (field string, set bool) {
	named := r.Origin("preset") != "default"
	for _, path := range paths {
		for _, at := range sortedKeys(r.Origins) {
			if at != path && !strings.HasPrefix(at, path+".") && !strings.HasPrefix(at, path+"[") {
				continue
			}
			if o := r.Origins[at]; o != "default" && (named || !strings.HasPrefix(o, "preset ")) {
				return r.field(at), true
			}
		}
	}
	return paths[0], false
}

// field returns the JSON path in the file of the value at path, for messages.
func (r Resolved) field(path string) string {
	if f, ok := r.fields[path]; ok {
		return f
	}
	return path
}

// findAgent returns the settings of an agent and their index, or -1.
func findAgent(s *Settings, id string) (AgentSettings, int) {
	if s != nil && s.Agents != nil {
		for i, a := range s.Agents.List {
			if a.ID != nil && *a.ID == id {
				return a, i
			}
		}
	}
	return AgentSettings{}, -1
}

// layersFor returns the layers of one agent, weakest first. The strongest
// layer that names a preset decides which one lies under agents.defaults.
func layersFor(s *Settings, agent string, flags *SandboxSettings) ([]layer, error) {
	upper, dir := []layer{}, ""
	if s != nil {
		dir = s.Dir
	}
	if s != nil && s.Environment != nil {
		upper = append(upper, layer{name: "environment " + CAVariable, path: "environment", settings: s.Environment})
	}
	for _, l := range fileLayers(s) {
		if !l.agent || l.name == "agents.list["+agent+"]" {
			upper = append(upper, l)
		}
	}
	if s != nil && s.Program != nil {
		upper = append(upper, layer{name: "program", path: "program", flag: true, settings: s.Program})
	}
	if s != nil && s.Request != nil {
		upper = append(upper, layer{name: "request", path: "create", settings: s.Request})
	}
	if s != nil && s.Coding != nil {
		upper = append(withoutSecrets(upper), layer{name: "agent profile", path: "agent", settings: s.Coding})
	}
	if flags != nil {
		upper = append(upper, layer{name: "flag", path: "flag", flag: true, settings: flags})
	}
	name, where := DefaultPreset, "default"
	for _, l := range upper {
		if l.settings.Preset != nil {
			name, where = *l.settings.Preset, l.path+".preset"
		}
	}
	preset, ok := presetSettings(name)
	if !ok {
		e := sandbox.Errorf(sandbox.CodeValidation, "resolve", "%q is none of strict, restricted, normal, permissive", name)
		e.Field = where
		return nil, e
	}
	upper, err := withPermissions(upper, dir)
	if err != nil {
		return nil, err
	}
	lower := []layer{
		{name: "default", path: "default", settings: Defaults()},
		{name: "preset " + name, path: "preset " + name, settings: preset},
	}
	return append(lower, upper...), nil
}

// withoutSecrets returns layers without the secrets that they bind to hosts.
func withoutSecrets(layers []layer) []layer {
	out := slices.Clone(layers)
	for i, l := range out {
		if l.settings.Network == nil || len(l.settings.Network.Secrets) == 0 {
			continue
		}
		settings, network := *l.settings, *l.settings.Network
		network.Secrets = nil
		settings.Network = &network
		out[i].settings = &settings
	}
	return out
}

// maskShared takes the docker, browser and prune settings out of an agent's
// layer when the scope is shared, and says so. The scope itself may come from
// any layer.
func maskShared(layers []layer) ([]layer, []Notice) {
	var scope sandbox.Scope
	for _, l := range layers {
		if l.settings.Scope != nil {
			scope = *l.settings.Scope
		}
	}
	if scope != sandbox.ScopeShared {
		return layers, nil
	}
	var notices []Notice
	kept := make([]layer, 0, len(layers))
	for _, l := range layers {
		if l.agent {
			masked := *l.settings
			out := SandboxSettings{Docker: masked.Docker, Browser: masked.Browser, Prune: masked.Prune}
			masked.Docker, masked.Browser, masked.Prune = nil, nil, nil
			dropped := merge([]layer{{name: l.name, path: l.path, settings: &out}})
			for _, path := range sortedKeys(dropped.origins) {
				if isElement(path) {
					continue
				}
				notices = append(notices, Notice{
					Path: l.path + "." + path, Value: valueAt(&out, path),
					Why: "the scope is shared, where an agent's docker, browser and prune settings do not count",
				})
			}
			l.settings = &masked
		}
		kept = append(kept, l)
	}
	return kept, notices
}

// fromLayers merges layers into a Resolved with scope and values set.
func fromLayers(layers []layer, who Who) (Resolved, merged) {
	m := merge(layers)
	return fromMerged(m, who), m
}

// fromMerged is what merged layers say, with scope and values set.
func fromMerged(m merged, who Who) Resolved {
	r := Resolved{Who: who, Origins: m.origins, fields: m.fields}
	r.Budgets = unbounded()
	concrete(reflect.ValueOf(&r.Values).Elem(), reflect.ValueOf(&m.settings).Elem())
	r.ScopeKey = who.scopeKey(r.Scope)
	if ref := sandbox.LanguageImage(r.Docker.Image); ref != "" {
		r.Docker.Image = ref
	}
	r.allowRegistries()
	return r
}

// decide tells whether the session runs inside a sandbox, and why.
func decide(r Resolved) (bool, string) {
	main := r.Session == r.MainSession
	switch {
	case !r.Enabled:
		return false, "enabled is false"
	case r.Mode == sandbox.ModeOff:
		return false, "mode is off"
	case r.Mode == sandbox.ModeNonMain && main:
		return false, fmt.Sprintf("mode is non-main and %q is the main session of agent %s", r.Session, r.Agent)
	case r.Mode == sandbox.ModeNonMain:
		return true, fmt.Sprintf("mode is non-main and %q is not the main session of agent %s, which is %q", r.Session, r.Agent, r.MainSession)
	}
	return true, "mode is all"
}

// PlatformEnabled reports whether enabledPlatforms holds the platform goos, as
// runtime.GOOS gives it; wsl says that Linux runs inside Windows.
func (r Resolved) PlatformEnabled(goos string, wsl bool) bool {
	if wsl {
		goos = "wsl"
	}
	for _, p := range r.EnabledPlatforms {
		if p == goos || p == "macos" && goos == "darwin" {
			return true
		}
	}
	return false
}

// isElement reports whether path names an element of a list or map rather
// than the whole.
func isElement(path string) bool {
	return strings.HasSuffix(path, "]") || strings.HasPrefix(path, "docker.env.") ||
		strings.HasPrefix(path, "docker.ulimits.") || strings.HasPrefix(path, "network.secrets.") || strings.HasPrefix(path, "providerOptions.")
}
