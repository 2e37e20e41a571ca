package about

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/docker/go-units"
	"golang.org/x/term"

	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// Phase says what kind of work is going on.
type Phase string

// The phases.
const (
	PhaseWait      Phase = "wait"      // another process is at it
	PhasePull      Phase = "pull"      // from a registry
	PhaseBootstrap Phase = "bootstrap" // from the host's package sources
	PhaseBuild     Phase = "build"     // of DefaultImage or BrowserImage
	PhaseSetup     Phase = "setup"     // of a layer with setup commands
	PhaseOutdated  Phase = "outdated"  // nothing is made: the image that is there is of an older recipe
)

// An Event is one step of progress. Text holds no control characters.
type Event struct {
	Image   string // the reference that is being made
	Phase   Phase
	Part    string // the layer that Text is about, or empty
	Text    string
	Current int64 // bytes done of Total; both 0 when not counted
	Total   int64
	Done    bool // the last event of this image, good or bad
}

// Progress receives events. Implementations must be safe for concurrent use and
// should return soon: the work waits for them.
type Progress interface {
	Report(e Event)
}

// NewProgress returns a Terminal when f is one and Lines otherwise.
func NewProgress(f *os.File) Progress {
	if term.IsTerminal(int(f.Fd())) {
		return NewTerminal(f, func() int {
			w, _, err := term.GetSize(int(f.Fd()))
			if err != nil {
				return 80
			}
			return w
		})
	}
	return NewLines(f)
}

// Lines writes one plain line for each step and leaves out byte counts, so
// that a log stays short. Of setup commands it writes nothing: the error of one
// that fails holds the end of its output. It never writes control characters.
type Lines struct {
	mu   sync.Mutex
	w    io.Writer
	last string
}

// NewLines returns a Progress that writes plain lines to w. Write errors are
// ignored: losing progress must not lose the work.
func NewLines(w io.Writer) *Lines { return &Lines{w: w} }

// Report implements [Progress].
func (l *Lines) Report(e Event) {
	if e.Total > 0 || e.Text == "" || e.Phase == PhaseSetup {
		return
	}
	line := describe(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	if line == l.last {
		return
	}
	l.last = line
	fmt.Fprintln(l.w, line)
}

// Warnings returns a Progress that passes on to p what is no progress: that an image
// which is there is of an older recipe.
func Warnings(p Progress) Progress { return warnings{p} }

type warnings struct{ p Progress }

// Report implements [Progress].
func (w warnings) Report(e Event) {
	if e.Phase == PhaseOutdated {
		w.p.Report(e)
	}
}

// Terminal shows one line that is drawn anew with each step, and erases it at the
// end. Where bytes or steps are counted it has a bar, over all layers that are at
// the same step; else a sign that moves, and the time since the image was begun.
type Terminal struct {
	mu    sync.Mutex
	w     io.Writer
	width func() int
	now   func() time.Time
	begun map[string]*begun // by image
	drawn time.Time
}

// A begun image is one that is being made.
type begun struct {
	at    time.Time
	turns int // of the sign

	steps map[string]*counted // by Text: layers are downloaded and extracted at the same time
}

// counted is how far the layers are that are at one step.
type counted struct {
	since  time.Time
	layers map[string][2]int64 // bytes done and in all, by Part
}

// NewTerminal returns a Progress that redraws one line on the terminal w,
// never longer than width columns.
func NewTerminal(w io.Writer, width func() int) *Terminal {
	return &Terminal{w: w, width: width, now: time.Now, begun: map[string]*begun{}}
}

// drawEvery is the least time between two pictures of bytes, whose counts come by
// the hundred.
const drawEvery = 100 * time.Millisecond

// Report implements [Progress].
func (t *Terminal) Report(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	b := t.begun[e.Image]
	if b == nil {
		b = &begun{at: now}
		t.begun[e.Image] = b
	}
	if e.Done {
		delete(t.begun, e.Image)
		fmt.Fprint(t.w, "\r\x1b[K")
		if e.Text != "" {
			fmt.Fprintln(t.w, describe(e))
		}
		return
	}
	if e.Total > 0 {
		b.count(e, now)
		if now.Sub(t.drawn) < drawEvery {
			return
		}
	}
	t.drawn = now
	b.turns++
	fmt.Fprint(t.w, "\r\x1b[K"+termsafe.Truncate(b.line(e, now), t.width()-1))
}

// count notes how far a layer is.
func (b *begun) count(e Event, now time.Time) {
	if b.steps == nil {
		b.steps = map[string]*counted{}
	}
	c := b.steps[e.Text]
	if c == nil {
		c = &counted{since: now, layers: map[string][2]int64{}}
		b.steps[e.Text] = c
	}
	c.layers[e.Part] = [2]int64{e.Current, e.Total}
}

// line describes what e says.
func (b *begun) line(e Event, now time.Time) string {
	switch done, total := stepOf(e); {
	case e.Total > 0:
		c := b.steps[e.Text]
		var current, all int64
		for _, l := range c.layers {
			current += l[0]
			all += l[1]
		}
		line := fmt.Sprintf("%s  %s/%s", gauge(current, all), units.HumanSize(float64(current)), units.HumanSize(float64(all)))
		if took := now.Sub(c.since).Seconds(); took >= 1 {
			line += fmt.Sprintf("  %s/s", units.HumanSize(float64(current)/took))
		}
		e.Part, e.Current, e.Total = "", 0, 0
		return line + "  " + describe(e)
	case total > 0:
		return gauge(done, total) + "  " + describe(e)
	}
	sign := `|/-\`[b.turns%4]
	return fmt.Sprintf("%c [%s] %s", sign, now.Sub(b.at).Round(time.Second), describe(e))
}

// stepOf returns the step of a build and how many there are, as the engine writes
// them: "Step 3/10 : RUN …". Steps that are done are those before.
func stepOf(e Event) (done, total int64) {
	rest, ok := strings.CutPrefix(e.Text, "Step ")
	if !ok {
		return 0, 0
	}
	numbers, _, _ := strings.Cut(rest, " ")
	var step int64
	if n, err := fmt.Sscanf(numbers, "%d/%d", &step, &total); err != nil || n != 2 || step < 1 || total < step || total > 10000 {
		return 0, 0
	}
	return step - 1, total
}

// gaugeWidth is that of a bar, in columns.
const gaugeWidth = 24

// gauge is a bar with the share of a total that is done.
func gauge(n, total int64) string {
	share := 0.0
	if total > 0 && n > 0 {
		share = min(float64(n)/float64(total), 1)
	}
	filled := int(share * gaugeWidth)
	return fmt.Sprintf("[%s] %3d%%", strings.Repeat("#", filled)+strings.Repeat(".", gaugeWidth-filled), int(share*100))
}

func describe(e Event) string {
	parts := []string{string(e.Phase), termsafe.Line(e.Image) + ":"}
	if e.Part != "" {
		parts = append(parts, termsafe.Line(e.Part))
	}
	if e.Text != "" {
		parts = append(parts, termsafe.Line(e.Text))
	}
	if e.Total > 0 {
		parts = append(parts, units.HumanSize(float64(e.Current))+"/"+units.HumanSize(float64(e.Total)))
	}
	return strings.Join(parts, " ")
}
