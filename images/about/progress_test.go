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
