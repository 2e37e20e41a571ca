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

// Terminal shows one line that is drawn anew with each step, with the time
// since the image was begun, and erases it at the end.
type Terminal struct {
	mu    sync.Mutex
	w     io.Writer
	width func() int
	now   func() time.Time
	begun map[string]time.Time
	drawn time.Time
}

// NewTerminal returns a Progress that redraws one line on the terminal w,
// never longer than width columns.
func NewTerminal(w io.Writer, width func() int) *Terminal {
	return &Terminal{w: w, width: width, now: time.Now, begun: map[string]time.Time{}}
}

// Report implements [Progress].
func (t *Terminal) Report(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	begun, ok := t.begun[e.Image]
	if !ok {
		begun = now
		t.begun[e.Image] = now
	}
	if e.Done {
		delete(t.begun, e.Image)
		fmt.Fprint(t.w, "\r\x1b[K")
		if e.Text != "" {
			fmt.Fprintln(t.w, describe(e))
		}
		return
	}
	// Byte counts come by the hundred; ten pictures a second are enough.
	if e.Total > 0 && now.Sub(t.drawn) < 100*time.Millisecond {
		return
	}
	t.drawn = now
	line := fmt.Sprintf("[%s] %s", now.Sub(begun).Round(time.Second), describe(e))
	fmt.Fprint(t.w, "\r\x1b[K"+termsafe.Truncate(line, t.width()-1))
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
