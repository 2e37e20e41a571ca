//go:build linux

package local_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestTracing holds that a debugger works on its own processes, and reaches
// neither the guest nor the processes of another command; and that nothing is
// traced where no Landlock keeps commands apart.
func TestTracing(t *testing.T) {
	for name, tc := range map[string]struct {
		options map[string]any
		want    string
	}{
		"landlock":         {nil, "child\nmemory\naddresses"},
		"without landlock": {map[string]any{"withoutLandlock": true}, "addresses"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			p := r.provider(t)
			s := r.spec("tracing")
			s.Options = tc.options
			for _, m := range s.Mounts {
				if m.Role == sandbox.RoleWorkspace {
					must(t, os.WriteFile(filepath.Join(m.Source, "trace.py"), []byte(testenv.Tracing), 0o644))
				}
			}
			sb := r.open(p, s)
			ctx, done := context.WithTimeout(context.Background(), time.Minute)
			defer done()
			_, err := sb.Start(ctx, sandbox.Command{Args: []string{"sleep", "7654"}})
			must(t, err)
			out, _ := sh(t, sb, `others=; for p in /proc/[0-9]*; do read -r name < $p/comm; case $name in sleep|sandbox-guest) others="$others ${p#/proc/}";; esac; done; set -- $others; test $# -ge 2 || echo few: $*; python3 trace.py $others`)
			if tc.options != nil { // there a command can read of another's in /proc what it could by itself
				lines := slices.DeleteFunc(strings.Split(out, "\n"), func(l string) bool { return strings.Contains(l, " ") })
				out = strings.Join(lines, "\n")
			}
			if out != tc.want {
				t.Errorf("could trace %q, want %q", out, tc.want)
			}
		})
	}
}
