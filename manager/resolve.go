package manager

import (
	"context"
	"runtime"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/confighash"
)

// A want is what a request asks for, ready to be compared with what exists.
type want struct {
	res      config.Resolved
	spec     sandbox.Spec
	hash     string
	provider sandbox.Provider
	why      string // why this provider
	agentDir string // canonical folder of the agent, to seed from; may be empty
	quota    int64  // bytes of the scratch workspace; 0 is unbounded

	// settingsHash is the hash without the flags of this call; nil when there
	// are none. It is asked for only when the hashes differ.
	settingsHash func() string
}

// An intent says whether gathering facts may change the world.
type intent bool

const (
	observe intent = false // look only: an image that is not there stays so
	effects intent = true  // make what a sandbox needs before it can be described
)

// resolve turns a request into a want: settings, then the provider, then
// the facts of this host, then the Spec and its hash.
func (m *Manager) resolve(ctx context.Context, who config.Who, flags *config.SandboxSettings, i intent) (*want, error) {
	res, err := config.Resolve(m.settings, who, flags)
	if err != nil {
		return nil, err
	}
	if i == effects {
		if err := mustBeSandboxed(res); err != nil {
			return nil, err
		}
	}
	p, why, err := m.choose(ctx, res)
	if err != nil {
		return nil, err
	}
	w, err := m.describe(ctx, res, p, i)
	if err != nil {
		return nil, err
	}
	w.why = why
	if flags != nil {
		w.settingsHash = func() string { return m.hashWithout(ctx, who, p) }
	}
	return w, nil
}

// mustBeSandboxed refuses a session that settings leave outside: what was
// asked to run in a sandbox never runs on the host instead.
func mustBeSandboxed(res config.Resolved) error {
	field, why := "mode", res.Reason
	switch {
	case !res.PlatformEnabled(runtime.GOOS, false):
		field, why = "enabledPlatforms", "enabledPlatforms does not name "+runtime.GOOS
	case res.Sandboxed:
		return nil
	}
	return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "resolve", Field: field,
		Message: "this session is not sandboxed (" + why + "), and commands are never run on the host instead",
		Hint:    "change the setting, or use another session; see: sandbox explain"}
}

// choose returns the provider that settings name, and why it is that one.
func (m *Manager) choose(ctx context.Context, res config.Resolved) (sandbox.Provider, string, error) {
	if res.Provider == "auto" {
		c, err := m.providers.Auto(ctx, "docker", "local")
		if err != nil {
			return nil, "", err
		}
		m.log.Infof("provider auto: %s", c.Reason)
		return c.Provider, c.Reason, nil
	}
	p, err := m.providers.Get(res.Provider)
	return p, "set by " + res.Origin("provider"), err
}

// describe gathers the facts for res and builds the Spec.
func (m *Manager) describe(ctx context.Context, res config.Resolved, p sandbox.Provider, i intent) (*want, error) {
	f, agentDir, err := m.facts(ctx, res, p, i)
	if err != nil {
		return nil, err
	}
	w := &want{res: res, provider: p, agentDir: agentDir, quota: int64(res.WorkspaceQuota)}
	if w.spec, err = config.BuildSpec(res, f); err != nil {
		return nil, err
	}
	if !p.Features().Images {
		if res.Origin("docker.image") == "flag" {
			return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "resolve", Field: "docker.image", Resource: res.Docker.Image,
				Message: "the provider " + p.Name() + " runs programs of this host and has no images", Hint: "leave --image out, or use another provider"}
		}
		w.spec.Image = "" // what settings say for other providers is no part of this sandbox
	}
	w.hash, err = confighash.Sum(w.spec)
	return w, err
}

// hashWithout is the hash of the same session without flags, or "?" when
// it cannot be told: that equals no hash, so a difference counts as coming
// from a flag and nothing is run in silence.
func (m *Manager) hashWithout(ctx context.Context, who config.Who, p sandbox.Provider) string {
	const unknown = "?"
	res, err := config.Resolve(m.settings, who, nil)
	if err != nil {
		return unknown
	}
	w, err := m.describe(ctx, res, p, observe)
	if err != nil {
		return unknown
	}
	return w.hash
}
