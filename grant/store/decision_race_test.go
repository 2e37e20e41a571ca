package store

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"time"
)

// TestManyProcesses lets 64 processes race for the same keys: each key belongs
// to one call, and all processes get the same answer. When one of them finished
// before the others started nothing was contended, and they race again.
func TestManyProcesses(t *testing.T) {
	for range 10 {
		if len(race(t)) > 1 || t.Failed() {
			return
		}
	}
	t.Error("nothing was ever contended")
}

// race returns which calls got a key.
func race(t *testing.T) (winners map[string]bool) {
	t.Helper()
	const processes, keys = 64, 20
	dir := t.TempDir()
	var all []*racer
	for i := range processes {
		all = append(all, startRacer(t, dir, fmt.Sprint("call-", i), keys))
	}
	for _, r := range all {
		r.ready(t)
	}
	for _, r := range all {
		r.in.Close()
	}
	var first []string
	winners = map[string]bool{}
	for i, r := range all {
		said := r.rest()
		if err := r.cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = said
		}
		if len(said) != keys || !slices.Equal(said, first) {
			t.Errorf("process %d was told %v, the first %v", i, said, first)
		}
		for _, call := range said {
			winners[call] = true
			if !strings.HasPrefix(call, "call-") {
				t.Errorf("a key is used by %q", call)
			}
		}
	}
	if got := files(t, dir); len(got) != keys {
		t.Errorf("%d files for %d keys: %v", len(got), keys, got)
	}
	return winners
}

// TestManyGoroutines is the same in one process, with one Keys for all and with
// one each.
func TestManyGoroutines(t *testing.T) {
	for _, own := range []bool{false, true} {
		dir := t.TempDir()
		shared := openDecision(t, dir)
		for key := range 20 {
			var wg sync.WaitGroup
			var mu sync.Mutex
			reported := map[string]int{}
			for i := range 64 {
				wg.Go(func() {
					k := shared
					if own {
						k = openDecision(t, dir)
					}
					by, err := k.Use("t", fmt.Sprint("key:", key), fmt.Sprint("call-", i), soon())
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					reported[by]++
					mu.Unlock()
				})
			}
			wg.Wait()
			if len(reported) != 1 {
				t.Errorf("key %d is used by %v", key, reported)
			}
		}
	}
}

// TestKilled kills processes at any moment while they use keys. The answers
// that they got stay valid, every entry is whole, and a sweep removes the
// leftovers.
func TestKilled(t *testing.T) {
	const rounds = 20
	dir := t.TempDir()
	owner := map[string]string{}
	for round := range rounds {
		call := fmt.Sprint("call-", round)
		r := startRacer(t, dir, call, 100_000)
		r.ready(t)
		r.in.Close()
		var said []string
		for len(said) < 3*(round+1) && r.out.Scan() {
			said = append(said, r.out.Text())
		}
		r.cmd.Process.Kill()
		said = append(said, r.rest()...)
		r.cmd.Wait()
		for i, by := range said {
			key := fmt.Sprint("key:", i)
			if was, ok := owner[key]; ok && was != by {
				t.Fatalf("%s was %s's and is %s's", key, was, by)
			}
			owner[key] = by
		}
	}
	k := openDecision(t, dir)
	for key, by := range owner {
		if by == decisionUnknown {
			t.Errorf("nobody knows whose %s is", key)
		}
		wantUse(t, k, "t", key, "late", by)
	}
	k = decisionLater(t, dir, 24*time.Hour)
	if s, err := k.Sweep(); err != nil || s.Kept > 0 || len(s.Damaged) > 0 || s.Removed < len(owner) {
		t.Errorf("%d keys; swept %+v, %v", len(owner), s, err)
	}
	if got := files(t, dir); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
}
