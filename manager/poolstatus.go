package manager

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/registry/pool"
)

// A PoolStatus says what the pool holds and what became of it lately.
type PoolStatus struct {
	Kinds  []PoolKind  `json:"kinds" doc:"What is kept, one for each kind of sandbox that agents have"`
	Claims []PoolClaim `json:"claims" doc:"Sandboxes that were made lately, the newest first"`
}

// A PoolKind is what is kept of one kind of sandbox.
type PoolKind struct {
	Agents   []string `json:"agents" doc:"Whose sandboxes it can become"`
	Provider string   `json:"provider"`
	Image    string   `json:"image"`
	From     string   `json:"from,omitempty" doc:"The id of the checkpoint that they hold"`
	Size     int64    `json:"size" doc:"pool.size"`
	Max      int64    `json:"max" doc:"To how many demand raises it"`
	Wanted   int      `json:"wanted" doc:"How many are kept now"`
	Bound    string   `json:"bound,omitempty" doc:"What keeps it from being as many as demand wants"`
	Ready    int      `json:"ready" doc:"Can be claimed"`
	Starting int      `json:"starting" doc:"Are being made or claimed"`
	Failed   string   `json:"failed,omitempty" doc:"Why the last one could not be made, where this program keeps the pool"`

	RetryAt time.Time `json:"retryAt,omitzero" doc:"Before which none is made after a failure"`
}

// A PoolClaim is a sandbox that was made while a pool was kept.
type PoolClaim struct {
	Time    time.Time    `json:"time"`
	Sandbox string       `json:"sandbox"`
	Tenant  string       `json:"tenant"`
	Agent   string       `json:"agent"`
	Claimed bool         `json:"claimed" doc:"It was ready"`
	TookMS  int64        `json:"tookMs" doc:"The claim, or making it, in milliseconds"`
	Miss    *pool.Miss   `json:"miss,omitempty" doc:"Why it was made"`
	Code    sandbox.Code `json:"errorCode,omitempty" doc:"It could not be made"`
}

// maxPoolClaims bounds the claims that a PoolStatus lists.
const maxPoolClaims = 100

// PoolStatus says what the pool holds, for all tenants, without changing
// anything. Where settings keep none it is empty but for what was claimed before.
func (m *Manager) PoolStatus(ctx context.Context) (PoolStatus, error) {
	out := PoolStatus{Kinds: []PoolKind{}, Claims: []PoolClaim{}}
	wants, _, err := newSnapshot(m).m.pool.findPoolWants(ctx, m.current())
	if err != nil {
		return out, err
	}
	records, _, err := m.lister.readRecords(ctx) // without claimed slots
	if err != nil {
		return out, err
	}
	attempts, err := m.records.Attempts()
	if err != nil {
		return out, err
	}
	at := map[string][]time.Time{}
	for _, a := range attempts {
		if a.Miss == nil || a.Miss.Reason.Wanted() {
			at[a.Shape] = append(at[a.Shape], a.Time)
		}
	}
	for shape, w := range wants {
		k := PoolKind{Agents: slices.Sorted(slices.Values(w.agents)), Provider: w.provider.Name(), Image: w.res.Docker.Image, Size: int64(w.demand.Size), Max: int64(max(w.demand.Size, w.demand.Max))}
		k.Wanted, k.Bound = w.demand.Kept(at[shape], m.now())
		for _, r := range records {
			if r.Kind != sandbox.KindPool || r.Shape != shape || r.Provider != k.Provider {
				continue
			}
			info, err := w.provider.Inspect(ctx, r.Name)
			switch {
			case m.pool.busySlot(r.Provider, r.Name):
				k.Starting++
			case err == nil && info.Status == sandbox.StatusRunning:
				k.Ready++
			case err != nil && !sandbox.IsNotFound(err):
				return out, err
			}
		}
		k.Failed, k.RetryAt = m.pool.trouble(shape)
		if w.from != nil {
			k.From = w.from.ID
		}
		if w.lacks != "" {
			k.Failed = w.lacks
		}
		out.Kinds = append(out.Kinds, k)
	}
	slices.SortFunc(out.Kinds, func(a, b PoolKind) int {
		return cmp.Or(slices.Compare(a.Agents, b.Agents), cmp.Compare(a.Provider, b.Provider))
	})
	for _, a := range slices.Backward(attempts) {
		if len(out.Claims) == maxPoolClaims {
			break
		}
		out.Claims = append(out.Claims, PoolClaim{a.Time, a.Sandbox, a.Tenant, a.Agent, a.Miss == nil, a.Took.Milliseconds(), a.Miss, a.Code})
	}
	return out, nil
}

// trouble says why slots of the shape, or of any, could not be made, and until
// when none is.
func (s *slots) trouble(shape string) (why string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range []string{shape, ""} {
		if f, ok := s.failing[key]; ok {
			return f.err.Error(), f.until
		}
	}
	return "", time.Time{}
}
