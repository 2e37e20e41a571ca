package registry

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox/registry/pool"
)

func TestAttempts(t *testing.T) {
	s := claims(t)
	if got, err := s.Attempts(); err != nil || got != nil {
		t.Fatalf("before there is one: %v, %v", got, err)
	}
	miss := pool.NewMiss(pool.Differs, strings.Repeat("ä", 400), "docker.memory", strings.Repeat("x", 4000))
	when := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for _, a := range []Attempt{
		{Time: when, Sandbox: "sbx-a", Tenant: "acme", Agent: "main", Shape: "1", Took: 4 * time.Millisecond},
		{Time: when, Sandbox: "sbx-b", Shape: "1", Took: time.Second, Miss: &miss, Code: "SANDBOX.BUSY"},
	} {
		if err := s.LogAttempt(a); err != nil {
			t.Fatal(err)
		}
	}
	if miss.Fields[1] != strings.Repeat("x", 4000) {
		t.Error("the miss of the caller was changed")
	}
	got, err := s.Attempts()
	if err != nil || len(got) != 2 || got[0].Tenant != "acme" || got[0].Miss != nil || !got[0].Time.Equal(when) || got[1].Took != time.Second {
		t.Fatalf("%+v, %v", got, err)
	}
	if m := got[1].Miss; m.Reason != pool.Differs || m.Fields[0] != "docker.memory" || len(m.Fields[1]) > 310 || len(m.Detail) > 310 || !utf8.ValidString(m.Detail) {
		t.Errorf("%+v", m)
	}
	// A line that was cut, and one of something else, cost no other.
	path := filepath.Join(s.root, attemptsFile)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, "null\n{\"time\":\"2026-")
	f.Close()
	if err := s.LogAttempt(Attempt{Sandbox: "sbx-c"}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Attempts(); err != nil || len(got) != 3 || got[2].Sandbox != "sbx-c" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"", strings.Repeat("x", 3*maxAttempts)} { // emptied, and grown by a stranger
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Attempts(); err != nil || len(got) != 0 {
			t.Errorf("%d, %v", len(got), err)
		}
		if err := s.LogAttempt(Attempt{Sandbox: "sbx-d"}); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Attempts(); err != nil || len(got) != 1 {
			t.Errorf("afterwards %+v, %v", got, err)
		}
	}
}

// TestAttemptsAreBounded holds that the newest attempts are kept, of many that
// are logged at one time.
func TestAttemptsAreBounded(t *testing.T) {
	s := claims(t)
	var work sync.WaitGroup
	for i := range 8 {
		work.Go(func() {
			for n := range 400 {
				if err := s.LogAttempt(Attempt{Sandbox: fmt.Sprintf("sbx-%d-%d", i, n), Shape: strings.Repeat("s", 60)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	if err := s.LogAttempt(Attempt{Sandbox: "sbx-last"}); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(filepath.Join(s.root, attemptsFile))
	if err != nil || fi.Size() > maxAttempts || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", fi, err)
	}
	got, err := s.Attempts()
	if err != nil || len(got) < 300 || got[len(got)-1].Sandbox != "sbx-last" {
		t.Errorf("%d are kept, %v", len(got), err)
	}
}

// TestWatchAttempts holds that each way of watching tells of claims and attempts.
func TestWatchAttempts(t *testing.T) {
	for name, watch := range map[string]func(*Store, context.Context, func()) error{
		"by the kernel": (*Store).WatchAttempts, "by looking": (*Store).look,
	} {
		t.Run(name, func(t *testing.T) {
			s := claims(t)
			ctx, end := context.WithCancel(t.Context())
			heard, done := make(chan struct{}, 100), make(chan error, 1)
			go func() { done <- watch(s, ctx, func() { heard <- struct{}{} }) }()
			wait := func(what string) {
				t.Helper()
				select {
				case <-heard:
				case <-time.After(20 * time.Second):
					t.Fatalf("%s: nothing was told", what)
				}
			}
			wait("at the beginning")
			settle, err := s.Claim(Claim{Slot: "sbx-pool-1", Name: "sbx-a"})
			if err != nil {
				t.Fatal(err)
			}
			wait("a claim")
			if err := settle(); err != nil {
				t.Fatal(err)
			}
			for len(heard) > 0 {
				<-heard
			}
			if err := s.LogAttempt(Attempt{Sandbox: "sbx-a"}); err != nil {
				t.Fatal(err)
			}
			wait("an attempt")
			end()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
