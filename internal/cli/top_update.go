//go:build !sandbox_front && !sandbox_engine

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
)

// maxTyped is how many characters a filter or a path may have.
const topTyped = 1024

// Update implements [tea.Model].
func (m *topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(msg.Width, 1), max(msg.Height, 1)
		m.move(0)
		return m, m.refresh()
	case topFaultMsg:
		m.fault = &msg
		return m, tea.Quit
	case topDueMsg:
		return m, m.list()
	case topListMsg:
		return m, m.arrived(msg)
	case topStatsMsg:
		return m, m.took(msg)
	case topDetailsMsg:
		return m, m.details.take(m, msg)
	case topDoneMsg:
		delete(m.doing, msg.key)
		m.stale = m.listing
		if msg.err != nil {
			m.say(true, "%s", topSentence(msg.err))
		} else {
			m.say(false, "%s", msg.what)
		}
		return m, m.list()
	case topShellMsg:
		return m, m.shellReady(msg)
	case topBackMsg:
		if msg.err != nil {
			m.say(true, "%s", topSentence(msg.err))
		}
		return m, m.list()
	case topLogsMsg:
		return m, m.choose(msg)
	case topLogMsg:
		m.logged(msg)
		return m, nil
	case tea.PasteMsg:
		if m.mode == topTypes {
			m.typed(msg.Content)
		}
		return m, nil
	case tea.KeyPressMsg:
		return m.press(msg)
	}
	return m, nil
}

// press acts on a key.
func (m *topModel) press(k tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	if k.String() == "ctrl+c" {
		return m, tea.Quit
	}
	switch m.mode {
	case topTypes:
		return m, m.edit(k)
	case topAsks:
		m.mode = topBrowsing
		q := m.question
		m.question = topQuestion{}
		if k.String() != "y" && k.String() != "Y" {
			m.say(false, "nothing was done")
			return m, nil
		}
		if q.key != "" && m.boxes[q.key] == nil {
			m.say(true, "the sandbox has gone meanwhile")
			return m, nil
		}
		return m, q.then()
	case topWaits:
		if k.String() == "esc" {
			m.mode, m.note = topBrowsing, ""
		}
		return m, nil
	case topChooses:
		return m, m.pick(k)
	case topFollows:
		return m, m.leaf(k)
	case topHelps:
		m.mode = topBrowsing
		return m, nil
	}
	switch k.String() {
	case "q":
		return m, tea.Quit
	case "ctrl+z":
		return m, tea.Suspend
	case "ctrl+l":
		return m, tea.ClearScreen
	case "?", "h":
		m.mode = topHelps
		return m, nil
	}
	cmd := m.key(k.String())
	m.budget = max(m.budget, m.rows()) // a person asks for what comes onto the screen
	return m, tea.Batch(cmd, m.refresh())
}

// key acts on a key while the list is shown.
func (m *topModel) key(k string) tea.Cmd {
	switch k {
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup", "ctrl+b":
		m.move(-max(1, m.rows()-1))
	case "pgdown", "ctrl+f":
		m.move(max(1, m.rows()-1))
	case "home", "g":
		m.move(-len(m.shown))
	case "end", "G":
		m.move(len(m.shown))
	case "enter", "d":
		m.details.open = !m.details.open
		m.move(0)
	case "tab":
		m.details.turn(m, 1)
	case "shift+tab":
		m.details.turn(m, -1)
	case "1", "2", "3", "4", "5":
		m.details.show(m, int(k[0]-'1'))
	case "[":
		m.details.scroll--
	case "]":
		m.details.scroll++
	case "{":
		m.details.scroll -= m.details.page(m)
	case "}":
		m.details.scroll += m.details.page(m)
	case "/":
		m.ask("filter", m.text, func(v string) tea.Cmd { m.text = v; m.arrange(); return nil })
	case "t":
		m.ask("tenant", m.tenant, func(v string) tea.Cmd { m.tenant = v; m.arrange(); return nil })
	case "a":
		m.ask("agent", m.agent, func(v string) tea.Cmd { m.agent = v; m.arrange(); return nil })
	case "esc":
		m.note = ""
		switch {
		case m.details.open:
			m.details.open = false
			m.move(0)
		case m.text+m.tenant+m.agent != "":
			m.text, m.tenant, m.agent = "", "", ""
			m.arrange()
		}
	case "o", ">":
		m.sort(1)
	case "O", "<":
		m.sort(-1)
	case "i":
		m.reversed = !m.reversed
		m.arrange()
	case "space":
		return m.list()
	default:
		if b := m.current(); b != nil {
			return m.act(k, b)
		}
	}
	return nil
}

// act acts on a key that is about the selected sandbox.
func (m *topModel) act(k string, b *topBox) tea.Cmd {
	switch k {
	case "s":
		return m.shell(b)
	case "f":
		return m.freeze(b)
	case "l":
		return m.logs(b)
	case "r":
		m.confirm(b, "Build "+rowName(b.row)+" anew? Its workspace stays."+whatEnds(b), func() tea.Cmd { return m.do(b, "built anew:", "building", m.source.Renew) })
	case "x", "delete":
		m.confirm(b, "Remove "+rowName(b.row)+"? Its workspace stays."+whatEnds(b), func() tea.Cmd {
			return m.do(b, "removed", "removing", func(ctx context.Context, row manager.Row) error {
				return m.source.Remove(ctx, row, manager.RemoveOptions{Force: true})
			})
		})
	}
	return nil
}

// whatEnds says what ends with the sandbox.
func whatEnds(b *topBox) string {
	if b.row.Status != sandbox.StatusRunning {
		return ""
	}
	if b.stat.Command != "" {
		return " This ends: " + b.stat.Command
	}
	return " What runs in it ends."
}

// rowName is what a sandbox is called in a sentence.
func rowName(r manager.Row) string { return termsafe.Line(cmp.Or(r.Name, r.ScopeKey)) }

func (m *topModel) confirm(b *topBox, text string, then func() tea.Cmd) {
	m.mode, m.question = topAsks, topQuestion{text, rowKey(b.row), then}
}

// ask has a line typed.
func (m *topModel) ask(label, value string, then func(string) tea.Cmd) {
	m.mode, m.prompt = topTypes, topPrompt{label, value, then}
}

// edit acts on a key while a line is typed. A filter takes effect with each key.
func (m *topModel) edit(k tea.KeyPressMsg) tea.Cmd {
	switch k.String() {
	case "enter":
		m.mode = topBrowsing
		return tea.Batch(m.prompt.then(m.prompt.value), m.refresh())
	case "esc":
		m.mode = topBrowsing
	case "backspace":
		if r := []rune(m.prompt.value); len(r) > 0 {
			m.prompt.value = string(r[:len(r)-1])
		}
	case "ctrl+u":
		m.prompt.value = ""
	default:
		m.typed(k.Text)
	}
	return nil
}

// typed adds what was typed or pasted to the line, without what is not plainly
// visible.
func (m *topModel) typed(text string) {
	room := topTyped - len([]rune(m.prompt.value))
	for _, r := range text {
		if room <= 0 {
			return
		}
		if termsafe.Safe(r) {
			m.prompt.value += string(r)
			room--
		}
	}
}

// sort sorts by the next column, or by the one before. After the last comes what
// runs first.
func (m *topModel) sort(by int) {
	names := []string{""}
	for _, c := range topColumns() {
		names = append(names, c.name)
	}
	i := slices.Index(names, m.sorted)
	m.sorted, m.reversed = names[(i+by+len(names))%len(names)], false
	m.arrange()
}

// say writes on the line above the list.
func (m *topModel) say(bad bool, format string, args ...any) {
	m.note, m.noteBad = termsafe.Line(fmt.Sprintf(format, args...)), bad
}

// topSentence is an error on one line, with what to do next.
func topSentence(err error) string {
	text := err.Error()
	var e *sandbox.Error
	if errors.As(err, &e) && e.Hint != "" && !strings.Contains(text, e.Hint) {
		text += "; " + e.Hint
	}
	return termsafe.Line(text)
}

type (
	// A shellMsg says what opening a shell would do.
	topShellMsg struct {
		key   string
		place ShellPlace
		next  string // empty: the sandbox is used as it is
	}
	// A backMsg says that a program has given the terminal back.
	topBackMsg struct{ err error }
)

// shell opens a shell in the sandbox, once it is known that this does not build
// the sandbox anew.
func (m *topModel) shell(b *topBox) tea.Cmd {
	if b.row.Kind != sandbox.KindSandbox {
		m.say(true, "%s is no sandbox for commands", rowName(b.row))
		return nil
	}
	k, row := rowKey(b.row), b.row
	m.wait(row)
	return m.guarded(func() tea.Msg {
		ctx, done := context.WithTimeout(m.ctx, topQueryWithin)
		defer done()
		place := ShellPlace{Who: row.Who(), Provider: row.Provider}
		e, err := m.source.Explain(ctx, place.Who, place.Layer(), manager.Questions{})
		if err != nil { // it may be for admins; the shell says what it cannot do
			return topShellMsg{key: k, place: place}
		}
		// What the call says that made the sandbox is not in the settings.
		if row.Workspace != "" && e.Workspace != row.Workspace && e.View == nil {
			place.Workspace = row.Workspace
		}
		if row.Image != "" && e.Image != "" && e.Image != row.Image {
			place.Image = row.Image
		}
		if place.Workspace != "" || place.Image != "" {
			if again, err := m.source.Explain(ctx, place.Who, place.Layer(), manager.Questions{}); err == nil {
				e = again
			}
		}
		next := ""
		if len(e.Drift) > 0 {
			next = e.Next
		}
		return topShellMsg{k, place, next}
	})
}

// wait waits for an answer about the sandbox of row, which a key has asked for.
func (m *topModel) wait(row manager.Row) {
	m.mode = topWaits
	m.say(false, "looking at %s …", rowName(row))
}

func (m *topModel) shellReady(msg topShellMsg) tea.Cmd {
	if m.mode != topWaits {
		return nil // it was left
	}
	m.mode = topBrowsing
	b := m.boxes[msg.key]
	if b == nil {
		m.say(true, "the sandbox has gone meanwhile")
		return nil
	}
	m.note = ""
	open := func() tea.Cmd {
		return tea.Exec(&topShell{func() error { return m.view.Shell(msg.place) }, b.row}, func(err error) tea.Msg { return topBackMsg{err} })
	}
	if msg.next == "" {
		return open()
	}
	m.confirm(b, "A shell does not find "+rowName(b.row)+" as it is ("+msg.next+"). Go on?", open)
	return nil
}

// A topShell is a shell that has the terminal to itself.
type topShell struct {
	run func() error
	row manager.Row
}

// Run implements [tea.ExecCommand].
func (s *topShell) Run() error {
	fmt.Fprintf(os.Stdout, "A shell in %s. exit leads back to sandbox top.\n", rowName(s.row))
	return s.run()
}

// SetStdin implements [tea.ExecCommand]: the shell has the terminal itself.
func (s *topShell) SetStdin(io.Reader) {}

// SetStdout implements [tea.ExecCommand].
func (s *topShell) SetStdout(io.Writer) {}

// SetStderr implements [tea.ExecCommand].
func (s *topShell) SetStderr(io.Writer) {}

// layerOfRow is the layer of settings of a call for the sandbox of a row.
func layerOfRow(r manager.Row) *config.SandboxSettings {
	return config.Overrides{Provider: r.Provider}.Layer()
}
