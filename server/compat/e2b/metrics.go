package e2b

import (
	"context"
	"net/http"
	"time"

	"github.com/bulkhead-dev/sandbox/server/api"
)

// A metric is what a sandbox used at one time.
type metric struct {
	Timestamp     string  `json:"timestamp"`
	TimestampUnix int64   `json:"timestampUnix"`
	CPUCount      int     `json:"cpuCount"`
	CPUUsedPct    float64 `json:"cpuUsedPct"`
	MemUsed       int64   `json:"memUsed"`
	MemTotal      int64   `json:"memTotal"`
	MemCache      int64   `json:"memCache"`
	DiskUsed      int64   `json:"diskUsed"`
	DiskTotal     int64   `json:"diskTotal"`
}

// between is the time between the two measurements of the use of the processor.
const between = 100 * time.Millisecond

// measure returns what the sandbox uses now. The share of the processor is that of
// one processor between two measurements. What /v1 does not report is 0.
func (c *call) measure(ctx context.Context) (metric, error) {
	var first, then api.Usage
	if err := c.do(ctx, http.MethodGet, box(c.name, "/usage"), nil, nil, &first); err != nil {
		return metric{}, err
	}
	began := time.Now()
	select {
	case <-time.After(between):
	case <-ctx.Done():
		return metric{}, ctx.Err()
	}
	if err := c.do(ctx, http.MethodGet, box(c.name, "/usage"), nil, nil, &then); err != nil {
		return metric{}, err
	}
	now := time.Now()
	return metric{
		Timestamp: now.UTC().Format(time.RFC3339), TimestampUnix: now.Unix(),
		CPUUsedPct: max(0, then.CPUSeconds-first.CPUSeconds) / now.Sub(began).Seconds() * 100,
		MemUsed:    then.Memory, MemTotal: then.MemoryLimit, DiskUsed: then.WorkspaceBytes,
	}, nil
}

func (d *Translator) metrics(c *call) error {
	m, err := c.measure(c.r.Context())
	if err != nil {
		return err
	}
	write(c.w, http.StatusOK, []metric{m})
	return nil
}

// envdMetrics answers GET /metrics of the data plane.
func (d *Translator) envdMetrics(w http.ResponseWriter, r *http.Request) {
	c := callOf(r.Context())
	m, err := c.measure(r.Context())
	if err != nil {
		refuseEnvd(w, r, err)
		return
	}
	write(w, http.StatusOK, map[string]any{
		"ts": m.TimestampUnix, "cpu_count": m.CPUCount, "cpu_used_pct": m.CPUUsedPct,
		"mem_total": m.MemTotal, "mem_used": m.MemUsed, "mem_cache": m.MemCache, "disk_used": m.DiskUsed, "disk_total": m.DiskTotal,
	})
}
