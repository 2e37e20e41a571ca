package manager

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// A usageTeller is a provider that tells the usage of a sandbox by name,
// without opening it: asking must neither start nor thaw anything.
type usageTeller interface {
	UsageOf(ctx context.Context, name string) (sandbox.Usage, error)
}

// A commander is a provider that knows which command runs in a sandbox, without
// opening it.
type commander interface {
	CommandOf(ctx context.Context, name string) (string, error)
}

// A Stat is the usage of one running sandbox.
type Stat struct {
	Name           string         `json:"name"`
	Provider       string         `json:"provider"`
	Tenant         string         `json:"tenant"`
	ScopeKey       string         `json:"scopeKey"`
	Status         sandbox.Status `json:"status"`
	CPUSeconds     float64        `json:"cpuSeconds"`
	Memory         int64          `json:"memoryBytes"`
	MemoryLimit    int64          `json:"memoryLimitBytes"`
	PIDs           int64          `json:"pids"`
	PIDsLimit      int64          `json:"pidsLimit"`
	DiskRead       int64          `json:"diskReadBytes"`
	DiskWritten    int64          `json:"diskWrittenBytes"`
	WorkspaceBytes int64          `json:"workspaceBytes"`
	// WorkspaceComplete is false when the workspace holds more than may be
	// walked, so that WorkspaceBytes is a lower bound.
	WorkspaceComplete bool  `json:"workspaceComplete"`
	NetReceived       int64 `json:"netReceivedBytes"`
	NetSent           int64 `json:"netSentBytes"`
	// Command is the command line of what runs, of several commands the newest.
	// Only [Manager.Measure] fills it in. Code inside controls it.
	Command string `json:"command,omitempty"`
	Error   string `json:"error,omitempty"` // why nothing but the workspace was measured
}

// statsAtOnce bounds how many sandboxes are asked at the same time.
const statsAtOnce = 8

// Stats measures every running or paused sandbox of this instance. A
// sandbox that cannot be measured has its reason in Error.
func (m *Manager) Stats(ctx context.Context, tenant string) ([]Stat, error) {
	l, err := m.List(ctx, ListOptions{Tenant: tenant})
	if err != nil {
		return nil, err
	}
	var g errgroup.Group
	g.SetLimit(statsAtOnce)
	var mu sync.Mutex
	out := []Stat{}
	for _, r := range append(l.Containers, l.Browsers...) {
		if r.ID == "" {
			continue
		}
		g.Go(func() error {
			s := m.lister.stat(ctx, r)
			mu.Lock()
			defer mu.Unlock()
			out = append(out, s)
			return nil
		})
	}
	g.Wait()
	slices.SortFunc(out, func(a, b Stat) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

func (ls *lister) stat(ctx context.Context, r Row) Stat {
	s := Stat{Name: r.Name, Provider: r.Provider, Tenant: r.Tenant, ScopeKey: r.ScopeKey, Status: r.Status}
	p, err := ls.m.providers.Get(r.Provider)
	if err != nil || !detached(p) { // the folder of a sandbox elsewhere is empty
		if du, err := workspace.DiskUsage(ctx, r.Workspace); err == nil {
			s.WorkspaceBytes, s.WorkspaceComplete = du.Bytes, du.Complete
		}
	}
	if err != nil {
		s.Error = err.Error()
		return s
	}
	ls.figures(ctx, &s)
	return s
}

// figures measures a sandbox, but not its workspace.
func (ls *lister) figures(ctx context.Context, s *Stat) {
	p, err := ls.m.providers.Get(s.Provider)
	if err != nil {
		s.Error = err.Error()
		return
	}
	t, ok := p.(usageTeller)
	if !ok {
		s.Error = "not measured: the provider " + s.Provider + " has no figures of its sandboxes"
		return
	}
	u, err := t.UsageOf(ctx, s.Name)
	if err != nil {
		s.Error = err.Error()
		return
	}
	s.CPUSeconds, s.Memory, s.MemoryLimit = u.CPU.Seconds(), u.Memory, u.MemoryLimit
	s.PIDs, s.PIDsLimit = u.PIDs, u.PIDsLimit
	through := ls.m.traffic.of(trafficKey(s.Provider, s.Name))
	s.DiskRead, s.DiskWritten, s.NetReceived, s.NetSent = u.DiskRead, u.DiskWritten, u.NetReceived+through.in, u.NetSent+through.out
}
