//go:build !sandbox_front && !sandbox_engine

package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
)

// snapshotBetween is the time between the two measurements of a snapshot, of which
// the share of a processor is found out; less where pictures come faster.
const snapshotBetween = time.Second

// A TopPicture is one picture of the view as JSON.
type TopPicture struct {
	Time      time.Time     `json:"time"`
	Sandboxes []TopPictured `json:"sandboxes"`
	Error     string        `json:"error,omitempty"` // why not all sandboxes are known
}

// A TopPictured is a sandbox of a [Picture]. Figures are those of a running or frozen
// sandbox.
type TopPictured struct {
	Name        string         `json:"name"`
	Provider    string         `json:"provider"`
	Kind        sandbox.Kind   `json:"kind"`
	Tenant      string         `json:"tenant"`
	Agent       string         `json:"agent"`
	Session     string         `json:"session"`
	ScopeKey    string         `json:"scopeKey"`
	Status      sandbox.Status `json:"status"`
	IdleSeconds int64          `json:"idleSeconds"`
	Figures     *TopFigures    `json:"figures,omitempty"`
	Error       string         `json:"error,omitempty"` // why there are no figures
}

// Figures are what a sandbox costs.
type TopFigures struct {
	CPUPercent  float64 `json:"cpuPercent"` // of one processor
	Memory      int64   `json:"memoryBytes"`
	MemoryLimit int64   `json:"memoryLimitBytes"` // 0 is unbounded
	PIDs        int64   `json:"pids"`
	PIDsLimit   int64   `json:"pidsLimit"`
	DiskRate    float64 `json:"diskBytesPerSecond"`
	NetRate     float64 `json:"netBytesPerSecond"`
	Command     string  `json:"command,omitempty"`
}

// Snapshot writes one picture to v.Out: a table without any control character, or
// JSON. Where the sandboxes could not all be listed, those that are known are
// written, and the error is returned.
func topSnapshot(ctx context.Context, s TopSource, v TopView) error {
	m := newTopModel(ctx, s, v)
	defer m.close()
	rows, listErr := topList(ctx, s, v)
	if listErr != nil && len(rows) == 0 {
		return listErr
	}
	m.adopt(rows)
	var live []manager.Row
	for _, b := range m.shown {
		if b.runs() {
			live = append(live, b.row)
		}
	}
	for i := range 2 {
		if i > 0 && len(live) > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(min(snapshotBetween, m.view.Every)):
			}
		}
		for k, stat := range measureAll(ctx, s, live) {
			m.boxes[k].take(stat, time.Now())
		}
	}
	m.arrange()
	var err error
	if v.JSON {
		err = v.WriteJSON(m.picture(listErr))
	} else {
		_, err = io.WriteString(v.Out, m.table())
	}
	if err != nil {
		return err
	}
	return listErr
}

func (m *topModel) picture(listErr error) TopPicture {
	out := TopPicture{Time: time.Now().UTC(), Sandboxes: []TopPictured{}}
	if listErr != nil {
		out.Error = listErr.Error()
	}
	for _, b := range m.shown {
		r := b.row
		p := TopPictured{
			Name: r.Name, Provider: r.Provider, Kind: r.Kind, Tenant: r.Tenant, Agent: r.Agent, Session: r.Session, ScopeKey: r.ScopeKey,
			Status: r.Status, IdleSeconds: r.IdleSeconds,
		}
		if b.runs() {
			p.Error = b.stat.Error
		}
		if b.measured() {
			cpu, _ := b.cpu.last()
			disk, _ := b.disk.last()
			net, _ := b.net.last()
			p.Figures = &TopFigures{
				CPUPercent: cpu, Memory: b.stat.Memory, MemoryLimit: b.stat.MemoryLimit, PIDs: b.stat.PIDs, PIDsLimit: b.stat.PIDsLimit,
				DiskRate: disk, NetRate: net, Command: b.stat.Command,
			}
		}
		out.Sandboxes = append(out.Sandboxes, p)
	}
	return out
}

// table is the list without sparklines, with columns as wide as what is in them.
func (m *topModel) table() string {
	all := topColumns()
	rows := [][]string{nil}
	for _, c := range all {
		rows[0] = append(rows[0], c.title)
	}
	for _, b := range m.shown {
		var cells []string
		for _, c := range all {
			cells = append(cells, termsafe.Line(c.text(b)))
		}
		rows = append(rows, cells)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s  %d of %d sandboxes  %s\n", termsafe.Line(m.view.Place), len(m.shown), len(m.boxes), time.Now().Format(time.DateTime))
	widths := make([]int, len(all))
	for _, cells := range rows {
		for i, c := range cells {
			widths[i] = max(widths[i], termsafe.Width(c))
		}
	}
	for _, cells := range rows {
		var parts []string
		for i, c := range cells {
			pad := strings.Repeat(" ", widths[i]-termsafe.Width(c))
			if all[i].value > 0 {
				parts = append(parts, pad+c)
			} else {
				parts = append(parts, c+pad)
			}
		}
		out.WriteString(strings.TrimRight(strings.Join(parts, "  "), " ") + "\n")
	}
	return out.String()
}
