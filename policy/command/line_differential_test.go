package command

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var (
	lines = flag.Int("lines", 1200, "how many lines TestDifferential makes")
	seed  = flag.Uint64("seed", 1, "what it makes them from")
)

// TestDifferential holds the sentence of the package comment: when a line is
// read without an Unknown, a real bash starts the programs of Line.Commands
// and no others, and bash can read whatever Parse accepts.
func TestDifferential(t *testing.T) {
	st := newFixture(t)
	t.Run("tricks", func(t *testing.T) { differ(t, st, tricks(t)) })
	t.Run("generated", func(t *testing.T) {
		m := newMaker(*seed)
		var all []string
		for range *lines {
			all = append(all, m.line())
		}
		differ(t, st, all)
	})
}

func differ(t *testing.T, st *fixture, all []string) {
	t.Helper()
	bad, clear := st.disagreements(t, all)
	t.Logf("%d lines, %d read without a doubt", len(all), clear)
	if clear == 0 {
		t.Error("no line was run, so nothing was tested")
	}
	for i, b := range bad {
		if i == 15 {
			t.Errorf("and %d more", len(bad)-i)
			break
		}
		t.Error(b)
	}
}

// tricks returns the lines of testdata/tricks.txt, which are divided by lines of %%.
func tricks(t testing.TB) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/tricks.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n%%\n")
	if len(out) < 200 {
		t.Fatalf("only %d tricks", len(out))
	}
	return out
}
