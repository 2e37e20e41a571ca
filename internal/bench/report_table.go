//go:build linux

package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Text writes the whole report as Markdown that reads well on a terminal
// too. It ends with a line break.
func (r *Report) Text() string {
	var b strings.Builder
	b.WriteString(r.Machine.text() + "\n")
	fmt.Fprintf(&b, "One %s run of %.0f s. Times are in milliseconds; × engine is the plain engine's p50 over this p50, × direct that of the host without a sandbox.\n\n", r.Mode, r.Took)
	writeTable(&b, r.resultRows())
	if len(r.Memory) > 0 {
		b.WriteByte('\n')
		writeTable(&b, r.memoryRows())
	}
	if r.Idle != nil {
		b.WriteString("\n" + r.Idle.text())
	}
	b.WriteByte('\n')
	writeTable(&b, r.verdictRows())
	return b.String()
}

// Page writes the report for a page of the documentation: the machine, one
// table of all operations, and of the rest a line each. [Report.Text] has the
// other percentiles, the rates and each budget. It ends with a line break.
func (r *Report) Page() string {
	var b strings.Builder
	b.WriteString(r.Machine.text() + "\n")
	fmt.Fprintf(&b, "One %s run of %.0f s. Times are in milliseconds; × divides the p50 of the engine, or of the host where that is marked, by this p50.\n\n", r.Mode, r.Took)
	b.WriteString("| operation | way | p50 | p99 | × |\n|---|---|---|---|---|\n")
	last := ""
	for _, res := range r.Results {
		name := res.Op
		if name == last {
			name = ""
		}
		last = res.Op
		if res.N == 0 {
			fmt.Fprintf(&b, "| %s | %s | not supported | | |\n", name, res.Way)
			continue
		}
		ratio := ""
		switch {
		case res.Ratio > 0:
			ratio = digits(res.Ratio)
		case res.Direct > 0:
			ratio = digits(res.Direct) + " (host)"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, res.Way, digits(milliseconds(res.P50)), digits(milliseconds(res.P99)), ratio)
	}
	b.WriteByte('\n')
	for _, m := range r.Memory {
		fmt.Fprintf(&b, "Memory, %s: %s MiB (PSS) in %d processes.\n", m.State, digits(mib(m.PSS)), m.Processes)
	}
	if r.Idle != nil {
		b.WriteString(r.Idle.text())
	}
	var missed []string
	for _, v := range r.Verdicts {
		if v.Outcome != Met {
			missed = append(missed, fmt.Sprintf("%s: %s, %s (%s)", v.Budget, v.ValueText(), v.LimitText(), v.Outcome))
		}
	}
	fmt.Fprintf(&b, "\n%d of %d budgets are met.", len(r.Verdicts)-len(missed), len(r.Verdicts))
	if len(missed) > 0 {
		b.WriteString(" The others:\n")
		for _, m := range missed {
			b.WriteString("\n- " + m)
		}
	}
	b.WriteByte('\n')
	return b.String()
}

func (m reportMachine) text() string {
	return fmt.Sprintf("%d cores (%s), %.0f GiB of memory, Linux %s, Docker %s (API %s, %s, %s, cgroup %s), workspace on %s, %s; load before: %.1f.",
		m.Cores, m.Processor, float64(m.Memory)/(1<<30), m.Kernel, m.Engine, m.API, m.Storage, m.Runtime, m.Cgroup, m.Workspace, m.Go, m.Load)
}

func (r *Report) resultRows() [][]string {
	rows := [][]string{{"operation", "way", "n", "p50", "p95", "p99", "× engine", "× direct", "MB/s"}}
	last := ""
	for _, res := range r.Results {
		name := res.Op
		if name == last {
			name = ""
		}
		last = res.Op
		if res.N == 0 {
			rows = append(rows, []string{name, res.Way, "0", "not supported", "", "", "", "", ""})
			continue
		}
		row := []string{name, res.Way, strconv.Itoa(res.N), digits(milliseconds(res.P50)), digits(milliseconds(res.P95)), digits(milliseconds(res.P99)), "", "", ""}
		if res.Ratio > 0 {
			row[6] = digits(res.Ratio)
		}
		if res.Direct > 0 {
			row[7] = digits(res.Direct)
		}
		if res.Rate > 0 {
			row[8] = digits(res.Rate)
		}
		rows = append(rows, row)
	}
	return rows
}

func (r *Report) memoryRows() [][]string {
	rows := [][]string{{"memory of guest and stages, or as said, MiB", "processes", "RSS", "PSS"}}
	for _, m := range r.Memory {
		rows = append(rows, []string{m.State, strconv.Itoa(m.Processes), digits(mib(m.RSS)), digits(mib(m.PSS))})
	}
	return rows
}

func (r *Report) verdictRows() [][]string {
	rows := [][]string{{"budget", "limit", "measured", "verdict"}}
	for _, v := range r.Verdicts {
		outcome := v.Outcome
		if outcome != Met {
			outcome = "**" + outcome + "**"
		}
		rows = append(rows, []string{v.Budget, v.LimitText(), v.ValueText(), outcome})
	}
	return rows
}

// writeTable writes rows, the first of which is the head, with columns of
// even width. The cells hold no control characters and no bars.
func writeTable(b *strings.Builder, rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for n, row := range rows {
		for i, cell := range row {
			b.WriteString("| " + cell + strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+1))
		}
		b.WriteString("|\n")
		if n == 0 {
			for i := range row {
				b.WriteString("|" + strings.Repeat("-", width[i]+2))
			}
			b.WriteString("|\n")
		}
	}
}

// digits writes v with three digits that matter, and no more than three
// after the point: below a microsecond nothing here means anything.
func digits(v float64) string {
	switch {
	case v >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v >= 0.9995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
