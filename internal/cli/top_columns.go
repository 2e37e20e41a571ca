//go:build !sandbox_front && !sandbox_engine

package cli

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// The styles. Their colours are of the 16 that the person at the terminal has
// chosen for it.
func stylePlain() lipgloss.Style  { return lipgloss.NewStyle() }
func styleFaint() lipgloss.Style  { return lipgloss.NewStyle().Faint(true) }
func styleStrong() lipgloss.Style { return lipgloss.NewStyle().Bold(true) }
func styleGreen() lipgloss.Style  { return lipgloss.NewStyle().Foreground(lipgloss.Green) }
func styleYellow() lipgloss.Style { return lipgloss.NewStyle().Foreground(lipgloss.Yellow) }
func styleRed() lipgloss.Style    { return lipgloss.NewStyle().Foreground(lipgloss.Red) }
func styleCyan() lipgloss.Style   { return lipgloss.NewStyle().Foreground(lipgloss.Cyan) }
func styleMarked() lipgloss.Style { return lipgloss.NewStyle().Reverse(true) }

// A topColumn is one of the list.
type topColumn struct {
	name  string // by which --sort and the line above the list name it
	title string
	width int // 0 is left out
	value int // of width, what the figure takes, right-aligned; the rest is its sparkline. 0 is text
	text  func(*topBox) string
	spark func(*topBox) *topSeries
	full  float64 // what fills the height of the sparkline, at least
	head  float64 // how much higher than its largest value the sparkline is, as a factor
	style func(*topBox) lipgloss.Style
	order func(a, b *topBox) int
}

// The columns, by their place.
const (
	topColKey = iota
	topColName
	topColState
	topColProvider
	topColTenant
	topColAgent
	topColCPU
	topColMemory
	topColPIDs
	topColDisk
	topColNet
	topColIdle
	topColCommand
)

// figureWidth is that of a figure beside its sparkline.
const topFigure = 4

// levelHead keeps the sparkline of a level that stays as it is from looking full.
const levelHead = 1.4

// topColumns returns all columns, without widths.
func topColumns() []topColumn {
	figure := func(of func(*topBox) *topSeries, write func(float64) string) func(*topBox) string {
		return func(b *topBox) string {
			v, ok := of(b).last()
			if !ok || !b.measured() {
				return "-"
			}
			return write(v)
		}
	}
	more := func(of func(*topBox) *topSeries) func(a, b *topBox) int {
		return func(a, b *topBox) int { return cmp.Compare(of(b).order(), of(a).order()) }
	}
	text := func(of func(*topBox) string) func(a, b *topBox) int {
		return func(a, b *topBox) int { return cmp.Compare(of(a), of(b)) }
	}
	cpu := func(b *topBox) *topSeries { return &b.cpu }
	memory := func(b *topBox) *topSeries { return &b.memory }
	pids := func(b *topBox) *topSeries { return &b.pids }
	disk := func(b *topBox) *topSeries { return &b.disk }
	net := func(b *topBox) *topSeries { return &b.net }
	crossed := func(b *topBox) string {
		if b.stat.NetReceived+b.stat.NetSent == 0 {
			return "-" // a sandbox whose bytes are counted has some
		}
		return figure(net, shortSize)(b)
	}
	tenant := func(b *topBox) string { return cmp.Or(b.row.Tenant, "-") }
	provider := func(b *topBox) string { return cmp.Or(b.row.Provider, "-") }
	agent := func(b *topBox) string { return cmp.Or(b.row.Agent, "-") }
	busy := func(b *topBox) lipgloss.Style {
		switch v := b.cpu.order(); {
		case v >= 90:
			return styleRed()
		case v >= 50:
			return styleYellow()
		}
		return stylePlain()
	}
	return []topColumn{
		topColKey:      {name: "key", title: "KEY", text: rowKeyText, order: text(rowKeyText)},
		topColName:     {name: "name", title: "NAME", text: func(b *topBox) string { return b.row.Name }, order: text(func(b *topBox) string { return b.row.Name })},
		topColState:    {name: "state", title: "STAT", text: func(b *topBox) string { return shortState(b.row.Status) }, style: rowStyle, order: func(a, b *topBox) int { return cmp.Compare(rowRank(a), rowRank(b)) }},
		topColProvider: {name: "provider", title: "PROVIDER", text: provider, order: text(provider)},
		topColTenant:   {name: "tenant", title: "TENANT", text: tenant, order: text(tenant)},
		topColAgent:    {name: "agent", title: "AGENT", text: agent, order: text(agent)},
		topColCPU:      {name: "cpu", title: "CPU%", value: topFigure, text: figure(cpu, shortPercent), spark: cpu, full: 100, style: busy, order: more(cpu)},
		topColMemory:   {name: "memory", title: "MEM", value: topFigure, text: figure(memory, shortSize), spark: memory, head: levelHead, order: more(memory)},
		topColPIDs:     {name: "pids", title: "PIDS", value: topFigure, text: figure(pids, func(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }), spark: pids, head: levelHead, order: more(pids)},
		topColDisk:     {name: "disk", title: "DISK/s", value: topFigure, text: figure(disk, shortSize), spark: disk, order: more(disk)},
		topColNet:      {name: "net", title: "NET/s", value: topFigure, text: crossed, spark: net, order: more(net)},
		topColIdle:     {name: "idle", title: "IDLE", text: rowIdle, order: func(a, b *topBox) int { return cmp.Compare(a.row.IdleSeconds, b.row.IdleSeconds) }},
		topColCommand: {name: "command", title: "COMMAND", text: func(b *topBox) string {
			if b.runs() && b.stat.Error != "" {
				return "not measured: " + b.stat.Error
			}
			return b.stat.Command
		}, order: text(func(b *topBox) string { return b.stat.Command })},
	}
}

// measures reports whether the column is sorted by what is measured.
func (c topColumn) measures() bool { return c.spark != nil || c.name == "command" }

// rowKeyText is what people know a sandbox by.
func rowKeyText(b *topBox) string {
	switch b.row.Kind {
	case sandbox.KindPool:
		return "(free slot)"
	case sandbox.KindBrowser:
		return cmp.Or(b.row.Session, b.row.ScopeKey, b.row.Name) + " (browser)"
	}
	if b.row.Scope == sandbox.ScopeSession && b.row.Session != "" {
		return b.row.Session
	}
	return cmp.Or(b.row.ScopeKey, b.row.Name)
}

// rowIdle is how long a sandbox was not used; one that is kept ready has no use.
func rowIdle(b *topBox) string {
	if b.row.Kind == sandbox.KindPool {
		return "-"
	}
	return age(b.row.IdleSeconds)
}

// rowRank puts what runs first.
func rowRank(b *topBox) int {
	return slices.Index([]sandbox.Status{sandbox.StatusRunning, sandbox.StatusPaused, sandbox.StatusStopped, sandbox.StatusOrphan, sandbox.StatusMissing, sandbox.StatusUnknown}, b.row.Status)
}

func rowStyle(b *topBox) lipgloss.Style {
	switch b.row.Status {
	case sandbox.StatusRunning:
		return styleGreen()
	case sandbox.StatusPaused:
		return styleCyan()
	case sandbox.StatusStopped:
		return styleFaint()
	}
	return styleYellow()
}

// topLayout gives the columns widths that make lines of at most width columns. A
// narrow line has fewer columns and shorter sparklines; what is left is for the
// command.
func topLayout(width int) []topColumn {
	all := topColumns()
	left := width
	set := func(i, w int) {
		if all[i].width == 0 && i != topColCommand {
			left-- // for the space behind it
		}
		left -= w - all[i].width
		all[i].width = w
	}
	sparks := func(w int) {
		for _, i := range []int{topColCPU, topColMemory, topColDisk, topColNet} {
			set(i, topFigure+1+w)
		}
		set(topColPIDs, topFigure+1+max(2, w-2))
	}
	set(topColKey, 13)
	set(topColState, 4)
	sparks(4)
	for _, more := range []struct {
		cost, command int
		add           func()
	}{
		{5, 12, func() { set(topColIdle, 4) }},
		{9, 14, func() { set(topColAgent, 8) }},
		{9, 14, func() { set(topColTenant, 8) }},
		{5, 20, func() { set(topColKey, 18) }},
		{10, 24, func() { sparks(6) }},
		{11, 24, func() { set(topColProvider, 10) }},
		{10, 28, func() { sparks(8) }},
		{29, 36, func() { set(topColName, 28) }},
		{10, 48, func() { sparks(10) }},
	} {
		if left-more.cost < more.command {
			break
		}
		more.add()
	}
	all[topColCommand].width = max(0, left)
	all = slices.DeleteFunc(all, func(c topColumn) bool { return c.width == 0 })
	for left < 0 && len(all) > 1 { // narrower than terminals are
		last := len(all) - 1
		left += all[last].width + 1
		all = all[:last]
	}
	return all
}

// topHeader is the line with the titles of the columns.
func topHeader(cols []topColumn, sorted string, reversed bool) string {
	var parts []string
	for _, c := range cols {
		title := c.title
		if c.name == sorted {
			arrow := "↓"
			if reversed {
				arrow = "↑"
			}
			title += arrow
		}
		if c.value > 0 {
			title = strings.Repeat(" ", max(0, c.value-termsafe.Width(c.title))) + title
		}
		parts = append(parts, termsafe.Pad(title, c.width))
	}
	return strings.Join(parts, " ")
}

// topLine is the row of a sandbox; without styles where that is selected, which is
// drawn in one.
func topLine(cols []topColumn, b *topBox, selected bool) string {
	var parts []string
	for _, c := range cols {
		style := stylePlain()
		if c.style != nil {
			style = c.style(b)
		}
		cell := c.text(b)
		if c.value > 0 {
			cell = termsafe.Truncate(cell, c.value)
			cell = strings.Repeat(" ", c.value-termsafe.Width(cell)) + cell
			bars := strings.Repeat(" ", c.width-c.value-1)
			if b.measured() {
				bars = c.spark(b).spark(c.width-c.value-1, c.full, c.head)
			}
			if selected {
				cell += " " + bars
			} else {
				cell = style.Render(cell) + " " + styleCyan().Render(bars)
			}
			parts = append(parts, cell)
			continue
		}
		cell = termsafe.Pad(cell, c.width)
		if !selected && c.style != nil {
			cell = style.Render(cell)
		}
		parts = append(parts, cell)
	}
	return strings.Join(parts, " ")
}
