package manager_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestFrozenIsNotWaitedFor holds that a program ends at once though a shell is
// open in a sandbox that is frozen, and that nothing of the shell is left when the
// sandbox thaws. A machine that stands still for a while may make it late now and
// then; who waits for the guest is late every time.
func TestFrozenIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	const soon = 4 * time.Second // the least that a guest is waited for is 5
	for _, rules := range []string{"", `"network":{"allowedDomains":["example.com"]}`} {
		t.Run(map[bool]string{true: "no network", false: "way out"}[rules == ""], func(t *testing.T) {
			r := newRig(t)
			if rules != "" {
				net := testenv.NewInternet(t)
				r.change = func(opts *manager.Options) { (&outward{t: t, net: net}).open(opts, r.state) }
			}
			shell, program := leftFrozen(r, settings(rules))
			for try := 1; try < 5 && max(shell, program) > soon; try++ {
				s, p := leftFrozen(r, settings(rules))
				shell, program = min(shell, s), min(program, p)
			}
			if max(shell, program) > soon {
				t.Errorf("the shell has ended after %s, the program after %s", shell, program)
			}
		})
	}
}

// leftFrozen ends a shell in a frozen sandbox, and then its program. It returns
// how long each took, when the sandbox is thawed and nothing of the shell is left.
func leftFrozen(r *rig, text string) (shell, program time.Duration) {
	t := r.t
	t.Helper()
	ctx := context.Background()
	m := r.manager(text)
	s, err := m.OpenShell(ctx, manager.Request{Who: who("s")}, sandbox.ShellOptions{})
	must(t, err)
	typed(t, s, "sleep 7541 & echo begun")
	must(t, m.Pause(ctx, row(t, m, "s")))
	timed := func(end func() error) time.Duration {
		began := time.Now()
		if err := end(); err != nil {
			t.Error(err)
		}
		return time.Since(began)
	}
	shell, program = timed(s.Close), timed(m.Close)
	if got := row(t, r.manager(text), "s"); got.Status != "paused" {
		t.Errorf("the sandbox is %s", got.Status)
	}
	next := r.manager(text)
	testenv.Success(t, func() error {
		out, o := mustRun(t, next, "s", `for p in /proc/[0-9]*; do tr '\0' ' ' <$p/cmdline; echo; done 2>/dev/null | grep '^sleep 7541' || true`)
		if o.Created {
			t.Fatal("the sandbox is another one")
		}
		if strings.Contains(out, "7541") {
			return fmt.Errorf("it runs still: %s", out)
		}
		return nil
	})
	return shell, program
}
