package manager

import (
	"context"
	"fmt"
	"runtime"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/confighash"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/registry"
)

// An Explanation says what a session gets and why, without changing anything.
type Explanation struct {
	Tenant    string `json:"tenant"`
	Agent     string `json:"agent"`
	Session   string `json:"session"`
	Sandboxed bool   `json:"sandboxed"`
	Reason    string `json:"reason"`
	Gate      Gate   `json:"gate"` // where commands run

	Provider       string `json:"provider"`
	ProviderReason string `json:"providerReason"`

	Settings  []Setting `json:"settings"`
	NoEffect  []Setting `json:"noEffect"`  // set, but the feature does not exist yet
	Dangerous []string  `json:"dangerous"` // break-glass switches in force

	Name        string              `json:"name"`
	Scope       sandbox.Scope       `json:"scope"`
	ScopeKey    string              `json:"scopeKey"`
	User        string              `json:"user"`
	Workspace   string              `json:"workspace"`      // host folder, or what the provider has instead of one
	View        *ViewPlan           `json:"view,omitempty"` // of a private workspace
	Home        HomePlan            `json:"home"`
	Checkpoints CheckpointPlan      `json:"checkpoints"`
	Mounts      []sandbox.Mount     `json:"mounts"`
	Tmpfs       []sandbox.Tmpfs     `json:"tmpfs"`
	Files       FileTransport       `json:"files"`
	Pool        PoolPlan            `json:"pool"`
	Image       string              `json:"image"`
	ImageID     string              `json:"imageId"` // empty: not made yet
	ConfigHash  string              `json:"configHash"`
	Status      sandbox.Status      `json:"status"` // missing: will be created
	HaveHash    string              `json:"haveHash"`
	Next        string              `json:"next"` // what the next run would do, and why
	Drift       []confighash.Change `json:"drift"`
	Network     NetworkPlan         `json:"network"`
	Evidence    EvidencePlan        `json:"evidence"`
	Budgets     config.Budgets      `json:"budgets"` // of operations under grants; -1 is no bound
	Browser     BrowserPlan         `json:"browser"`

	TenantLimits config.TenantRules `json:"tenantLimits"` // of what the daemon does for the tenant
	Media        MediaPlan          `json:"media"`

	Layers   []provider.Layer `json:"layers"` // what keeps code inside, where the provider tells
	Wall     []provider.Step  `json:"wall"`   // how the inside is made, where the provider tells
	Notes    []string         `json:"notes"`  // what of the settings the provider does not enforce
	Verdicts []Verdict        `json:"verdicts"`
	Problems []string         `json:"problems"` // what could not be found out
}

// An EvidencePlan says what of a session is put on record.
type EvidencePlan struct {
	Required        bool   `json:"required"`        // nothing runs that is not on record
	Commands        bool   `json:"commands"`        // those without a grant too
	Sync            string `json:"sync"`            // when records are forced to the disk
	CheckpointEvery int64  `json:"checkpointEvery"` // records between two signatures
}

// A Setting is one effective value with the layer that it came from.
type Setting struct {
	Path  string `json:"path"`
	Value string `json:"value"`
	Layer string `json:"layer"`
	Note  string `json:"note,omitempty"`
}

// A Verdict answers one question of explain.
type Verdict struct {
	Kind      string `json:"kind"`                // tool, command, path, host
	Operation string `json:"operation,omitempty"` // of a path: read or write; of a host: tls, http or raw; of a command: place or warning
	Subject   string `json:"subject"`
	Verdict   string `json:"verdict"` // allow, ask, deny, unknown; warn for a warning
	Reason    string `json:"reason"`

	// Of a host:
	Rule    string   `json:"rule,omitempty"`
	Hint    string   `json:"hint,omitempty"`
	Secrets []string `json:"secrets,omitempty"` // names of those that its requests get
}

// Questions are what explain can be asked beside the settings.
type Questions struct {
	Tool, Command, Path string

	Host   string // HOST, HOST:PORT or a URL
	Method string // of the request that a URL is; empty is GET
}

// Explain says what a session gets and why. It changes nothing: an image
// that is missing stays so, and what cannot be found out is in Problems.
func (m *Manager) Explain(ctx context.Context, who config.Who, flags *config.SandboxSettings, q Questions) (Explanation, error) {
	settings, err := m.currentOf(who, flags)
	if err != nil {
		return Explanation{}, err
	}
	res, err := m.describer.resolved(settings, who, flags)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{
		Tenant: who.Tenant, Agent: who.Agent, Session: who.Session,
		Sandboxed: res.Sandboxed, Reason: res.Reason, Scope: res.Scope, ScopeKey: res.ScopeKey,
		Settings: settingsOf(res), NoEffect: noticesOf(res.NoEffect),
		Dangerous: []string{}, Mounts: []sandbox.Mount{}, Tmpfs: []sandbox.Tmpfs{}, Files: chosenFiles(res.FSTransport), Drift: []confighash.Change{},
		Evidence:    EvidencePlan{Required: res.RequireEvidence, Commands: res.RecordsCommands(), Sync: res.Evidence.Sync, CheckpointEvery: res.Evidence.CheckpointEvery},
		Budgets:     res.Budgets,
		Checkpoints: CheckpointPlan{Auto: res.Checkpoint.Auto, Keep: res.Checkpoint.Keep, Folders: []string{}},
		Network:     NetworkPlan{Rules: []NetworkRule{}, Limits: []Setting{}, Secrets: []BoundName{}}, Verdicts: []Verdict{}, Layers: []provider.Layer{}, Wall: []provider.Step{}, Notes: []string{}, Problems: []string{},
	}
	if why := m.reload.problem(); why != "" {
		e.Problems = append(e.Problems, "the settings are those before the last change: "+why)
	}
	e.explainTenant(settings, who.Tenant)
	e.Browser = m.browsers.explainBrowser(ctx, res, flags)
	e.Dangerous = append(e.Dangerous, browserDangers(res)...)
	at, err := m.gates.enter(ctx, res, outing{}, observe)
	var w *want
	if err == nil {
		w, err = m.describer.resolve(ctx, nil, res, flags, at, observe)
	}
	if err != nil {
		e.Problems = append(e.Problems, err.Error())
		e.Gate = Gate{Place: Refused, Reason: "nothing can be run as things are"}
		m.explainer.answer(ctx, &e, res, q, nil, nil)
		return e, nil
	}
	e.Gate, e.NoEffect = w.gate, noticesOf(res.NoEffectWith(runtime.GOOS, w.provider.Name(), heldBy(w.provider)...))
	if w.gate.Place != Unsandboxed {
		e.NoEffect = append(e.NoEffect, noticesOf(append(optionsWithoutEffect(res, w.provider), noImageNotice(res, w.provider)...))...)
		e.Notes = append(e.Notes, unheldNotes(w.provider, w.spec)...)
	}
	e.describe(w)
	e.Checkpoints = m.explainer.explainCheckpoints(ctx, w)
	if view, ok := viewOf(w.spec); ok {
		e.View = m.explainer.explainView(ctx, w.spec, view, w.quota)
	}
	e.Notes = append(e.Notes, rootNotes(res, w.spec)...)
	if w.gate.Place == Unsandboxed {
		m.explainer.answer(ctx, &e, res, q, nil, nil)
		e.Next = "run on the host, without a sandbox"
		e.Notes = append(e.Notes, "there is no sandbox: of all settings only the workspace, docker.env, the commands and the limits of a command hold")
		return e, nil
	}
	wall, closes := e.plan(ctx, w)
	e.Notes = append(e.Notes, m.explainer.cacheNotes(w)...)
	m.explainer.answer(ctx, &e, res, q, wall, closes)
	if err := m.explainer.explainNext(ctx, w, &e); err != nil {
		e.Status = sandbox.StatusUnknown
		e.Problems = append(e.Problems, err.Error())
	}
	return e, nil
}

// describe fills in what the wanted Spec says.
func (e *Explanation) describe(w *want) {
	e.Provider, e.ProviderReason = w.provider.Name(), w.why
	e.Name, e.Image, e.ConfigHash = w.spec.Name, w.spec.Image, w.hash
	e.User = fmt.Sprintf("%d:%d", w.spec.UID, w.spec.GID)
	e.Workspace, e.Home = workspaceOf(w.spec), explainHome(w)
	e.Mounts = append(e.Mounts, w.spec.Mounts...)
	if detached(w.provider) {
		e.Workspace = "none on this machine"
		for i := range e.Mounts {
			e.Mounts[i].Source = ""
		}
	}
	e.Tmpfs = append(e.Tmpfs, w.spec.Tmpfs...)
	e.Dangerous = append(e.Dangerous, w.spec.Security.Dangerous...)
	if w.spec.ImageID == noImage {
		e.Problems = append(e.Problems, "the image "+w.spec.Image+" is not there yet; the first run makes it")
	} else {
		e.ImageID = w.spec.ImageID
	}
}

// explainNext says what the next run would find and do.
func (x *explainer) explainNext(ctx context.Context, w *want, e *Explanation) error {
	leased, err := x.m.locksOf(w.provider.Name()).Held(w.spec.Name)
	if err != nil {
		return err
	}
	have, rec, err := x.m.builder.look(ctx, w)
	if err != nil {
		return err
	}
	e.Status = sandbox.StatusMissing
	if have != nil {
		e.Status, e.HaveHash = have.Status, have.ConfigHash
		e.Drift = append(e.Drift, drift(rec, w)...)
	}
	if w.spec.Kind != sandbox.KindBrowser { // whose container serves no files
		e.Files = x.explainFiles(ctx, w, have, rec)
	}
	d, err := decideAction(x.m.builder.input(w.late(hashOf(have), rec), have, rec, leased))
	if err != nil {
		return err
	}
	e.Next = string(d.Action) + ": " + d.Reason
	if d.Hint != "" {
		e.Next += "; " + d.Hint
	}
	if d.Action == lifecycleCreate {
		return x.m.pool.explainPool(ctx, w, e)
	}
	return nil
}

func drift(rec *registry.Record, w *want) []confighash.Change {
	if rec == nil || rec.Spec == nil {
		return nil
	}
	changes := confighash.Diff(*rec.Spec, w.spec)
	if w.spec.Kind == sandbox.KindBrowser {
		return browserDrift(changes, rec.Spec.Env, w.spec.Env)
	}
	return changes
}

func noticesOf(ns []config.Notice) []Setting {
	out := []Setting{}
	for _, n := range ns {
		out = append(out, Setting{Path: n.Path, Value: n.Value, Note: n.Why})
	}
	return out
}
