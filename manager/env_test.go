package manager_test

import (
	"context"
	"errors"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestVariablesThatThereCannotBe holds that a command or a shell with such a
// variable is refused before anything is made for it.
func TestVariablesThatThereCannotBe(t *testing.T) {
	t.Parallel()
	c := newMachine(t)
	m := c.manager(local, "")
	ctx := context.Background()
	for _, env := range []map[string]string{{"A\nB": "x"}, {"": "x"}, {"A=B": "x"}, {"A\x00": "x"}, {"A": "\x00"}} {
		req := manager.Request{Who: who("s"), Command: sandbox.Command{Args: []string{"true"}, Env: env}}
		_, run := m.Run(ctx, req)
		_, capture := m.Capture(ctx, req)
		_, shell := m.OpenShell(ctx, manager.Request{Who: who("s")}, sandbox.ShellOptions{Env: env})
		for what, err := range map[string]error{"run": run, "capture": capture, "shell": shell} {
			var e *sandbox.Error
			if !errors.As(err, &e) || e.Code != sandbox.CodeValidation || e.Field != "env" {
				t.Errorf("%s with %q: %v", what, env, err)
			}
		}
	}
	if l, err := m.List(ctx, manager.ListOptions{}); err != nil || len(l.Containers) != 0 {
		t.Errorf("there is %+v, %v", l.Containers, err)
	}
	if _, err := m.Run(ctx, manager.Request{Who: who("s"), Command: sandbox.Command{Args: []string{"true"}, Env: map[string]string{"A": "x\ny=z"}}}); err != nil {
		t.Error(err)
	}
}
