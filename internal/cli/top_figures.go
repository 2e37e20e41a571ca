//go:build !sandbox_front && !sandbox_engine

package cli

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
)

// history is how many samples of a sandbox are kept.
const topHistory = 40

// A topBox is a sandbox with what is known of it.
type topBox struct {
	row    manager.Row
	stat   manager.Stat
	asked  time.Time // when it was last measured, whether or not that succeeded
	at     time.Time // of stat; zero: never
	cpu    topSeries // percent of one processor
	memory topSeries // bytes
	pids   topSeries
	disk   topSeries // bytes per second, read and written
	net    topSeries // bytes per second, received and sent
}

// rowKey identifies a sandbox. A session has one of each provider, with the same name.
func rowKey(r manager.Row) string { return r.Provider + "/" + r.Name }

// runs reports whether the sandbox has figures.
func (b *topBox) runs() bool {
	return b.row.ID != "" && (b.row.Status == sandbox.StatusRunning || b.row.Status == sandbox.StatusPaused)
}

// measured reports whether figures of the sandbox are known.
func (b *topBox) measured() bool { return b.runs() && !b.at.IsZero() && b.stat.Error == "" }

// take adds a measurement of the moment at.
func (b *topBox) take(s manager.Stat, at time.Time) {
	b.asked = at
	if s.Error != "" {
		b.stat.Error, b.stat.WorkspaceBytes = s.Error, s.WorkspaceBytes
		return
	}
	// A sandbox that was made anew counts from 0 again, and a local one whose
	// process has ended costs less than before.
	if past := at.Sub(b.at).Seconds(); !b.at.IsZero() && past > 0 {
		b.cpu.add(100 * grown(s.CPUSeconds-b.stat.CPUSeconds) / past)
		b.disk.add(grown(float64(s.DiskRead+s.DiskWritten-b.stat.DiskRead-b.stat.DiskWritten)) / past)
		b.net.add(grown(float64(s.NetReceived+s.NetSent-b.stat.NetReceived-b.stat.NetSent)) / past)
	}
	b.memory.add(float64(s.Memory))
	b.pids.add(float64(s.PIDs))
	b.stat, b.at = s, at
}

// rest forgets the figures of a sandbox that does not run.
func (b *topBox) rest() {
	b.stat, b.at = manager.Stat{WorkspaceBytes: b.stat.WorkspaceBytes}, time.Time{}
	b.cpu, b.memory, b.pids, b.disk, b.net = topSeries{}, topSeries{}, topSeries{}, topSeries{}, topSeries{}
}

func grown(d float64) float64 { return math.Max(d, 0) }

// A topSeries is the last samples of a figure, the oldest first.
type topSeries struct{ values []float64 }

func (s *topSeries) add(v float64) {
	if len(s.values) == topHistory {
		copy(s.values, s.values[1:])
		s.values = s.values[:topHistory-1]
	}
	s.values = append(s.values, v)
}

// last returns the newest sample, and whether there is one.
func (s *topSeries) last() (float64, bool) {
	if len(s.values) == 0 {
		return 0, false
	}
	return s.values[len(s.values)-1], true
}

// order is the newest sample for sorting; none is less than any.
func (s *topSeries) order() float64 {
	if v, ok := s.last(); ok {
		return v
	}
	return -1
}

// topBars are the bars of a sparkline, the lowest first.
func topBars() []rune { return []rune("▁▂▃▄▅▆▇█") }

// spark draws the newest samples in width columns. What fills the height is the
// largest of them, head times that where it is given, or full, whichever is most.
// Zero is the lowest bar.
func (s *topSeries) spark(width int, full, head float64) string {
	values := s.values[max(0, len(s.values)-width):]
	for _, v := range values {
		full = math.Max(full, v*math.Max(head, 1))
	}
	bars := topBars()
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", width-len(values)))
	for _, v := range values {
		i := 0
		if full > 0 && v > 0 {
			i = min(int(v/full*float64(len(bars))), len(bars)-1)
		}
		b.WriteRune(bars[i])
	}
	return b.String()
}

// shortSize writes a number of bytes in at most four columns, in units of 1024.
func shortSize(n float64) string {
	units := []string{"", "K", "M", "G", "T", "P"}
	i := 0
	for n >= 1000 && i < len(units)-1 {
		n /= 1024
		i++
	}
	switch {
	case i == 0:
		return fmt.Sprintf("%.0f", n)
	case n < 9.95:
		return fmt.Sprintf("%.1f%s", n, units[i])
	}
	return fmt.Sprintf("%.0f%s", n, units[i])
}

// shortPercent writes a share of one processor in at most four columns for up to 99
// processors.
func shortPercent(v float64) string {
	if v < 99.95 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// shortState is a state in at most four columns.
func shortState(s sandbox.Status) string {
	switch s {
	case sandbox.StatusRunning:
		return "run"
	case sandbox.StatusPaused:
		return "froz"
	case sandbox.StatusStopped:
		return "stop"
	case sandbox.StatusMissing:
		return "miss"
	case sandbox.StatusOrphan:
		return "orph"
	}
	return "?"
}
