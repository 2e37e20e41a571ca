//go:build !sandbox_front && !sandbox_engine

package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/journal"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
)

// The sections of the details, by their place.
const (
	secOverview = iota
	secMounts
	secEgress
	secViolations
	secEvidence
)

// topSections are their titles.
func topSections() []string {
	return []string{"Overview", "Mounts", "Egress", "Violations", "Evidence"}
}

// explainEvery is the least time between two explanations of one sandbox. They
// change with the settings, and each costs a daemon more than a list of records.
const topExplainEvery = 10 * time.Second

// topDetails is the pane with what is known of the selected sandbox.
type topDetails struct {
	open    bool
	section int
	scroll  int

	fetching bool
	of       topDetailsKey // that lines are about
	at       time.Time
	lines    []string // safe to show, of any width
}

// A topDetailsKey says what a fetch was for.
type topDetailsKey struct {
	box     string
	section int
	width   int
}

// A topDetailsMsg has the lines of a section.
type topDetailsMsg struct {
	of    topDetailsKey
	lines []string
}

// page is how many lines of the section are on the screen.
func (d *topDetails) page(m *topModel) int { return max(1, m.pane()-2) }

// turn shows the section n further.
func (d *topDetails) turn(m *topModel, n int) {
	if d.open {
		d.show(m, (d.section+n+len(topSections()))%len(topSections()))
	}
}

// show opens the pane with a section.
func (d *topDetails) show(m *topModel, section int) {
	d.open, d.section, d.scroll = true, section, 0
	m.move(0)
}

// wanted is what the pane is to show.
func (d *topDetails) wanted(m *topModel) topDetailsKey {
	k := topDetailsKey{box: m.selected, section: d.section}
	if d.section <= secMounts {
		k.width = m.width
	}
	return k
}

// fetch asks for the section that is on the screen, unless it is fresh. One fetch
// is under way at a time, so that moving through rows asks no more than that.
func (d *topDetails) fetch(m *topModel) tea.Cmd {
	b := m.current()
	if !d.open || d.fetching || b == nil {
		return nil
	}
	want, every := d.wanted(m), m.view.Every
	if d.section <= secMounts {
		every = max(every, topExplainEvery)
	}
	if want == d.of && m.now().Sub(d.at) < every*9/10 {
		return nil
	}
	d.fetching = true
	row := b.row
	return m.guarded(func() tea.Msg {
		ctx, done := context.WithTimeout(m.ctx, topQueryWithin)
		defer done()
		return topDetailsMsg{want, m.section(ctx, row, want)}
	})
}

// take takes a section. When another one is wanted by now, it is fetched.
func (d *topDetails) take(m *topModel, msg topDetailsMsg) tea.Cmd {
	d.fetching = false
	if msg.of.box != d.of.box {
		d.scroll = 0
	}
	d.of, d.at, d.lines = msg.of, m.now(), msg.lines
	if d.of != d.wanted(m) {
		return d.fetch(m)
	}
	return nil
}

// section returns the lines of a section about the sandbox of row.
func (m *topModel) section(ctx context.Context, row manager.Row, k topDetailsKey) []string {
	switch k.section {
	case secOverview, secMounts:
		return m.explained(ctx, row, k)
	case secViolations:
		f := violation.Filter{Tenant: row.Tenant, Sandbox: row.Name, Limit: topRecordsMost}
		return topRecords(m.source.Violations(ctx, f), "Nothing was stopped.", func(r violation.Record) string {
			return clockTime(r.Time) + "  " + joinWords(m.view.Words.Violation(r))
		})
	}
	f := evidence.Filter{Tenant: row.Tenant, Sandbox: row.Name, Limit: topRecordsMost}
	none := "Nothing was recorded. evidence.commands of the settings says what is."
	if k.section == secEgress {
		f.Type, none = evidence.TypeEgress, "The egress proxy has decided nothing: no program has tried to reach a host through it."
	}
	return topRecords(m.source.Evidence(ctx, f), none, func(r evidence.Record) string {
		return clockTime(r.Time) + "  " + joinWords(m.view.Words.Evidence(r))
	})
}

// explained returns what the list and explain say of a sandbox.
func (m *topModel) explained(ctx context.Context, row manager.Row, k topDetailsKey) []string {
	e, err := m.source.Explain(ctx, row.Who(), layerOfRow(row), manager.Questions{})
	var lines []string
	if k.section == secOverview {
		lines = append(lines, rowFacts(row)...)
	}
	switch {
	case err != nil:
		lines = append(lines, "", "It cannot be explained: "+topSentence(err))
	case k.section == secOverview:
		lines = append(lines, "")
		lines = append(lines, strings.Split(strings.Trim(m.view.Words.Explanation(e, k.width), "\n"), "\n")...)
	default:
		lines = append(lines, strings.Split(strings.Trim(m.view.Words.Mounts(e, k.width), "\n"), "\n")...)
	}
	return safeLines(lines)
}

// rowFacts are what the list says of a sandbox.
func rowFacts(r manager.Row) []string {
	var out []string
	add := func(name, value string) {
		if value != "" {
			out = append(out, termsafe.Pad(name, 16)+termsafe.Line(value))
		}
	}
	add("name", r.Name)
	add("provider", r.Provider)
	add("state", fmt.Sprintf("%s, made %s ago, last used %s ago", r.Status, age(r.AgeSeconds), age(r.IdleSeconds)))
	if !r.ExpiresAt.IsZero() {
		add("expires", r.ExpiresAt.Local().Format(time.DateTime))
	}
	var labels []string
	for name, value := range r.Labels {
		labels = append(labels, name+"="+value)
	}
	slices.Sort(labels)
	add("labels", strings.Join(labels, " "))
	add("preset", r.Preset)
	return out
}

// topRecords returns a line for each record, the newest first.
func topRecords[R any](all iter.Seq2[R, error], none string, write func(R) string) []string {
	var lines []string
	damaged := 0
	for r, err := range all {
		var damage *journal.Damage
		switch {
		case errors.As(err, &damage):
			damaged++
		case err != nil:
			lines = append(lines, "The records cannot be read: "+topSentence(err))
		default:
			lines = append(lines, write(r))
		}
	}
	if damaged > 0 {
		lines = append(lines, fmt.Sprintf("%d places of the records cannot be read; see sandbox evidence verify", damaged))
	}
	if len(lines) == 0 {
		lines = []string{none}
	}
	return safeLines(lines)
}

func clockTime(t time.Time) string { return t.Local().Format("15:04:05") }

// joinWords joins the cells that are not empty.
func joinWords(cells []string) string {
	return strings.Join(slices.DeleteFunc(cells, func(c string) bool { return c == "" }), "  ")
}

// safeLines makes each line safe to show.
func safeLines(lines []string) []string {
	for i, l := range lines {
		lines[i] = termsafe.Line(l)
	}
	return lines
}
