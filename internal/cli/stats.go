package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/docker/go-units"
	ucli "github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
)

// WatchEvery is the time between two pictures of stats --watch and of top.
const WatchEvery = 2 * time.Second

func (a *app) statsCommand() *ucli.Command {
	var watch bool
	return &ucli.Command{
		Name:      "stats",
		Usage:     "show what running sandboxes cost",
		UsageText: "sandbox stats [flags]",
		Flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "watch", Usage: "show it anew every 2 seconds until interrupted", Destination: &watch},
		},
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return a.useManager(a.options(), func(m Manager) error {
				if watch {
					return a.watchStats(c.Context, m)
				}
				s, err := m.Stats(c.Context, a.globals.tenant.value)
				if err != nil {
					return err
				}
				return a.showStats(s, nil)
			})
		},
	}
}

// watchStats shows one picture after the other. On a terminal each takes the
// place of the one before.
func (a *app) watchStats(ctx context.Context, m Manager) error {
	show := func(s []manager.Stat, percent map[string]float64) error { return a.showStats(s, percent) }
	if isTerminal(a.Stdout) && !a.globals.json() {
		screen := &redrawn{out: a.Stdout, size: func() (int, int, error) { return term.GetSize(int(a.Stdout.Fd())) }}
		show = func(s []manager.Stat, percent map[string]float64) error {
			var b strings.Builder
			if err := a.statsTable(s, percent).write(&b); err != nil {
				return err
			}
			return screen.draw(b.String())
		}
	}
	tick := time.NewTicker(WatchEvery)
	defer tick.Stop()
	var before *sample
	for {
		s, err := m.Stats(ctx, a.globals.tenant.value)
		now := &sample{at: time.Now(), cpu: map[string]float64{}}
		for _, x := range s {
			now.cpu[x.Name] = x.CPUSeconds
		}
		if err == nil {
			err = show(s, now.since(before))
		}
		before = now
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return WatchEnd(ctx)
		case <-tick.C:
		}
	}
}

// WatchEnd is how a watch ends: an interrupt from the keyboard is the usual
// way and no failure.
func WatchEnd(ctx context.Context) error {
	var sig signalError
	if errors.As(context.Cause(ctx), &sig) && sig.number == syscall.SIGINT {
		return nil
	}
	return ctx.Err()
}

// A sample is the processor time of each sandbox at one moment.
type sample struct {
	at  time.Time
	cpu map[string]float64 // seconds by name
}

// since returns the share of one processor that each sandbox used since
// before, in percent; nil without a before.
func (s *sample) since(before *sample) map[string]float64 {
	if before == nil {
		return nil
	}
	out := map[string]float64{}
	wall := s.at.Sub(before.at).Seconds()
	for name, cpu := range s.cpu {
		if was, ok := before.cpu[name]; ok && cpu >= was && wall > 0 {
			out[name] = 100 * (cpu - was) / wall
		}
	}
	return out
}

type statsView struct {
	Sandboxes []manager.Stat `json:"sandboxes"`
}

// showStats writes one picture. percent is nil when nothing is known of it.
func (a *app) showStats(s []manager.Stat, percent map[string]float64) error {
	if a.globals.json() {
		return writeJSON(a.Stdout, statsView{notNil(s)})
	}
	return a.statsTable(s, percent).write(a.Stdout)
}

// A redrawn is text on a terminal that is drawn anew in its place. What stands
// above it on the screen, and what was scrolled away, stays.
type redrawn struct {
	out        io.Writer
	size       func() (columns, rows int, err error)
	drawn      int // lines on the screen
	cols, rows int // of the terminal when they were drawn
}

// draw puts text in the place of what was drawn before. Lines for which the
// terminal has no room are counted instead. Each line is replaced as a whole, so
// that none is empty in between.
func (r *redrawn) draw(text string) error {
	cols, rows, err := r.size()
	if err != nil || cols <= 0 || rows <= 0 {
		cols, rows = 80, 24
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if most := max(2, rows-1); len(lines) > most {
		left := len(lines) - most + 1
		lines = append(lines[:most-1:most-1], fmt.Sprintf("… and %d more; the terminal has no room for them", left))
	}
	var b strings.Builder
	switch {
	case r.drawn > 0 && (cols != r.cols || rows != r.rows):
		b.WriteString("\x1b[H\x1b[2J") // terminals break lines anew in ways of their own
	case r.drawn > 0:
		fmt.Fprintf(&b, "\x1b[%dA", r.drawn)
	}
	for _, l := range lines {
		b.WriteString("\r" + termsafe.Truncate(l, cols) + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	r.drawn, r.cols, r.rows = len(lines), cols, rows
	_, err = io.WriteString(r.out, b.String())
	return err
}

func (a *app) statsTable(stats []manager.Stat, percent map[string]float64) *table {
	t := a.newTable([]string{"NAME", "KEY", "STATUS", "CPU", "MEMORY", "PIDS", "DISK READ/WRITTEN", "WORKSPACE", "NET IN/OUT", "NOTE"},
		"NOTE", "DISK READ/WRITTEN", "NET IN/OUT", "STATUS", "WORKSPACE", "KEY")
	for _, s := range stats {
		if s.Error != "" { // zeros would look like figures
			folder := unmeasured
			if s.WorkspaceComplete || s.WorkspaceBytes > 0 {
				folder = bytesOf(s.WorkspaceBytes)
			}
			t.add(s.Name, s.ScopeKey, string(s.Status), unmeasured, unmeasured, unmeasured, unmeasured, folder, unmeasured, s.Error)
			continue
		}
		cpu := fmt.Sprintf("%.1fs", s.CPUSeconds)
		if p, ok := percent[s.Name]; ok {
			cpu = fmt.Sprintf("%.1f%%", p)
		}
		t.add(s.Name, s.ScopeKey, string(s.Status), cpu,
			bytesOf(s.Memory)+"/"+bound(s.MemoryLimit, bytesOf), fmt.Sprintf("%d/%s", s.PIDs, bound(s.PIDsLimit, func(n int64) string { return fmt.Sprint(n) })),
			bytesOf(s.DiskRead)+"/"+bytesOf(s.DiskWritten), bytesOf(s.WorkspaceBytes), bytesOf(s.NetReceived)+"/"+bytesOf(s.NetSent), s.Error)
	}
	return t
}

// unmeasured stands for a figure that is not known.
const unmeasured = "-"

func bytesOf(n int64) string { return units.BytesSize(float64(n)) }

// bound writes a limit, of which 0 is none.
func bound(n int64, write func(int64) string) string {
	if n <= 0 {
		return "unbounded"
	}
	return write(n)
}
