//go:build !sandbox_front && !sandbox_engine

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
)

// controls is text that a terminal would act on.
const controls = "a\x1b[31m\x1b]0;owned\x07\r\n\t\u202e\u009b2Jb"

// A topFake has sandboxes that a test sets, and counts what it is asked.
type topFake struct {
	rows       []manager.Row
	err        error // of List
	stat       func(manager.Row) manager.Stat
	violations []violation.Record
	evidence   []evidence.Record
	logs       []TopLog
	output     string

	lists, measures, explains, records atomic.Int64
	at, peak                           atomic.Int64 // measurements under way
	done                               []string
	doErr                              error
}

func (f *topFake) List(context.Context, manager.ListOptions) (manager.Listing, error) {
	f.lists.Add(1)
	return manager.Listing{Containers: f.rows}, f.err
}

func (f *topFake) Measure(_ context.Context, row manager.Row) manager.Stat {
	f.measures.Add(1)
	n := f.at.Add(1)
	defer f.at.Add(-1)
	for was := f.peak.Load(); n > was && !f.peak.CompareAndSwap(was, n); was = f.peak.Load() {
	}
	if f.stat != nil {
		return f.stat(row)
	}
	return manager.Stat{Name: row.Name, Memory: 1 << 20, PIDs: 3, Command: "make"}
}

func (f *topFake) Explain(context.Context, config.Who, *config.SandboxSettings, manager.Questions) (manager.Explanation, error) {
	f.explains.Add(1)
	return manager.Explanation{Session: controls, Mounts: []sandbox.Mount{{Target: "/workspace" + controls, Source: controls}}}, nil
}

func (f *topFake) Violations(context.Context, violation.Filter) iter.Seq2[violation.Record, error] {
	f.records.Add(1)
	return recordsOf(f.violations)
}

func (f *topFake) Evidence(_ context.Context, by evidence.Filter) iter.Seq2[evidence.Record, error] {
	f.records.Add(1)
	return recordsOf(slices.DeleteFunc(slices.Clone(f.evidence), func(r evidence.Record) bool { return by.Type != "" && r.Type != by.Type }))
}

func recordsOf[R any](all []R) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (f *topFake) did(what string) error { f.done = append(f.done, what); return f.doErr }

func (f *topFake) Pause(_ context.Context, r manager.Row) error  { return f.did("pause " + r.Name) }
func (f *topFake) Resume(_ context.Context, r manager.Row) error { return f.did("resume " + r.Name) }
func (f *topFake) Renew(_ context.Context, r manager.Row) error  { return f.did("renew " + r.Name) }
func (f *topFake) Remove(_ context.Context, r manager.Row, o manager.RemoveOptions) error {
	return f.did(fmt.Sprintf("remove %s %+v", r.Name, o))
}

func (f *topFake) Files(context.Context, manager.Request, func(manager.Share) error) error {
	return errors.New("there are no files")
}

func (f *topFake) Logs(context.Context, manager.Row) ([]TopLog, error) { return f.logs, nil }

func (f *topFake) Follow(_ context.Context, _ manager.Row, _ string, w io.Writer) error {
	_, err := io.WriteString(w, f.output)
	return err
}

// thousand are as many sandboxes, all of which run.
func thousand() []manager.Row {
	var rows []manager.Row
	for i := range 1000 {
		rows = append(rows, manager.Row{
			Name: fmt.Sprintf("sbx-s%d", i), ID: "id", Kind: sandbox.KindSandbox, Provider: "docker", Scope: sandbox.ScopeSession, Session: fmt.Sprintf("s%d", i),
			Agent: "main", Tenant: fmt.Sprintf("t%d", i%7), Status: sandbox.StatusRunning, IdleSeconds: int64(i),
		})
	}
	return rows
}

func topView() TopView {
	return TopView{
		Every: time.Second, Place: "here" + controls,
		Words:  TopWords{Explanation: topExplanation, Mounts: topMounts, Violation: topViolation, Evidence: topEvidence},
		AtExit: func(func()) func() { return func() {} },
	}
}

// A topRig is a model whose commands are run one after another, by a clock of its own.
type topRig struct {
	*topModel
	clock time.Time
	due   int // lists that the clock has made due
}

func newTopRig(t *testing.T, f *topFake, v TopView) *topRig {
	r := &topRig{topModel: newTopModel(t.Context(), f, v), clock: time.Unix(1e9, 0)}
	r.now = func() time.Time { return r.clock }
	r.after = func(time.Duration) tea.Cmd { r.due++; return nil }
	r.send = func(m tea.Msg) { r.Update(m) }
	t.Cleanup(r.close)
	return r
}

// run carries out a command and what follows from it.
func (r *topRig) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case nil:
	case tea.BatchMsg:
		for _, c := range msg {
			r.run(c)
		}
	default:
		_, next := r.Update(msg)
		r.run(next)
	}
}

func (r *topRig) press(keys ...string) {
	for _, k := range keys {
		msg := tea.KeyPressMsg{Text: k}
		switch k {
		case "enter":
			msg = tea.KeyPressMsg{Code: tea.KeyEnter}
		case "esc":
			msg = tea.KeyPressMsg{Code: tea.KeyEscape}
		case "down":
			msg = tea.KeyPressMsg{Code: tea.KeyDown}
		case "pgdown":
			msg = tea.KeyPressMsg{Code: tea.KeyPgDown}
		case "end":
			msg = tea.KeyPressMsg{Code: tea.KeyEnd}
		case "tab":
			msg = tea.KeyPressMsg{Code: tea.KeyTab}
		default:
			msg.Code = []rune(k)[0]
		}
		_, cmd := r.Update(msg)
		r.run(cmd)
	}
}

// interval lets one interval pass.
func (r *topRig) interval() {
	r.clock = r.clock.Add(r.view.Every)
	_, cmd := r.Update(topDueMsg{})
	r.run(cmd)
}

// TestTopAsksLittle holds that with 1,000 sandboxes an interval costs one list, the
// figures of the rows on the screen, of at most twice as many and a few where rows
// are sorted by a figure, and one look at the records of one sandbox; and that no
// more than topAtOnce are measured at a time. Moving through all rows asks for those
// that come onto the screen.
func TestTopAsksLittle(t *testing.T) {
	f := &topFake{rows: thousand()}
	r := newTopRig(t, f, topView())
	rows := int64(r.rows())
	count := func() (lists, measures, explains, records int64) {
		return f.lists.Swap(0), f.measures.Swap(0), f.explains.Swap(0), f.records.Swap(0)
	}
	r.run(r.list())
	if l, m, e, q := count(); l != 1 || m != rows || e+q != 0 {
		t.Errorf("first: %d lists, %d measured, %d explained, %d records", l, m, e, q)
	}
	for range 3 {
		r.interval()
		if l, m, e, q := count(); l != 1 || m != rows || e+q != 0 {
			t.Errorf("an interval: %d lists, %d measured of %d on the screen, %d explained, %d records", l, m, rows, e, q)
		}
	}
	r.press("j", "k", "down")
	if l, m, _, _ := count(); l+m != 0 {
		t.Errorf("moving on the screen: %d lists, %d measured", l, m)
	}
	r.press("end")
	if l, m, _, _ := count(); l != 0 || m != rows {
		t.Errorf("the last rows: %d lists, %d measured", l, m)
	}
	for r.sorted != "cpu" {
		r.press("o")
	}
	count()
	r.interval()
	if l, m, _, _ := count(); l != 1 || m > 2*rows+topSampled {
		t.Errorf("sorted by a figure: %d lists, %d measured", l, m)
	}
	r.press("i") // what was not measured comes first, and sinks when it is
	count()
	r.interval()
	if l, m, _, _ := count(); l != 1 || m > 2*rows+topSampled {
		t.Errorf("sorted by a figure, reversed: %d lists, %d measured", l, m)
	}
	r.press("i", "enter", "4")
	count()
	r.interval()
	if l, m, e, q := count(); l != 1 || m > 2*rows+topSampled || e != 0 || q != 1 {
		t.Errorf("with violations: %d lists, %d measured, %d explained, %d records", l, m, e, q)
	}
	if p := f.peak.Load(); p > topAtOnce {
		t.Errorf("%d were measured at a time, and at most %d may be", p, topAtOnce)
	}
	// While a list is under way, and the figures are, no second one is asked for.
	if r.list() == nil || r.list() != nil {
		t.Error("two lists at a time")
	}
	r.clock = r.clock.Add(time.Minute)
	if r.measure() == nil || r.measure() != nil {
		t.Error("two measurements at a time")
	}
}

// TestTopFits holds that the view has as many lines as the terminal, none of them
// wider, in every mode, with text that would move the cursor; and that nothing of
// that reaches the terminal.
func TestTopFits(t *testing.T) {
	f := &topFake{
		rows: append(thousand()[:30], manager.Row{Name: controls, ID: "x", Provider: controls, ScopeKey: controls, Tenant: controls, Agent: controls, Status: sandbox.StatusRunning,
			Kind: sandbox.KindSandbox, Labels: map[string]string{controls: controls}, Image: controls}),
		stat: func(manager.Row) manager.Stat {
			return manager.Stat{Memory: 1 << 40, CPUSeconds: 1e9, PIDs: 1 << 40, Command: controls + "日本語"}
		},
		violations: []violation.Record{{Resource: controls, Rule: controls, Program: controls, Op: controls}},
		evidence:   []evidence.Record{{Type: evidence.TypeEgress, Data: json.RawMessage(`{"Host":"h\u001b[2Jx","Path":"/\u202e","Port":443,"Verdict":"deny","Rule":"\u0007"}`)}, {Type: evidence.TypeBegin, Data: json.RawMessage(`{}`)}},
		logs:       []TopLog{{ID: "1", Command: controls, State: controls}},
		output:     "one\n" + controls + strings.Repeat("x", 3*topLogLine) + "\nno end" + controls,
		doErr:      errors.New(controls),
	}
	check := func(r *topRig, what string) {
		t.Helper()
		text := r.View().Content
		lines := strings.Split(text, "\n")
		if len(lines) != r.height {
			t.Errorf("%s at %dx%d: %d lines", what, r.width, r.height, len(lines))
		}
		for _, l := range lines {
			bare := withoutStyles(l)
			if w := termsafe.Width(bare); w > r.width {
				t.Errorf("%s at %dx%d: a line of %d columns: %q", what, r.width, r.height, w, bare)
			}
			if bare != termsafe.Line(bare) {
				t.Errorf("%s at %dx%d: %q reaches the terminal", what, r.width, r.height, bare)
			}
		}
	}
	for _, size := range [][2]int{{80, 24}, {200, 50}, {81, 13}, {92, 30}, {104, 30}, {133, 40}, {160, 12}, {40, 10}, {10, 5}, {1, 1}, {500, 200}} {
		r := newTopRig(t, f, topView())
		check(r, "nothing yet")
		r.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		r.run(r.list())
		r.interval()
		check(r, "the list")
		r.press("end")
		check(r, "its end")
		for i := range topSections() {
			r.press(fmt.Sprint(i + 1))
			r.interval()
			check(r, topSections()[i])
			r.press("]", "]", "}")
			check(r, topSections()[i]+", scrolled")
		}
		r.press("esc", "?")
		check(r, "help")
		r.press("x", "x")
		check(r, "a question")
		r.press("y")
		check(r, "its answer")
		r.press("l")
		check(r, "logs")
		r.press("enter")
		check(r, "a log")
		r.press("q", "l", "down", "enter")
		check(r, "a path")
		r.Update(tea.PasteMsg{Content: strings.Repeat(controls, 100)})
		check(r, "a pasted path")
		r.press("esc", "/", "日", "本")
		check(r, "a filter")
		r.press("enter")
		check(r, "filtered")
		f.err = errors.New(controls)
		r.interval()
		check(r, "trouble")
		f.err = nil
	}
}

// withoutStyles removes the sequences that lipgloss writes: those that end with m.
func withoutStyles(s string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		i := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != ';' })
		if i < 0 || rest[i] != 'm' {
			return b.String() + "\x1b[" + rest
		}
		s = rest[i+1:]
	}
}

// TestTopActs holds what keys do to the selected sandbox, and that those which take
// something away ask first.
func TestTopActs(t *testing.T) {
	f := &topFake{rows: thousand()[:3]}
	r := newTopRig(t, f, topView())
	r.run(r.list())
	did := func(want ...string) {
		t.Helper()
		if !slices.Equal(f.done, want) {
			t.Errorf("done %q, want %q", f.done, want)
		}
		f.done = nil
	}
	r.press("down", "f")
	did("pause sbx-s1")
	f.rows[1].Status = sandbox.StatusPaused
	r.interval()
	r.press("f")
	did("resume sbx-s1")
	for _, no := range []string{"n", "esc", "enter", "j"} {
		r.press("x", no, "r", no)
	}
	did()
	r.press("x", "y", "r", "Y")
	did("remove sbx-s1 {Force:true Keep:false Workspace:false}", "renew sbx-s1")
	// The selection stays with its sandbox, and a sandbox that has gone is not
	// taken for the one in its place.
	f.rows = []manager.Row{f.rows[2], f.rows[1]}
	r.interval()
	if b := r.current(); b == nil || b.row.Name != "sbx-s1" {
		t.Errorf("the selection went to %+v", b)
	}
	r.press("x")
	f.rows = f.rows[:1]
	r.interval()
	r.press("y")
	did()
	if !strings.Contains(r.note, "gone") || r.current() == nil || r.current().row.Name != "sbx-s2" {
		t.Errorf("%q, %+v", r.note, r.current())
	}
	f.doErr = &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "pause", Message: "it cannot be frozen", Hint: "remove it"}
	r.press("f")
	did("pause sbx-s2")
	if !strings.Contains(r.note, "cannot be frozen") || !strings.Contains(r.note, "remove it") || !r.noteBad {
		t.Errorf("it says %q", r.note)
	}
	f.rows = nil
	r.interval()
	r.press("x", "y", "f", "s", "l", "r", "enter", "tab", "end")
	did()
	if r.due == 0 {
		t.Error("no list was due")
	}
}

// TestTopOrders holds the orders of the rows and the filters.
func TestTopOrders(t *testing.T) {
	f := &topFake{rows: thousand()[:5]}
	f.rows[0].Status, f.rows[0].ID = sandbox.StatusStopped, ""
	f.rows[4].Agent = "coder"
	f.stat = func(r manager.Row) manager.Stat {
		return manager.Stat{Memory: int64(len(r.Tenant)) + 100*r.IdleSeconds, Command: "run " + r.Session}
	}
	v := topView()
	v.Sort, v.Text = "memory", ""
	r := newTopRig(t, f, v)
	r.run(r.list())
	order := func() string {
		var names []string
		for _, b := range r.shown {
			names = append(names, strings.TrimPrefix(b.row.Name, "sbx-"))
		}
		return strings.Join(names, " ")
	}
	want := func(what, order, want string) {
		t.Helper()
		if order != want {
			t.Errorf("%s: %s, want %s", what, order, want)
		}
	}
	want("by memory", order(), "s4 s3 s2 s1 s0")
	r.press("i")
	want("reversed", order(), "s0 s1 s2 s3 s4")
	r.sorted = ""
	r.press("i")
	want("by use", order(), "s1 s2 s3 s4 s0")
	r.press("a", "c", "o", "d", "e", "r", "enter")
	want("one agent", order(), "s4")
	r.press("esc", "t", "t", "2", "enter")
	want("one tenant", order(), "s2")
	r.press("esc", "/", "R", "U", "N", " ", "s", "3", "enter")
	want("a command", order(), "s3")
	if r.mode != topBrowsing || r.text != "RUN s3" {
		t.Errorf("filter %q", r.text)
	}
	var names []string
	for _, c := range topColumns() {
		names = append(names, c.name)
	}
	slices.Sort(names)
	if have := slices.Sorted(slices.Values(sortColumns())); !slices.Equal(names, have) {
		t.Errorf("--sort takes %q, and there are %q", have, names)
	}
}

// TestTopFigures holds what is made of measurements, and the units.
func TestTopFigures(t *testing.T) {
	b := &topBox{row: manager.Row{ID: "x", Status: sandbox.StatusRunning}}
	at := time.Unix(1e9, 0)
	b.take(manager.Stat{CPUSeconds: 1, DiskRead: 100, NetSent: 5}, at)
	b.take(manager.Stat{CPUSeconds: 2, DiskRead: 200, DiskWritten: 100, NetSent: 5}, at.Add(2*time.Second))
	if c, _ := b.cpu.last(); c != 50 || b.disk.order() != 100 || b.net.order() != 0 {
		t.Errorf("cpu %v, disk %v, net %v", c, b.disk.order(), b.net.order())
	}
	b.take(manager.Stat{CPUSeconds: 0.5}, at.Add(4*time.Second)) // made anew
	if c, _ := b.cpu.last(); c != 0 {
		t.Errorf("cpu %v of one that was made anew", c)
	}
	b.take(manager.Stat{Error: "gone"}, at.Add(6*time.Second))
	if b.measured() || b.asked.Before(at.Add(6*time.Second)) {
		t.Error("figures that could not be measured")
	}
	for n, want := range map[float64]string{0: "0", 999: "999", 1000: "1.0K", 1024: "1.0K", 10 << 10: "10K", 1000 << 10: "1.0M", 1023 << 20: "1.0G", 5 << 40: "5.0T", 1 << 60: "1024P"} {
		if got := shortSize(n); got != want {
			t.Errorf("%v is %s, want %s", n, got, want)
		}
	}
	var s topSeries
	for i := range 100 {
		s.add(float64(i))
	}
	if got := s.spark(4, 0, 0); len(s.values) != topHistory || got != "████" {
		t.Errorf("%d values, %q", len(s.values), got)
	}
	if got := (&topSeries{values: []float64{0, 50, 100}}).spark(5, 200, 0); got != "  ▁▃▅" {
		t.Errorf("%q", got)
	}
}

// TestTopPicture holds that a picture has no control character, and that what is
// known is written even where not all is.
func TestTopPicture(t *testing.T) {
	f := &topFake{rows: append(thousand()[:2], manager.Row{Name: controls, Provider: controls, ScopeKey: controls, Status: controls}), stat: func(manager.Row) manager.Stat { return manager.Stat{Command: controls} }, err: errTest}
	for _, asJSON := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "out")
		out, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		v := topView()
		v.Out, v.Every, v.Once, v.JSON, v.WriteJSON = out, time.Millisecond, true, asJSON, func(p any) error { return writeJSON(out, p) }
		if err := RunTop(t.Context(), f, v); !errors.Is(err, errTest) {
			t.Errorf("error %v", err)
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), "s1") || strings.ReplaceAll(string(text), "\n", "") != termsafe.Line(strings.ReplaceAll(string(text), "\n", "")) {
			t.Errorf("%v, %q", err, text)
		}
		if asJSON && !json.Valid(text) {
			t.Errorf("no JSON: %s", text)
		}
	}
}

// BenchmarkTopThousand measures a key and the picture that follows it, with 1,000
// sandboxes, and a list of them.
func BenchmarkTopThousand(b *testing.B) {
	m := newTopModel(b.Context(), &topFake{rows: thousand()}, topView())
	defer m.close()
	m.Update(tea.WindowSizeMsg{Width: 200, Height: 50})
	m.Update(topListMsg{rows: thousand()})
	b.Run("key", func(b *testing.B) {
		for b.Loop() {
			m.Update(tea.KeyPressMsg{Code: tea.KeyDown})
			_ = m.View()
		}
	})
	b.Run("list", func(b *testing.B) {
		rows := thousand()
		for b.Loop() {
			m.Update(topListMsg{rows: rows})
		}
	})
}

// TestTopWhileSomethingIsDone holds that a sandbox stays on the list and selected while
// it is built anew, when lists have no sandbox of its name for a time, and that a list
// from before the end is not shown after it.
func TestTopWhileSomethingIsDone(t *testing.T) {
	rows := thousand()[:2]
	f := &topFake{rows: rows}
	r := newTopRig(t, f, topView())
	r.run(r.list())
	r.press("down", "r")
	_, build := r.Update(tea.KeyPressMsg{Text: "y", Code: 'y'})
	f.rows = rows[:1]
	r.interval()
	if len(r.shown) != 2 || r.current() == nil || r.current().row.Name != "sbx-s1" {
		t.Fatalf("while it is built: %d rows, %+v", len(r.shown), r.current())
	}
	_, early := r.Update(topDueMsg{})
	early = sync.OnceValue(early)
	early() // it has asked, and is yet to arrive
	f.rows = rows
	r.run(build)
	r.run(early)
	if len(r.shown) != 2 || r.current() == nil || r.current().row.Name != "sbx-s1" || !strings.Contains(r.note, "built anew: sbx-s1") {
		t.Errorf("when it is built: %d rows, %+v, %q", len(r.shown), r.current(), r.note)
	}
	f.rows = rows[:1]
	r.interval()
	if len(r.shown) != 1 {
		t.Errorf("when it has gone: %d rows", len(r.shown))
	}
}
