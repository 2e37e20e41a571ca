package manager_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv/internet"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestFrozenIsNotWaitedFor holds that a program ends at once though a shell is
// open in a sandbox that is frozen, and that nothing of the shell is left when the
// sandbox thaws.
func TestFrozenIsNotWaitedFor(t *testing.T) {
	const soon = 4 * time.Second // the least that a guest is waited for is 5
	for _, rules := range []string{"", `"network":{"allowedDomains":["example.com"]}`} {
		t.Run(map[bool]string{true: "no network", false: "way out"}[rules == ""], func(t *testing.T) {
			r := newRig(t)
			if rules != "" {
				net := internet.New(t)
				r.change = func(opts *manager.Options) { (&outward{t: t, net: net}).open(opts, r.state) }
			}
			text := settings(rules)
			ctx := context.Background()
			m := r.manager(text)
			s, err := m.OpenShell(ctx, manager.Request{Who: who("s")}, sandbox.ShellOptions{})
			must(t, err)
			typed(t, s, "sleep 7541 & echo begun")
			must(t, m.Pause(ctx, row(t, m, "s")))
			for _, end := range []struct {
				what string
				do   func() error
			}{{"the shell", s.Close}, {"the program", m.Close}} {
				began := time.Now()
				if err := end.do(); err != nil {
					t.Errorf("%s: %v", end.what, err)
				}
				if took := time.Since(began); took > soon {
					t.Errorf("%s has ended after %s", end.what, took)
				}
			}
			if got := row(t, r.manager(text), "s"); got.Status != "paused" {
				t.Errorf("the sandbox is %s", got.Status)
			}
			next := r.manager(text)
			deadline := time.Now().Add(time.Minute)
			for {
				out, o := mustRun(t, next, "s", `for p in /proc/[0-9]*; do tr '\0' ' ' <$p/cmdline; echo; done 2>/dev/null | grep '^sleep 7541' || true`)
				if o.Created {
					t.Fatal("the sandbox is another one")
				}
				if !strings.Contains(out, "7541") {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("it runs still: %s", out)
				}
			}
		})
	}
}
