package config

import (
	"reflect"

	"github.com/bulkhead-dev/sandbox/grant"
)

// Budgets is [BudgetsSettings] with every layer applied.
type Budgets struct {
	Session grant.Budget `json:"session"`
	Agent   grant.Budget `json:"agent"`
	Tenant  grant.Budget `json:"tenant"`
}

// Evidence is [EvidenceSettings] with every layer applied.
type Evidence struct {
	Sync            string `json:"sync"`
	CheckpointEvery int64  `json:"checkpointEvery"`
	Commands        bool   `json:"commands"`
}

// RecordsCommands reports whether commands that run without a grant are
// recorded: requireEvidence asks for it too.
func (r Resolved) RecordsCommands() bool { return r.Evidence.Commands || r.RequireEvidence }

// unbounded is what holds where no layer says anything. It is no part of the
// lowest layer, because to note where its 21 numbers come from would make
// [Resolve] a sixth slower for every command.
func unbounded() Budgets {
	const no = grant.Unlimited
	b := grant.Budget{Calls: no, BytesIn: no, BytesOut: no, CPUMs: no, GPUMs: no, Files: no, WallMs: no}
	return Budgets{Session: b, Agent: b, Tenant: b}
}

// budgetOf is a layer's account with the bounds of b.
func budgetOf(b grant.Budget) *BudgetSettings {
	return &BudgetSettings{
		Calls: &b.Calls, BytesIn: new(Volume(b.BytesIn)), BytesOut: new(Volume(b.BytesOut)),
		CPUMs: &b.CPUMs, GPUMs: &b.GPUMs, Files: &b.Files, WallMs: &b.WallMs,
	}
}

// boundTenant removes those bounds of a tenant from the layers that are wider
// than what a weaker layer says, and reports each as a Notice. A tenant's
// account serves all its agents, so one agent's entry must not widen it beyond
// the settings for all; and the strictest bound is in force for every agent.
func boundTenant(layers []layer) ([]layer, []Notice) {
	var notices []Notice
	least := map[string]int64{}
	var out []layer
	for i, l := range layers {
		if l.settings == nil || l.settings.Budgets == nil || l.settings.Budgets.Tenant == nil {
			continue
		}
		kept, wide := narrowed(*l.settings.Budgets.Tenant, least)
		if len(wide) == 0 {
			continue
		}
		for _, name := range wide {
			path := "budgets.tenant." + name
			notices = append(notices, Notice{
				Path: l.path + "." + path, Value: valueAt(l.settings, path),
				Why: "the budget of a tenant is for all its agents, and the settings below say less, which holds",
			})
		}
		if out == nil {
			out = append(out, layers...)
		}
		masked, budgets := *l.settings, *l.settings.Budgets
		budgets.Tenant, masked.Budgets = &kept, &budgets
		out[i].settings = &masked
	}
	if out == nil {
		return layers, nil
	}
	return out, notices
}

// narrowed returns b without the bounds that are wider than those in least,
// whose names are wide, and notes the others there.
func narrowed(b BudgetSettings, least map[string]int64) (kept BudgetSettings, wide []string) {
	v := reflect.ValueOf(&b).Elem()
	for i := range v.NumField() {
		if v.Field(i).IsNil() {
			continue
		}
		name, n := jsonName(v.Type().Field(i)), v.Field(i).Elem().Int()
		bound, bounded := least[name]
		switch {
		case bounded && bound >= 0 && (n < 0 || n > bound):
			v.Field(i).SetZero()
			wide = append(wide, name)
		default:
			least[name] = n
		}
	}
	return b, wide
}

// SessionBudget bounds what each session may use in all; [grant.Unlimited] is
// no bound.
func (b *Builder) SessionBudget(most grant.Budget) *Builder {
	present(&b.layer.Budgets).Session = budgetOf(most)
	return b
}

// AgentBudget bounds what each agent of a tenant may use in all.
func (b *Builder) AgentBudget(most grant.Budget) *Builder {
	present(&b.layer.Budgets).Agent = budgetOf(most)
	return b
}

// TenantBudget bounds what each tenant may use in all. In the layer of an agent
// it can only be less than for all.
func (b *Builder) TenantBudget(most grant.Budget) *Builder {
	present(&b.layer.Budgets).Tenant = budgetOf(most)
	return b
}

// RequireEvidence says whether nothing is done before it is recorded.
func (b *Builder) RequireEvidence(on bool) *Builder { b.layer.RequireEvidence = &on; return b }

// EvidenceSync says when records are brought to the disk: [SyncOff],
// [SyncCheckpoint] or [SyncAlways].
func (b *Builder) EvidenceSync(when string) *Builder {
	present(&b.layer.Evidence).Sync = &when
	return b
}

// RecordCommands says whether commands that run without a grant are recorded.
func (b *Builder) RecordCommands(on bool) *Builder {
	present(&b.layer.Evidence).Commands = &on
	return b
}
