package about

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s differs (-want +got):\n%s", name, d)
	}
}

// TestSetupIsQuiet holds that lines for a log tell nothing of setup commands.
func TestSetupIsQuiet(t *testing.T) {
	var out bytes.Buffer
	l := NewLines(&out)
	for _, e := range []Event{
		{Image: "sandbox-setup:1", Phase: PhaseSetup, Text: "Step 5/6 : RUN [\"/bin/sh\"]"},
		{Image: "sandbox-setup:1", Phase: PhaseSetup, Text: "Reading package lists..."},
		{Image: "sandbox-setup:1", Phase: PhaseSetup, Text: "ready, sha256:1", Done: true},
	} {
		l.Report(e)
	}
	if out.Len() > 0 {
		t.Errorf("it writes %q", out.String())
	}
	l.Report(Event{Image: "debian:x", Phase: PhasePull, Text: "asking the registry"})
	if out.Len() == 0 {
		t.Error("a pull is quiet too")
	}
}

// TestTerminalCounts holds that the bar is over all layers that are at one step,
// that layers at another step do not disturb it, and that the steps of a build are
// counted.
func TestTerminalCounts(t *testing.T) {
	var screen bytes.Buffer
	clock := time.Unix(0, 0)
	s := NewTerminal(&screen, func() int { return 100 })
	s.now = func() time.Time { return clock }
	say := func(e Event) string {
		screen.Reset()
		s.Report(e)
		clock = clock.Add(2 * time.Second)
		return strings.TrimPrefix(screen.String(), "\r\x1b[K")
	}
	pull := func(part, text string, current, total int64) string {
		return say(Event{Image: "x", Phase: PhasePull, Part: part, Text: text, Current: current, Total: total})
	}
	pull("a", "Downloading", 0, 1000_000)
	pull("a", "Extracting", 7, 100)
	if got, want := pull("b", "Downloading", 500_000, 1000_000), "[######..................]  25%  500kB/2MB  125kB/s  pull x: Downloading"; got != want {
		t.Errorf("two layers: %q, want %q", got, want)
	}
	step := func(text string) string { return say(Event{Image: "y", Phase: PhaseBuild, Text: text}) }
	if got, want := step("Step 4/10 : RUN x"), "[#######.................]  30%  build y: Step 4/10 : RUN x"; got != want {
		t.Errorf("a step: %q, want %q", got, want)
	}
	for _, text := range []string{"Step 0/3 : x", "Step 4/3 : x", "Step -1/-1", "Step 9/99999999999999999999 : x", "Step into"} {
		if got := step(text); strings.HasPrefix(got, "[#") || strings.Contains(got, "%") {
			t.Errorf("%q is drawn as %q", text, got)
		}
	}
}

// TestWarnings holds that a quiet progress passes on that an image is outdated, and
// nothing else.
func TestWarnings(t *testing.T) {
	var out bytes.Buffer
	w := Warnings(NewLines(&out))
	w.Report(Event{Image: "x", Phase: PhasePull, Text: "asking the registry"})
	w.Report(Event{Image: "x", Phase: PhaseOutdated, Text: "made from another recipe", Done: true})
	if got := out.String(); got != "outdated x: made from another recipe\n" {
		t.Errorf("it writes %q", got)
	}
}

func TestProgressGolden(t *testing.T) {
	events := []Event{
		{Image: "debian:x", Phase: PhasePull, Text: "asking the registry"},
		{Image: "debian:x", Phase: PhasePull, Part: "ab", Text: "Downloading", Current: 1 << 20, Total: 4 << 20},
		{Image: "debian:x", Phase: PhasePull, Part: "ab", Text: "Downloading", Current: 2 << 20, Total: 4 << 20},
		{Image: "debian:x", Phase: PhasePull, Part: "ab", Text: "Pull complete \x1b[2J"},
		{Image: "debian:x", Phase: PhasePull, Part: "ab", Text: "Pull complete \x1b[2J"},
		{Image: "debian:x", Phase: PhasePull, Text: strings.Repeat("long ", 40)},
		{Image: "debian:x", Phase: PhasePull, Text: "ready, sha256:1", Done: true},
		{Image: "debian:y", Phase: PhaseBuild, Done: true},
	}
	var lines, screen bytes.Buffer
	l := NewLines(&lines)
	clock := time.Unix(0, 0)
	s := NewTerminal(&screen, func() int { return 60 })
	s.now = func() time.Time { return clock }
	for _, e := range events {
		l.Report(e)
		s.Report(e)
		clock = clock.Add(60 * time.Millisecond)
	}
	golden(t, "progress-lines.golden", lines.String())
	golden(t, "progress-terminal.golden", strings.ReplaceAll(screen.String(), "\r\x1b[K", "\n<redraw>"))
}
