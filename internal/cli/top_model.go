//go:build !sandbox_front && !sandbox_engine

package cli

import (
	"context"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
)

// A topMode is what keys mean.
type topMode int

const (
	topBrowsing topMode = iota
	topTypes            // a filter or a path, see model.prompt
	topWaits            // for what a key has asked, so that keys which are typed ahead do nothing else
	topAsks             // y or n, see model.question
	topChooses          // which log is followed
	topFollows          // a log
	topHelps
)

// A topModel is the state of the view. Only its Update changes it, and requests
// work on copies of rows.
type topModel struct {
	ctx    context.Context
	cancel context.CancelFunc
	source TopSource
	view   TopView
	send   func(tea.Msg) // from other goroutines; set before the program runs
	now    func() time.Time
	after  func(time.Duration) tea.Cmd // has a list be due then

	width, height int
	mode          topMode

	boxes    map[string]*topBox // by key
	shown    []*topBox          // that the filters leave, sorted
	selected string             // key of the selected row
	place    int                // its index in shown, kept when it disappears
	offset   int                // index of the first row on the screen
	tenant   string             // filters; empty is none
	agent    string
	text     string
	sorted   string // name of a column
	reversed bool

	listed    time.Time // when the last list arrived; zero: none has
	listing   bool      // a list is under way
	measuring bool      // figures are under way
	nextOff   int       // where the sampling of rows off the screen goes on
	sample    bool      // it is due
	budget    int       // how many sandboxes may still be measured in this interval
	trouble   string    // why the last list failed
	note      string    // what the last key has done
	noteBad   bool
	doing     map[string]string // what is being done, by the key of its sandbox
	stale     bool              // the list under way was asked for before something was done

	fault    *topFaultMsg // or nil
	prompt   topPrompt
	question topQuestion
	details  topDetails
	log      *topLogView
	choice   topChooser
}

// A topQuestion is asked before a key has its effect.
type topQuestion struct {
	text string
	key  string // of the sandbox, empty: of none
	then func() tea.Cmd
}

// A topPrompt reads a line.
type topPrompt struct {
	label, value string
	then         func(value string) tea.Cmd
}

func newTopModel(ctx context.Context, s TopSource, v TopView) *topModel {
	ctx, cancel := context.WithCancel(ctx)
	m := &topModel{
		ctx: ctx, cancel: cancel, source: s, view: v, now: time.Now, after: listAfter, width: 80, height: 24,
		boxes: map[string]*topBox{}, doing: map[string]string{}, sorted: v.Sort, agent: v.Agent, text: v.Text,
	}
	if v.Every <= 0 {
		m.view.Every = WatchEvery
	}
	return m
}

func listAfter(d time.Duration) tea.Cmd {
	return tea.Tick(d, func(time.Time) tea.Msg { return topDueMsg{} })
}

// close ends what is under way.
func (m *topModel) close() {
	m.stopLog()
	m.cancel()
}

// The messages.
type (
	topDueMsg  struct{} // a list is due
	topListMsg struct {
		rows []manager.Row
		err  error
		took time.Duration
	}
	topStatsMsg struct {
		stats map[string]manager.Stat // by key
		at    time.Time
	}
	topDoneMsg struct {
		key, what string
		err       error
	}
)

// A topFaultMsg says that a request has panicked.
type topFaultMsg struct {
	value any
	stack []byte
}

// guarded has a panic of fn end the view, which then gives the terminal back.
func (m *topModel) guarded(fn func() tea.Msg) tea.Cmd {
	return func() (msg tea.Msg) {
		defer func() {
			if p := recover(); p != nil {
				msg = topFaultMsg{p, debug.Stack()}
			}
		}()
		return fn()
	}
}

// Init implements [tea.Model].
func (m *topModel) Init() tea.Cmd { return m.list() }

// list asks for the sandboxes. The next list is due when this one has arrived and
// the interval is over.
func (m *topModel) list() tea.Cmd {
	if m.listing {
		return nil
	}
	m.listing = true
	return m.guarded(func() tea.Msg {
		ctx, done := context.WithTimeout(m.ctx, topQueryWithin)
		defer done()
		began := time.Now()
		rows, err := topList(ctx, m.source, m.view)
		return topListMsg{rows, err, time.Since(began)}
	})
}

// topList returns the sandboxes and browsers that the flags select.
func topList(ctx context.Context, s TopSource, v TopView) ([]manager.Row, error) {
	l, err := s.List(ctx, manager.ListOptions{Tenant: v.Tenant, All: v.All})
	return slices.Concat(l.Containers, l.Browsers), err
}

// arrived takes a list.
func (m *topModel) arrived(msg topListMsg) tea.Cmd {
	m.listing = false
	if m.stale {
		m.stale = false
		return m.list()
	}
	m.trouble = ""
	if msg.err != nil {
		m.trouble = topSentence(msg.err)
	}
	if msg.err == nil || len(msg.rows) > 0 {
		m.listed = m.now()
		m.adopt(msg.rows)
	}
	m.sample, m.budget = true, 2*max(m.rows(), 1)+topSampled
	rest := max(m.view.Every, topRest*msg.took)
	return tea.Batch(m.refresh(), m.after(rest))
}

// adopt makes rows the sandboxes that there are. A sandbox that something is being
// done to stays: while it is built anew, no list has it.
func (m *topModel) adopt(rows []manager.Row) {
	boxes := make(map[string]*topBox, len(rows))
	for _, r := range rows {
		k := rowKey(r)
		b := m.boxes[k]
		if b == nil {
			b = &topBox{}
		}
		b.row = r
		if !b.runs() {
			b.rest()
		}
		boxes[k] = b
	}
	for k := range m.doing {
		if b := m.boxes[k]; b != nil && boxes[k] == nil {
			boxes[k] = b
		}
	}
	m.boxes = boxes
	m.arrange()
}

// arrange filters and sorts. The selection stays with its sandbox; when that has
// disappeared, it goes to what takes its place.
func (m *topModel) arrange() {
	m.shown = m.shown[:0]
	needle := strings.ToLower(m.text)
	for _, b := range m.boxes {
		if (m.tenant == "" || b.row.Tenant == m.tenant) && (m.agent == "" || b.row.Agent == m.agent) && rowContains(b, needle) {
			m.shown = append(m.shown, b)
		}
	}
	order := topColumns()[topColIdle].order
	for _, c := range topColumns() {
		if c.name == m.sorted {
			order = c.order
		}
	}
	slices.SortFunc(m.shown, func(a, b *topBox) int {
		by := order(a, b)
		if m.sorted == "" { // what runs first, by its last use
			if by = rowRank(a) - rowRank(b); by == 0 {
				by = order(a, b)
			}
		}
		if m.reversed {
			by = -by
		}
		if by != 0 {
			return by
		}
		return strings.Compare(rowKey(a.row), rowKey(b.row))
	})
	m.seek()
}

// seek finds the selected row, and keeps it on the screen.
func (m *topModel) seek() {
	i := slices.IndexFunc(m.shown, func(b *topBox) bool { return rowKey(b.row) == m.selected })
	if i >= 0 {
		m.place = i
	}
	m.move(0)
}

// rowContains reports whether the text of the filter, in lower case, is in what is
// known of the sandbox.
func rowContains(b *topBox, needle string) bool {
	if needle == "" {
		return true
	}
	r := b.row
	words := []string{r.Name, r.ScopeKey, r.Tenant, r.Agent, r.Session, r.Image, r.Provider, string(r.Status), r.Workspace, r.Preset, b.stat.Command}
	for name, value := range r.Labels {
		words = append(words, name+"="+value)
	}
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(strings.ToLower(w), needle) })
}

// move moves the selection by n rows.
func (m *topModel) move(n int) {
	m.place = max(0, min(m.place+n, len(m.shown)-1))
	m.selected = ""
	if len(m.shown) > 0 {
		m.selected = rowKey(m.shown[m.place].row)
	}
	rows := max(1, m.rows())
	m.offset = max(0, min(m.offset, len(m.shown)-rows))
	m.offset = max(min(m.offset, m.place), m.place-rows+1)
}

// current returns the selected sandbox, or nil.
func (m *topModel) current() *topBox {
	if m.selected == "" {
		return nil
	}
	return m.boxes[m.selected]
}

// visible returns the sandboxes that are on the screen.
func (m *topModel) visible() []*topBox {
	return m.shown[m.offset:min(len(m.shown), m.offset+max(1, m.rows()))]
}

// refresh asks for what is on the screen and older than the interval.
func (m *topModel) refresh() tea.Cmd { return tea.Batch(m.measure(), m.details.fetch(m)) }

// due reports whether the sandbox is to be measured.
func (m *topModel) due(b *topBox) bool {
	return b.runs() && m.now().Sub(b.asked) >= m.view.Every*9/10
}

// measure asks for the figures of the sandboxes that are on the screen. Where
// rows are sorted by a figure, it asks once an interval for those of a few others
// too, so that each comes to its place in the end. As figures move rows onto the
// screen, which are asked for then, an interval has a bound for all of them.
func (m *topModel) measure() tea.Cmd {
	if m.measuring {
		return nil
	}
	var rows []manager.Row
	mine := func(b *topBox) {
		if m.due(b) && m.budget > 0 {
			rows = append(rows, b.row)
			m.budget--
		}
	}
	for _, b := range m.visible() {
		mine(b)
	}
	if m.sample && slices.ContainsFunc(topColumns(), func(c topColumn) bool { return c.name == m.sorted && c.measures() }) {
		most := len(rows) + topSampled
		for range min(len(m.shown), 4*topSampled) {
			if len(rows) >= most {
				break
			}
			m.nextOff = (m.nextOff + 1) % len(m.shown)
			if b := m.shown[m.nextOff]; !slices.Contains(m.visible(), b) {
				mine(b)
			}
		}
	}
	m.sample = false
	if len(rows) == 0 {
		return nil
	}
	m.measuring = true
	return m.guarded(func() tea.Msg {
		ctx, done := context.WithTimeout(m.ctx, topQueryWithin)
		defer done()
		return topStatsMsg{measureAll(ctx, m.source, rows), m.now()}
	})
}

// measureAll measures the sandboxes of rows, at most topAtOnce at the same time. A
// panic of one of them is the caller's, whose terminal is put back then.
func measureAll(ctx context.Context, s TopSource, rows []manager.Row) map[string]manager.Stat {
	out := make(map[string]manager.Stat, len(rows))
	var mu sync.Mutex
	var fault any
	var all sync.WaitGroup
	next := make(chan manager.Row)
	measure := func(r manager.Row) {
		defer func() {
			if p := recover(); p != nil {
				mu.Lock()
				defer mu.Unlock()
				fault = p
			}
		}()
		stat := s.Measure(ctx, r)
		mu.Lock()
		defer mu.Unlock()
		out[rowKey(r)] = stat
	}
	for range min(topAtOnce, len(rows)) {
		all.Go(func() {
			for r := range next {
				measure(r)
			}
		})
	}
	for _, r := range rows {
		next <- r
	}
	close(next)
	all.Wait()
	if fault != nil {
		panic(fault)
	}
	return out
}

// took takes figures. Rows that have come onto the screen meanwhile are asked
// for next.
func (m *topModel) took(msg topStatsMsg) tea.Cmd {
	m.measuring = false
	for k, s := range msg.stats {
		if b := m.boxes[k]; b != nil && b.runs() {
			b.take(s, msg.at)
		}
	}
	m.arrange()
	return m.measure()
}

// do starts what a key does to a sandbox. One thing is done to a sandbox at a time.
func (m *topModel) do(b *topBox, what, doing string, fn func(context.Context, manager.Row) error) tea.Cmd {
	k, row := rowKey(b.row), b.row
	if was := m.doing[k]; was != "" {
		m.say(true, "%s: still %s", rowName(row), was)
		return nil
	}
	m.doing[k] = doing
	m.say(false, "%s %s …", doing, rowName(row))
	return m.guarded(func() tea.Msg {
		ctx, done := context.WithTimeout(m.ctx, topDoWithin)
		defer done()
		return topDoneMsg{k, what + " " + rowName(row), fn(ctx, row)}
	})
}

// freeze freezes the sandbox, or thaws it.
func (m *topModel) freeze(b *topBox) tea.Cmd {
	if b.row.Status == sandbox.StatusPaused {
		return m.do(b, "thawed", "thawing", m.source.Resume)
	}
	return m.do(b, "froze", "freezing", m.source.Pause)
}
