package journal

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// helper is what the test binary does as another process: it appends notes in
// its own name, with options of the smallest files. Before the note
// with the number gate it waits until its input ends.
func helper(what string) error {
	var dir, who string
	var count, batch, gate int
	if _, err := fmt.Sscanf(what, "%s %s %d %d %d", &dir, &who, &count, &batch, &gate); err != nil {
		return err
	}
	o := small(200)
	if batch > 1 { // writers that keep files open and writers that do not, side by side
		o.Held = NewHeld()
	}
	j, err := Open(dir, o)
	if err != nil {
		return err
	}
	for n := 0; n < count; n += batch {
		if n == gate {
			if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
				return err
			}
		}
		records := make([]any, batch)
		for i := range records {
			records[i] = note{who, n + i, strings.Repeat("y", 700)}
		}
		if err := j.Append(context.Background(), records...); err != nil {
			return err
		}
	}
	return nil
}

func startHelper(t *testing.T, dir, who string, count, batch int) *exec.Cmd {
	t.Helper()
	cmd, _ := startGated(t, dir, who, count, batch, count)
	return cmd
}

// startGated starts a helper that waits before the note with the number gate
// until its input is closed.
func startGated(t *testing.T, dir, who string, count, batch, gate int) (*exec.Cmd, io.Closer) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+fmt.Sprint(dir, " ", who, " ", count, " ", batch, " ", gate))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd, in
}

// TestManyProcesses checks that nothing is lost, doubled or out of order when
// eight processes append at once and files rotate meanwhile.
func TestManyProcesses(t *testing.T) {
	const processes, count = 8, 300
	j := open(t, t.TempDir(), small(200))
	var all []*exec.Cmd
	for p := range processes {
		all = append(all, startHelper(t, j.dir, fmt.Sprint("p", p), count, 1+p%3))
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	got, damage := wantInOrder(t, j, 0)
	if len(got) != processes*count || len(damage) > 0 {
		t.Errorf("%d records and damage %v", len(got), damage)
	}
	if r := wantWhole(t, j); r.Files < 10 {
		t.Errorf("%d files, so nothing rotated", r.Files)
	}
}

// TestKilledWriters kills writers at any moment. Whatever they leave, all
// batches are whole up to the last one, others go on, and the report knows of
// torn lines only.
func TestKilledWriters(t *testing.T) {
	j := open(t, t.TempDir(), small(200))
	const rounds = 25
	for round := range rounds {
		who := fmt.Sprint("r", round)
		cmd := startHelper(t, j.dir, who, 1<<30, 20)
		seen := waitFor(t, j, who)
		cmd.Process.Kill()
		cmd.Wait()
		appendNotes(t, j, "us", round, round+1, "")
		if seen == 0 {
			t.Fatal("nothing was written")
		}
	}
	r := verify(t, j)
	if !r.OK() {
		t.Errorf("damage %v", r.Damage)
	}
	got, _ := wantInOrder(t, j, r.Dropped)
	if want := fmt.Sprint("us ", rounds-1); got[len(got)-1] != want {
		t.Errorf("the last one is %s, want %s", got[len(got)-1], want)
	}
}

// wantInOrder holds that everybody's notes count up one by one, from 0 unless
// files were dropped.
func wantInOrder(t *testing.T, j *Journal, dropped uint64) (got, damage []string) {
	t.Helper()
	got, damage = read(t, j, Range{})
	next := map[string]int{}
	for _, g := range got {
		var who string
		var n int
		fmt.Sscan(g, &who, &n)
		if want, seen := next[who]; n != want && (seen || dropped == 0) {
			t.Fatalf("%s comes when %d is next", g, want)
		}
		next[who] = n + 1
	}
	return got, damage
}

// waitFor waits until the process has appended and returns how much there is.
func waitFor(t *testing.T, j *Journal, who string) (n int64) {
	t.Helper()
	testenv.Until(t, who+" appends", func() bool {
		for rec, err := range j.Records(context.Background(), Range{Backward: true}) {
			n = int64(rec.Seq)
			return err == nil && strings.Contains(string(rec.Data), `"`+who+`"`)
		}
		return false
	})
	return n
}
