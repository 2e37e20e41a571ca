//go:build linux

package launch

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func TestParseStat(t *testing.T) {
	tail := " S 7 1 1 0 -1 4194560 10 20 0 0 3 4 5 6 20 0 9 0 1234 4096 77 18446744073709551615 0 0"
	tests := []struct {
		name, line string
		ok         bool
	}{
		{"plain", "42 (sh)" + tail, true},
		{"a name with signs of the format", "42 (a) b (c) S 9" + ") S 7" + strings.TrimPrefix(tail, " S 7"), true},
		{"no name", "42 sh" + tail, false},
		{"too short", "42 (sh) S 7", false},
		{"no number", "x (sh)" + tail, false},
		{"empty", "", false},
	}
	for _, tt := range tests {
		st, ok := parseStat([]byte(tt.line))
		if ok != tt.ok {
			t.Errorf("%s: %+v, %v", tt.name, st, ok)
		}
		if ok && (st.pid != 42 || st.parent != 7 || st.ticks != 18 || st.threads != 9 || st.start != 1234 || st.pages != 77 || st.state != 'S') {
			t.Errorf("%s: %+v", tt.name, st)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	b, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("1 (()) S ((("))
	f.Fuzz(func(t *testing.T, b []byte) {
		if st, ok := parseStat(b); ok && len(b) < 40 {
			t.Errorf("%q is %+v", b, st)
		}
	})
}

func alive(t *testing.T, id ID) bool {
	t.Helper()
	up, err := id.Alive()
	if err != nil {
		t.Fatal(err)
	}
	return up
}

func TestAnIDIsOneProcess(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := Of(cmd.Process.Pid)
	if err != nil || !alive(t, id) {
		t.Fatalf("%+v, %v", id, err)
	}
	for name, other := range map[string]ID{
		"another start": {id.PID, id.Start + 1, id.Boot}, "another boot": {id.PID, id.Start, "x"}, "nobody": {},
	} {
		if alive(t, other) {
			t.Errorf("%s counts as alive", name)
		}
		if err := other.Kill(context.Background()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !alive(t, id) {
		t.Fatal("the wrong one was killed")
	}
	if _, err := childProcs(id.PID, 1); err == nil {
		t.Error("it is taken for a child of another process")
	}
	if c, err := CostOf(os.Getpid()); err != nil || c.Threads < 2 || c.Memory <= 0 {
		t.Errorf("our own tree costs %+v, %v", c, err)
	}
	// A zombie is no process that runs, and killing it must not wait for
	// whoever is to collect it.
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	testenv.Scarce(t, 0, func() {
		if up, err := id.Alive(); err == nil {
			t.Errorf("nobody can look, and its life is told as %v", up)
		}
		if err := id.Kill(ctx); err == nil {
			t.Error("nobody can look, and it counts as ended")
		}
	})
	if err := id.Kill(ctx); err != nil || alive(t, id) {
		t.Errorf("Kill: %v", err)
	}
	_ = cmd.Wait()
	if err := id.Kill(ctx); err != nil {
		t.Errorf("Kill of what has gone: %v", err)
	}
}
