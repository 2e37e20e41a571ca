//go:build !sandbox_front

package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/images"
	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/internal/doctor"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/orchestrator"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/local"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
	"github.com/bulkhead-dev/sandbox/prune"
)

// Doctor implements cli.Backend. What cannot be opened is a finding of a
// check and no reason not to look at the rest.
func (b backend) Doctor(ctx context.Context, o cli.Options, who config.Who, flags *config.SandboxSettings, attack bool) (cli.Diagnosis, error) {
	d, done, err := deps(o, who, flags)
	if err != nil {
		return cli.Diagnosis{}, err
	}
	defer done()
	report := doctor.Run(ctx, d)
	out := cli.Diagnosis{Failed: report.Failed()}
	for _, c := range report.Checks {
		out.Checks = append(out.Checks, cli.Check{Name: c.Name, Status: string(c.Status), Detail: c.Detail, Fix: c.Fix})
	}
	if !attack {
		return out, nil
	}
	attempts, err := selfTest(ctx, o, who, flags)
	if err != nil {
		return out, err
	}
	out.Failed = out.Failed || attempts.Failed()
	for _, r := range attempts.Results {
		out.Attempts = append(out.Attempts, cli.Attempt{Name: r.Name, What: r.What, Outcome: string(r.Outcome), Seen: r.Seen})
	}
	return out, nil
}

// podsWithin bounds the checks of a cluster, one of which awaits a pod.
const podsWithin = 3 * time.Minute

// deps are what the checks ask on this machine, until done is called.
func deps(o cli.Options, who config.Who, flags *config.SandboxSettings) (d doctor.Deps, done func(), err error) {
	done = func() {}
	d = doctor.Deps{
		Guest:       statedir.FindGuest,
		ImageRef:    images.DefaultImage,
		Settings:    func() (doctor.Settings, error) { return facts(o, who, flags) },
		Leftovers:   func(ctx context.Context) (doctor.Leftovers, error) { return leftovers(ctx, o) },
		Evidence:    func(context.Context) (doctor.Evidence, error) { return recorded(o) },
		Host:        doctor.RealHost(),
		Authorities: func() (string, []byte, error) { return authorities(o, who, flags) },
	}
	var options, ofDocker map[string]any
	if r, _, err := resolve(o, who, flags); err == nil { // what is wrong with the settings is a finding of its own
		d.ImageRef = r.Docker.Image
		if r.Provider == config.KubernetesProvider {
			d.Local, done = podChecks(o, r)
			d.Deadline = podsWithin
			d.StateDir, err = orchestrator.StateFolder(o.StateDir)
			return d, done, err
		}
		if r.Provider == local.LandlockName {
			d.Local = append(d.Local, landlockCheck(r.ProviderOptions))
		} else if r.Provider != "docker" {
			options = r.ProviderOptions
		} else {
			ofDocker = r.ProviderOptions
		}
	}
	d.Local = append(d.Local, providerChecks(o, options)...)
	if len(ofDocker) > 0 {
		d.Local = append(d.Local, doctor.OptionsCheck("docker", ofDocker))
	}
	if d.StateDir, err = orchestrator.StateFolder(o.StateDir); err != nil {
		return d, done, err
	}
	api, err := container.Dial()
	if err != nil {
		d.Posture = func(context.Context) (container.Posture, error) { return container.Posture{}, err }
		return d, done, nil
	}
	engine := container.New(api, container.Deadlines{})
	d.EngineAddress, d.Posture = engine.Host(), engine.Posture
	d.Image = images.New(api, images.Config{}).Inspect
	return d, done, nil
}

// podChecks are the checks of a cluster with these settings.
func podChecks(o cli.Options, r config.Resolved) ([]doctor.ProviderCheck, func()) {
	bad := func(err error) ([]doctor.ProviderCheck, func()) {
		return []doctor.ProviderCheck{doctor.Broken("cluster", config.KubernetesProvider, err)}, func() {}
	}
	h, err := open(o) // which hands over to the program that speaks to clusters
	if err != nil {
		return bad(err)
	}
	p, err := h.Providers().Get(config.KubernetesProvider)
	if err == nil {
		if x, ok := p.(provider.Examiner); ok {
			var out []doctor.ProviderCheck
			for _, c := range x.Examine(provider.Examined{Image: r.Docker.Image, Runtime: r.Docker.Runtime, Network: r.Docker.Network, Options: r.ProviderOptions}) {
				out = append(out, doctor.ProviderCheck{Name: c.Name, Provider: config.KubernetesProvider, Look: func(ctx context.Context) (doctor.Status, string, string) {
					f := c.Look(ctx)
					return doctor.Status(f.Status), f.Detail, f.Fix
				}})
			}
			return out, func() { h.Close() }
		}
		_, err = p.List(context.Background(), sandbox.Filter{}) // says why it cannot be used
	}
	h.Close()
	return bad(err)
}

// landlockCheck is the check of the landlock provider with these options.
func landlockCheck(options map[string]any) doctor.ProviderCheck {
	return doctor.ProviderCheck{Name: "landlock-provider", Provider: local.LandlockName, Look: func(context.Context) (doctor.Status, string, string) {
		gaps, err := local.CheckLandlock(options)
		if e := new(sandbox.Error); errors.As(err, &e) {
			return doctor.Fail, e.Message, e.Hint
		}
		var codes []string
		for _, g := range gaps {
			codes = append(codes, g.Code)
		}
		return doctor.Warn, "sandboxes share the namespaces of this host, and do not close: " + strings.Join(codes, ", "), `"sandbox explain" says what each means; use "provider": "docker" or "local" where they can be had`
	}}
}

// providerChecks are the checks of the local provider with these options. No
// program is run for them that code in a sandbox could have put into PATH.
func providerChecks(o cli.Options, options map[string]any) []doctor.ProviderCheck {
	host, invalid := local.Host(options)
	run := host.Run
	host.Run = func(ctx context.Context, name string, args ...string) (string, error) {
		h, err := open(o)
		if err != nil {
			return "", err
		}
		defer h.Close()
		if err := local.Trusted(h.World(), name); err != nil {
			return "", err
		}
		return run(ctx, name, args...)
	}
	var out []doctor.ProviderCheck
	if e := new(sandbox.Error); errors.As(invalid, &e) {
		out = append(out, doctor.ProviderCheck{Name: "sandbox-options", Look: func(context.Context) (doctor.Status, string, string) {
			return doctor.Fail, e.Field + ": " + e.Message, e.Hint
		}})
	}
	for _, c := range launch.Checks() {
		out = append(out, doctor.ProviderCheck{Name: c.Name, Look: func(ctx context.Context) (doctor.Status, string, string) {
			f := c.Look(ctx, host)
			return doctor.Status(f.Status), f.Detail, f.Fix
		}})
	}
	return out
}

func resolve(o cli.Options, who config.Who, flags *config.SandboxSettings) (config.Resolved, string, error) {
	s, path, err := readSettings(o.ConfigFile)
	if err != nil {
		return config.Resolved{}, path, err
	}
	r, err := config.Resolve(s, who, flags)
	return r, path, err
}

// facts are what the checks need to know of the settings.
func facts(o cli.Options, who config.Who, flags *config.SandboxSettings) (doctor.Settings, error) {
	r, path, err := resolve(o, who, flags)
	if err != nil {
		return doctor.Settings{Path: path}, err
	}
	switches := hardening.Switches{
		BindSources:      r.Docker.DangerouslyAllowBindSources,
		ReservedTargets:  r.Docker.DangerouslyAllowReservedTargets,
		WritableRoot:     r.Docker.DangerouslyAllowWritableRoot,
		KeepCapabilities: r.Docker.DangerouslyKeepCapabilities,
		MissingLimits:    r.Docker.DangerouslyAllowMissingLimits,
	}
	return doctor.Settings{
		Path: path, Provider: r.Provider, Runtime: r.Docker.Runtime,
		Dangerous: switches.List(), WorkspaceQuota: int64(r.WorkspaceQuota),
		RequireEvidence: r.RequireEvidence, RecordsCommands: r.RecordsCommands(),
		Browser: doctor.Browser{
			Enabled: r.Browser.Enabled, Image: r.Browser.Image, Network: r.BrowserNetwork(), NoSandbox: r.Browser.DangerouslyNoSandbox,
			HostControl: r.Browser.AllowHostControl, HostURL: r.Browser.HostCDPURL,
		},
	}, nil
}

// recorded looks at the evidence without reading it.
func recorded(o cli.Options) (doctor.Evidence, error) {
	state, err := orchestrator.OpenState(o.StateDir)
	if err != nil {
		return doctor.Evidence{}, err
	}
	entries, err := os.ReadDir(state.Evidence())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return doctor.Evidence{}, err
	}
	var out doctor.Evidence
	for _, e := range entries {
		if e.IsDir() {
			out.Chains++
		}
	}
	store, err := evidence.Open(state.Evidence(), evidence.Options{KeyFile: state.EvidenceKey()})
	if err != nil {
		return out, err
	}
	key, err := store.PublicKey()
	if key != nil {
		out.Key = evidence.KeyID(key)
	}
	return out, err
}

// authorities returns the certificates of docker.caFile as sandboxes get them.
func authorities(o cli.Options, who config.Who, flags *config.SandboxSettings) (string, []byte, error) {
	h, err := open(o)
	if err != nil {
		return "", nil, err
	}
	defer h.Close()
	m, err := h.Manager()
	if err != nil {
		return "", nil, err
	}
	return m.Authorities(who, flags)
}

// leftovers compares records with what exists.
func leftovers(ctx context.Context, o cli.Options) (doctor.Leftovers, error) {
	h, err := open(o)
	if err != nil {
		return doctor.Leftovers{}, err
	}
	defer h.Close()
	m, err := h.Manager()
	if err != nil {
		return doctor.Leftovers{}, err
	}
	list, err := m.List(ctx, manager.ListOptions{All: true})
	if err != nil {
		return doctor.Leftovers{}, err
	}
	var out doctor.Leftovers
	for _, r := range append(list.Containers, list.Browsers...) {
		switch r.Status {
		case sandbox.StatusOrphan:
			if time.Duration(r.AgeSeconds)*time.Second <= prune.OrphanGrace {
				continue // it may be on its way, and prune lets it be
			}
			out.Orphans = append(out.Orphans, r.Name)
		case sandbox.StatusMissing:
			out.Missing = append(out.Missing, r.Name)
		}
	}
	out.Corrupt, err = filepath.Glob(filepath.Join(h.State().Registry(), "*", "*.corrupt-*"))
	return out, err
}
