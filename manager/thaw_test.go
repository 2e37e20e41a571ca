package manager_test

import (
	"context"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestEveryUseThaws holds that not only commands thaw a sandbox: its shell and
// its files do too, in the program that froze it and in others.
func TestEveryUseThaws(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	m := r.manager("")
	mustRun(t, m, "s", "echo kept >f")
	for _, user := range []*manager.Manager{m, r.manager("")} {
		for what, use := range map[string]func() error{
			"shell": func() error {
				_, err := user.Shell(ctx, manager.Request{Who: who("s"), Command: sandbox.Command{Args: []string{"-c", "true"}}})
				return err
			},
			"files": func() error {
				return user.Files(ctx, manager.Request{Who: who("s")}, func(s manager.Share) error {
					_, err := s.Stat(ctx, "/workspace/f")
					return err
				})
			},
			"shell that stays": func() error {
				s, err := user.OpenShell(ctx, manager.Request{Who: who("s")}, sandbox.ShellOptions{})
				if err == nil {
					err = s.Close()
				}
				return err
			},
		} {
			must(t, m.Pause(ctx, row(t, m, "s")))
			if err := use(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			// The engine may hear late of the pause, and say so until it hears of its end.
			testenv.Until(t, "after the use of its "+what+" it runs", func() bool { return row(t, m, "s").Status == sandbox.StatusRunning })
		}
	}
	if out, _ := mustRun(t, m, "s", "cat f"); strings.TrimSpace(out) != "kept" {
		t.Errorf("%q", out)
	}
}
