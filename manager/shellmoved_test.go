//go:build linux

package manager_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestShellMoves holds that a shell goes on, with its state, in the sandbox that a
// permission has built, and afterwards in the one without it.
func TestShellMoves(t *testing.T) {
	t.Parallel()
	w := newSandboxed(t)
	s := openShell(t, w.Manager, who("moved"))
	expect(t, s, "cd /tmp; x=1", "", false)
	note := filepath.Join(w.outside, "note")

	w.answer = sandbox.AllowOnce
	again := 0
	o, err := s.Run(context.Background(), manager.Line{Text: "test \"$(cat " + note + ")\" = text && y=$x", Ask: true, Again: func() { again++ }})
	if err != nil || o.Exit.Code != 0 || again != 1 || len(o.Answers) != 1 || !o.Exit.Restarted {
		t.Fatalf("permitted: %+v, run again %d times, %v", o, again, err)
	}
	got, o := typed(t, s, "pwd; echo $x$y; cat "+note)
	if o.Exit.Code == 0 || !strings.Contains(got+"\n", "/tmp\n11\n") { // errors come over a stream of their own
		t.Errorf("the line after: %q, exit %d: the state is there and the permission is not", got, o.Exit.Code)
	}
}
