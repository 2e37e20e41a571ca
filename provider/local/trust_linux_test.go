package local_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider/local"
)

// TestBwrapThatCodeInsideCouldWrite holds that no program from a folder that a
// sandbox can write is run outside of the instance, wherever PATH finds it first.
func TestBwrapThatCodeInsideCouldWrite(t *testing.T) {
	r := newRig(t)
	real, err := exec.LookPath("bwrap")
	must(t, err)
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	const said = "the planted program runs"
	planted := filepath.Join(dir, "bin")
	must(t, os.Mkdir(planted, 0o755))
	must(t, os.WriteFile(filepath.Join(planted, "bwrap"), []byte("#!/bin/sh\necho "+said+" >&2\n"), 0o755))
	linked := filepath.Join(dir, "linked")
	must(t, os.Mkdir(linked, 0o755))
	must(t, os.Symlink(real, filepath.Join(linked, "bwrap")))

	for name, where := range map[string]string{"planted": planted, "a link to the real one": linked} {
		t.Run(name, func(t *testing.T) {
			s := r.spec(name)
			t.Setenv("PATH", where)
			control := r.provider(t)
			_, err := control.Create(context.Background(), s)
			if sandbox.CodeOf(err) == sandbox.CodeCapabilityBlocked || (where == planted) != (err != nil && strings.Contains(err.Error(), said)) {
				t.Fatalf("where nobody can write: %v", err)
			}
			must(t, control.Remove(context.Background(), s.Name))

			s.Filesystem.AllowWrite = []string{where}
			p := r.provider(t)
			if _, err := p.Create(context.Background(), s); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked || strings.Contains(err.Error(), said) {
				t.Errorf("Create: %v", err)
			}
			exposed := local.New(local.Options{State: r.state.Path(), World: func() hardening.World {
				w := r.world()
				w.Exposed = []string{where}
				return w
			}})
			defer exposed.Close()
			if err := exposed.Probe(context.Background()); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
				t.Errorf("Probe: %v", err)
			}
		})
	}
	r.leaks(t)
}
