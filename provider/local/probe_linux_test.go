package local_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/local"
)

// TestProbeWithOptions holds that an instance counts as one that can be built when
// the settings leave out what is missing, or name another program: else the
// choice would fall on less of an instance, or on none.
func TestProbeWithOptions(t *testing.T) {
	r := newRig(t)
	real, err := exec.LookPath("bwrap")
	must(t, err)
	dir, err := os.MkdirTemp("/var/tmp", "sandbox-probe-") // the instance of a try hides /tmp
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	old := filepath.Join(dir, "bwrap")
	must(t, os.WriteFile(old, []byte(`#!/bin/sh
case " $* " in
*" --help "*) `+real+` --help | grep -v -e --disable-userns; exit ;;
*" --disable-userns "*) echo "bwrap: Unknown option --disable-userns" >&2; exit 1 ;;
esac
exec `+real+` "$@"
`), 0o755))
	none := t.TempDir()
	p := r.provider(t)
	for _, tt := range []struct {
		name    string
		path    string // instead of PATH
		options map[string]any
		want    sandbox.Code
	}{
		{"as usual", "", nil, ""},
		{"old", "", map[string]any{"bwrap": old}, sandbox.CodeUnavailable},
		{"old, left out", "", map[string]any{"bwrap": old, "withoutDisableUserns": true}, ""},
		{"not in PATH", none, nil, sandbox.CodeUnavailable},
		{"not in PATH, and named", none, map[string]any{"bwrap": real}, ""},
		{"named, and not there", "", map[string]any{"bwrap": filepath.Join(none, "bwrap")}, sandbox.CodeUnavailable},
		{"not valid", "", map[string]any{"withoutWalls": true}, sandbox.CodeValidation},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := p
			if tt.path != "" {
				t.Setenv("PATH", tt.path)
				p = local.New(local.Options{State: r.state.Path(), World: r.world})
				defer p.Close()
			}
			if err := provider.Probe(t.Context(), p, tt.options); sandbox.CodeOf(err) != tt.want {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	r.leaks(t)
}
