package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
)

// unbounded is a budget that bounds nothing, with what fn says instead.
func unbounded(fn func(*grant.Budget)) grant.Budget {
	b := grant.Budget{Calls: -1, BytesIn: -1, BytesOut: -1, CPUMs: -1, GPUMs: -1, Files: -1, WallMs: -1}
	if fn != nil {
		fn(&b)
	}
	return b
}

func TestBudgetsMerge(t *testing.T) {
	const layered = `{"agents":{
		"defaults":{"sandbox":{"budgets":{
			"session":{"calls":10,"bytesIn":"1g"},"agent":{"calls":100},"tenant":{"calls":1000,"files":50,"cpuMs":0}}}},
		"list":[
			{"id":"researcher","sandbox":{"budgets":{"session":{"calls":-1,"wallMs":5},"agent":{"calls":200},"tenant":{"bytesOut":"2k"}}}},
			{"id":"greedy","sandbox":{"budgets":{"tenant":{"calls":2000,"files":-1,"cpuMs":1,"wallMs":-1}}}},
			{"id":"modest","sandbox":{"scope":"shared","budgets":{"tenant":{"calls":3,"files":50}}}}]}}`
	agent := func(id string) config.Resolved {
		return resolve(t, layered, config.Who{Tenant: "acme", Agent: id, Session: "chat-42"}, config.Overrides{})
	}
	researcher, greedy, modest, other := agent("researcher"), agent("greedy"), agent("modest"), agent("other")
	session := unbounded(func(b *grant.Budget) { b.Calls, b.BytesIn = 10, 1<<30 })
	tenant := unbounded(func(b *grant.Budget) { b.Calls, b.Files, b.CPUMs = 1000, 50, 0 })
	for name, tt := range map[string]struct{ got, want grant.Budget }{
		"nothing is said":              {resolve(t, `{}`, ann, config.Overrides{}).Budgets.Session, unbounded(nil)},
		"strict bounds nothing":        {resolve(t, inDefaults(`"preset":"strict"`), ann, config.Overrides{}).Budgets.Tenant, unbounded(nil)},
		"defaults hold for a session":  {other.Budgets.Session, session},
		"defaults hold for an agent":   {other.Budgets.Agent, unbounded(func(b *grant.Budget) { b.Calls = 100 })},
		"defaults hold for the tenant": {other.Budgets.Tenant, tenant},
		"an agent's own session wins":  {researcher.Budgets.Session, unbounded(func(b *grant.Budget) { b.BytesIn, b.WallMs = 1<<30, 5 })},
		"an agent's own agent wins":    {researcher.Budgets.Agent, unbounded(func(b *grant.Budget) { b.Calls = 200 })},
		"an agent adds to the tenant": {researcher.Budgets.Tenant, unbounded(func(b *grant.Budget) {
			b.Calls, b.Files, b.CPUMs, b.BytesOut = 1000, 50, 0, 2048
		})},
		"an agent widens no tenant":           {greedy.Budgets.Tenant, tenant},
		"an agent narrows the tenant":         {modest.Budgets.Tenant, unbounded(func(b *grant.Budget) { b.Calls, b.Files, b.CPUMs = 3, 50, 0 })},
		"a shared scope leaves them in force": {modest.Budgets.Session, session},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	var reported []string
	for _, n := range greedy.NoEffect {
		reported = append(reported, n.Path+" "+n.Value)
	}
	const at = "agents.list[1].sandbox.budgets.tenant."
	if diff := cmp.Diff([]string{at + "calls 2000", at + "cpuMs 1", at + "files -1"}, reported); diff != "" {
		t.Errorf("what does not count (-want +got):\n%s", diff)
	}
	for path, want := range map[string]string{
		"budgets.session.calls": "agents.list[researcher]", "budgets.session.bytesIn": "agents.defaults",
		"budgets.tenant.bytesOut": "agents.list[researcher]", "budgets.tenant.gpuMs": "default", "evidence.sync": "default",
	} {
		if got := researcher.Origin(path); got != want {
			t.Errorf("%s is from %q; want %q", path, got, want)
		}
	}
	if got := greedy.Origin("budgets.tenant.calls"); got != "agents.defaults" {
		t.Errorf("what does not count is named as origin: %q", got)
	}
}

// TestTenantBudgetOfAFlag holds that a flag opens the account of all no more
// than an agent does, and that settings are not changed by asking.
func TestTenantBudgetOfAFlag(t *testing.T) {
	s := parse(t, inDefaults(`"budgets":{"tenant":{"calls":5}}`))
	flags := &config.SandboxSettings{Budgets: &config.BudgetsSettings{
		Session: &config.BudgetSettings{Calls: new(int64(7))}, Tenant: &config.BudgetSettings{Calls: new(int64(6)), Files: new(int64(1))},
	}}
	for range 2 {
		r, err := config.Resolve(s, ann, flags)
		if err != nil {
			t.Fatal(err)
		}
		if r.Budgets.Tenant.Calls != 5 || r.Budgets.Tenant.Files != 1 || r.Budgets.Session.Calls != 7 || *flags.Budgets.Tenant.Calls != 6 || len(r.NoEffect) != 1 {
			t.Errorf("%+v, %v, flag %d", r.Budgets, r.NoEffect, *flags.Budgets.Tenant.Calls)
		}
	}
}

func TestEvidenceMerges(t *testing.T) {
	r := resolve(t, `{"agents":{"defaults":{"sandbox":{"evidence":{"sync":"always","checkpointEvery":10}}},
		"list":[{"id":"researcher","sandbox":{"evidence":{"sync":"off","commands":true}}}]}}`, ann, config.Overrides{})
	if diff := cmp.Diff(config.Evidence{Sync: config.SyncOff, CheckpointEvery: 10, Commands: true}, r.Evidence); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(config.Evidence{Sync: config.SyncCheckpoint, CheckpointEvery: 256}, resolve(t, `{}`, ann, config.Overrides{}).Evidence); diff != "" {
		t.Error(diff)
	}
	for in, want := range map[string]bool{
		``: false, `"evidence":{"commands":true}`: true, `"requireEvidence":true`: true, `"preset":"strict"`: true,
		`"requireEvidence":true,"evidence":{"commands":false}`: true,
	} {
		if got := resolve(t, inDefaults(in), ann, config.Overrides{}).RecordsCommands(); got != want {
			t.Errorf("{%s}: commands are recorded: %v", in, got)
		}
	}
}

func TestBudgetsRefused(t *testing.T) {
	for in, field := range map[string]string{
		`"budgets":{"session":{"calls":-2}}`:            "budgets.session.calls",
		`"budgets":{"agent":{"bytesIn":"-1g"}}`:         "budgets.agent.bytesIn",
		`"budgets":{"tenant":{"wallMs":"1h"}}`:          "budgets.tenant.wallMs",
		`"budgets":{"tenant":{"files":1.5}}`:            "budgets.tenant.files",
		`"budgets":{"group":{}}`:                        "budgets.group",
		`"evidence":{"sync":"never"}`:                   "evidence.sync",
		`"evidence":{"checkpointEvery":0}`:              "evidence.checkpointEvery",
		`"evidence":{"checkpointEvery":1000001}`:        "evidence.checkpointEvery",
		`"evidence":{"commands":"yes"}`:                 "evidence.commands",
		`"budgets":{"session":{"bytesOut":true}}`:       "budgets.session.bytesOut",
		`"budgets":{"session":{"bytesOut":"9999999t"}}`: "budgets.session.bytesOut",
	} {
		_, err := config.Parse("f", []byte(inDefaults(in)))
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Code != sandbox.CodeValidation || !strings.HasSuffix(e.Field, "sandbox."+field) {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func TestBuilderWritesBudgets(t *testing.T) {
	s, err := config.NewBuilder().
		SessionBudget(unbounded(func(b *grant.Budget) { b.Calls, b.BytesIn = 3, 4096 })).
		TenantBudget(unbounded(func(b *grant.Budget) { b.Files = 0 })).
		EvidenceSync(config.SyncAlways).RecordCommands(true).RequireEvidence(true).
		Agent("researcher").AgentBudget(unbounded(func(b *grant.Budget) { b.CPUMs = 9 })).Build()
	if err != nil {
		t.Fatal(err)
	}
	r, err := config.Resolve(s, ann, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Budgets{
		Session: unbounded(func(b *grant.Budget) { b.Calls, b.BytesIn = 3, 4096 }),
		Agent:   unbounded(func(b *grant.Budget) { b.CPUMs = 9 }),
		Tenant:  unbounded(func(b *grant.Budget) { b.Files = 0 }),
	}
	if diff := cmp.Diff(want, r.Budgets); diff != "" || r.Evidence.Sync != config.SyncAlways || !r.Evidence.Commands || !r.RequireEvidence {
		t.Errorf("%+v %s", r.Evidence, diff)
	}
	if _, err := config.NewBuilder().SessionBudget(grant.Budget{Calls: -5}).Build(); err == nil {
		t.Error("a budget below nothing was taken")
	}
	if _, err := config.NewBuilder().EvidenceSync("daily").Build(); err == nil {
		t.Error("an unknown word was taken")
	}
}
