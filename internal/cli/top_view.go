//go:build !sandbox_front && !sandbox_engine

package cli

import (
	"cmp"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// frame is how many lines beside the rows the list takes: two above its titles,
// the titles, and the keys.
const topFrame = 4

// least is the height below which there are no details.
const topLeast = 12

// pane is how many lines the details take, with their titles; 0 where they are
// closed or have no room.
func (m *topModel) pane() int {
	if !m.details.open || m.height < topLeast {
		return 0
	}
	return (m.height - topFrame) * 3 / 5
}

// rows is how many sandboxes are on the screen.
func (m *topModel) rows() int { return m.height - topFrame - m.pane() }

// View implements [tea.Model]. It returns exactly as many lines as the terminal
// has, of at most its width.
func (m *topModel) View() tea.View {
	var lines []string
	switch m.mode {
	case topFollows:
		lines = m.logScreen()
	case topHelps:
		lines = m.helpScreen()
	case topChooses:
		lines = m.choiceScreen()
	default:
		lines = m.listScreen()
	}
	lines = m.fit(lines)
	for i, l := range lines {
		if lipgloss.Width(l) > m.width {
			lines[i] = lipgloss.NewStyle().MaxWidth(m.width).Render(l)
		}
	}
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen = true
	return v
}

// fit makes the lines as many as the terminal has, the last of them the keys.
func (m *topModel) fit(lines []string) []string {
	for len(lines) < m.height {
		lines = append(lines[:len(lines)-1], "", lines[len(lines)-1])
	}
	if len(lines) > m.height {
		lines = append(lines[:m.height-1:m.height-1], lines[len(lines)-1])
	}
	return lines
}

func (m *topModel) listScreen() []string {
	cols := topLayout(m.width)
	lines := []string{m.summary(), m.status(), styleStrong().Render(termsafe.Truncate(topHeader(cols, m.sorted, m.reversed), m.width))}
	n := max(1, m.rows())
	for i := range n {
		at := m.offset + i
		switch {
		case at < len(m.shown):
			lines = append(lines, m.row(cols, m.shown[at]))
		case i == 0:
			lines = append(lines, styleFaint().Render(termsafe.Truncate(m.empty(), m.width)))
		default:
			lines = append(lines, "")
		}
	}
	if m.pane() > 0 {
		lines = append(lines, m.paneLines()...)
	}
	return append(lines, m.keys())
}

// row is the line of a sandbox.
func (m *topModel) row(cols []topColumn, b *topBox) string {
	if rowKey(b.row) == m.selected {
		return styleMarked().Render(termsafe.Pad(topLine(cols, b, true), m.width))
	}
	return topLine(cols, b, false)
}

// empty says why there is no row.
func (m *topModel) empty() string {
	switch {
	case m.listed.IsZero() && m.trouble == "":
		return "asking …"
	case m.listed.IsZero():
		return "not known"
	case len(m.boxes) > 0:
		return fmt.Sprintf("none of %d fits the filters; esc takes them away", len(m.boxes))
	}
	return "there is none; sandbox run makes one"
}

// summary is the first line: where the sandboxes are, and what they cost in all.
func (m *topModel) summary() string {
	running, paused := 0, 0
	var cpu, memory float64
	partly := false
	for _, b := range m.boxes {
		switch b.row.Status {
		case sandbox.StatusRunning:
			running++
		case sandbox.StatusPaused:
			paused++
		}
		if !b.runs() {
			continue
		}
		partly = partly || !b.measured()
		c, _ := b.cpu.last()
		mem, _ := b.memory.last()
		cpu, memory = cpu+c, memory+mem
	}
	least := ""
	if partly { // what is off the screen is not measured
		least = "≥"
	}
	left := "sandbox top  " + m.view.Place
	right := fmt.Sprintf("%d of %d running", running, len(m.boxes))
	if paused > 0 {
		right += fmt.Sprintf(", %d frozen", paused)
	}
	right += fmt.Sprintf("  CPU %s%s%%  MEM %s%s  %s", least, shortPercent(cpu), least, shortSize(memory), m.now().Format("15:04:05"))
	right = termsafe.Truncate(right, m.width)
	room := m.width - termsafe.Width(right) - 2
	if room < 8 {
		return styleStrong().Render(termsafe.Pad(right, m.width))
	}
	return styleStrong().Render(termsafe.Pad(left, room)) + "  " + right
}

// status is the second line: what is asked, else what has failed, else what the
// last key has done, else how rows are chosen.
func (m *topModel) status() string {
	switch {
	case m.mode == topAsks:
		const answer = " [y/N]"
		return styleYellow().Render(termsafe.Truncate(m.question.text, max(1, m.width-len(answer))) + answer)
	case m.mode == topTypes:
		value := termsafe.Line(m.prompt.value)
		for termsafe.Width(value) > max(1, m.width-termsafe.Width(m.prompt.label)-4) {
			value = string([]rune(value)[1:]) // the end is what is typed
		}
		return styleStrong().Render(m.prompt.label+":") + " " + value + "█"
	case m.trouble != "":
		text := m.trouble
		if !m.listed.IsZero() {
			text = "as of " + m.listed.Format("15:04:05") + ": " + text
		}
		return styleRed().Render(termsafe.Truncate(text, m.width))
	case m.note != "" && m.noteBad:
		return styleRed().Render(termsafe.Truncate(m.note, m.width))
	case m.note != "":
		return styleGreen().Render(termsafe.Truncate(m.note, m.width))
	}
	parts := []string{"sorted by " + cmp.Or(m.sorted, "last use")}
	if m.reversed {
		parts[0] += ", reversed"
	}
	for _, f := range []struct{ name, value string }{{"tenant", m.tenant}, {"agent", m.agent}, {"filter", m.text}} {
		if f.value != "" {
			parts = append(parts, f.name+" "+f.value)
		}
	}
	if len(m.shown) < len(m.boxes) {
		parts = append(parts, fmt.Sprintf("%d of %d shown", len(m.shown), len(m.boxes)))
	}
	return styleFaint().Render(termsafe.Truncate(strings.Join(parts, " · "), m.width))
}

// paneLines are those of the details.
func (m *topModel) paneLines() []string {
	n := m.pane()
	b := m.current()
	var tabs []string
	plainTabs := 0
	for i, title := range topSections() {
		text := fmt.Sprintf("%d %s", i+1, title)
		plainTabs += termsafe.Width(text) + 2
		if i == m.details.section {
			tabs = append(tabs, styleMarked().Render(text))
		} else {
			tabs = append(tabs, styleFaint().Render(text))
		}
	}
	rule := ""
	if room := m.width - plainTabs; room > 0 {
		rule = styleFaint().Render(strings.Repeat("─", room))
	}
	lines := []string{strings.Join(tabs, "  ") + "  " + rule}
	title := "no sandbox is selected"
	if b != nil {
		title = m.subject(b)
	}
	lines = append(lines, styleStrong().Render(termsafe.Truncate(title, m.width)))
	d := &m.details
	switch {
	case b == nil:
	case d.of.box != m.selected || d.of.section != d.section:
		lines = append(lines, styleFaint().Render("asking …"))
	default:
		room := n - len(lines)
		d.scroll = max(0, min(d.scroll, len(d.lines)-room))
		for _, l := range d.lines[d.scroll:min(len(d.lines), d.scroll+room)] {
			lines = append(lines, termsafe.Truncate(l, m.width))
		}
	}
	for len(lines) < n {
		lines = append(lines, "")
	}
	return lines[:n]
}

// subject is the line about the selected sandbox.
func (m *topModel) subject(b *topBox) string {
	text := b.row.Name + "  " + string(b.row.Status)
	if b.measured() {
		text += "  mem " + ofLimit(b.stat.Memory, b.stat.MemoryLimit, shortSize) + "  pids " + ofLimit(b.stat.PIDs, b.stat.PIDsLimit, func(n float64) string { return fmt.Sprintf("%.0f", n) })
		for _, f := range []struct {
			name string
			n    int64
		}{{"read", b.stat.DiskRead}, {"written", b.stat.DiskWritten}, {"received", b.stat.NetReceived}, {"sent", b.stat.NetSent}} {
			if f.n > 0 {
				text += "  " + f.name + " " + shortSize(float64(f.n))
			}
		}
	}
	if b.stat.WorkspaceBytes > 0 {
		text += "  files " + shortSize(float64(b.stat.WorkspaceBytes))
	}
	if what := m.doing[m.selected]; what != "" {
		text += "  (" + what + " …)"
	}
	return text
}

// ofLimit writes a figure with its bound; a bound of 0 is none.
func ofLimit(n, most int64, write func(float64) string) string {
	if most <= 0 {
		return write(float64(n))
	}
	return write(float64(n)) + "/" + write(float64(most))
}

// A keyHelp is a key and what it does, the most important ones first.
type keyHelp struct{ key, does string }

// topListHelp are the keys while the list is shown.
func topListHelp() []keyHelp {
	return []keyHelp{
		{"q", "quit"}, {"?", "help"}, {"enter", "details"}, {"s", "shell"}, {"f", "freeze"}, {"r", "recreate"}, {"x", "remove"}, {"l", "log"}, {"/", "filter"}, {"o", "sort"},
		{"t", "tenant"}, {"a", "agent"}, {"i", "reverse"},
	}
}

// keys is the line of keys: as many as there is room for.
func (m *topModel) keys() string {
	switch m.mode {
	case topTypes:
		return m.helps([]keyHelp{{"enter", "take it"}, {"esc", "leave it"}, {"ctrl+u", "clear"}})
	case topAsks:
		return m.helps([]keyHelp{{"y", "yes"}, {"any other key", "no"}})
	case topWaits:
		return m.helps([]keyHelp{{"esc", "leave it"}})
	case topChooses:
		return m.helps([]keyHelp{{"enter", "follow"}, {"↑↓", "choose"}, {"esc", "back"}})
	case topFollows:
		return m.helps([]keyHelp{{"q", "back"}, {"↑↓ pgup pgdn", "scroll"}, {"end", "newest"}})
	case topHelps:
		return m.helps([]keyHelp{{"any key", "back"}})
	}
	if m.pane() > 0 {
		return m.helps([]keyHelp{{"q", "quit"}, {"?", "help"}, {"enter", "close"}, {"tab", "next"}, {"[ ]", "scroll"}, {"s", "shell"}, {"f", "freeze"}, {"r", "recreate"}, {"x", "remove"}, {"l", "log"}, {"/", "filter"}, {"o", "sort"}})
	}
	return m.helps(topListHelp())
}

func (m *topModel) helps(all []keyHelp) string {
	used := 0
	var parts []string
	for _, h := range all {
		w := termsafe.Width(h.key) + 1 + termsafe.Width(h.does)
		if used > 0 {
			w++
		}
		if used+w > m.width {
			break
		}
		used += w
		parts = append(parts, styleStrong().Render(h.key)+" "+styleFaint().Render(h.does))
	}
	return strings.Join(parts, " ")
}

func (m *topModel) helpScreen() []string {
	lines := []string{styleStrong().Render("sandbox top"), ""}
	for _, h := range []keyHelp{
		{"↑ ↓ j k pgup pgdn home end", "select a sandbox"},
		{"enter", "open and close the details"},
		{"tab 1 2 3 4 5   [ ] { }", "sections of the details; scroll in them"},
		{"s", "a shell in the sandbox; the view comes back when it ends"},
		{"f", "freeze, and thaw what is frozen"},
		{"r", "remove it and build it anew; asks"},
		{"x", "remove it; asks"},
		{"l", "follow what a process writes, or a file"},
		{"/   t   a", "filter by text, by tenant, by agent; esc takes filters away"},
		{"o O   i", "sort by the next column, by the one before; reverse"},
		{"space", "list anew at once"},
		{"q ctrl+c", "leave"},
	} {
		lines = append(lines, termsafe.Truncate("  "+termsafe.Pad(h.key, 28)+h.does, m.width))
	}
	for _, l := range []string{"", "STAT run, froz(en), stop(ped), miss(ing), orph(an): see sandbox list --help.",
		"CPU% is of one processor. DISK/s and NET/s are bytes per second. A local sandbox", "has no network of its own: its NET/s stays 0, see Egress in its details.",
		"Figures are measured for the rows on the screen."} {
		lines = append(lines, styleFaint().Render(termsafe.Truncate(l, m.width)))
	}
	return append(lines, m.keys())
}

func (m *topModel) choiceScreen() []string {
	lines := []string{styleStrong().Render("Which log?"), ""}
	rows := max(1, m.height-len(lines)-1)
	from := max(0, m.choice.place-rows+1)
	for i := from; i <= len(m.choice.logs) && i < from+rows; i++ {
		text := "a file …"
		if i < len(m.choice.logs) {
			l := m.choice.logs[i]
			text = termsafe.Pad(l.State, 8) + "  " + termsafe.Line(l.Command)
		}
		if text = termsafe.Pad(text, m.width); i == m.choice.place {
			text = styleMarked().Render(text)
		}
		lines = append(lines, text)
	}
	return append(lines, m.keys())
}

func (m *topModel) logScreen() []string {
	l := m.log
	title, style := l.title, styleStrong()
	if l.over != "" {
		title, style = title+": "+l.over, styleYellow()
	}
	if l.back > 0 {
		title = fmt.Sprintf("%d lines below · ", l.back) + title
	}
	lines := []string{style.Render(termsafe.Truncate(title, m.width)), ""}
	rows := max(1, m.height-len(lines)-1)
	all := l.lines
	if l.part != "" && l.back == 0 {
		all = append(all[:len(all):len(all)], termsafe.Line(l.part))
	}
	end := max(0, len(all)-l.back)
	for _, one := range all[max(0, end-rows):end] {
		lines = append(lines, termsafe.Truncate(one, m.width))
	}
	return append(lines, m.keys())
}
