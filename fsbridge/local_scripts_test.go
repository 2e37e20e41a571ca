package fsbridge_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/fsbridge/fstests"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// TestLocalScripts runs the suite with scripts that are commands of a sandbox of
// the local provider, which has no engine to start them with.
func TestLocalScripts(t *testing.T) {
	testenv.Exhaustive(t, "the scripts in the sandbox of a further provider")
	fstests.Run(t, fstests.Harness{Rounds: 100, New: func(t testing.TB) fstests.Rig {
		w := dockertest.NewLocal(t)
		s := w.Spec("files")
		ro := t.TempDir()
		must(t, os.Chmod(ro, 0o755))
		must(t, os.WriteFile(filepath.Join(ro, "file"), []byte("read-only\n"), 0o644))
		s.Mounts = append(s.Mounts, sandbox.Mount{Source: ro, Target: "/ro", ReadOnly: true, Role: sandbox.RoleBind})
		s.Tmpfs = append(s.Tmpfs, sandbox.Tmpfs{Target: "/var/tmp", Size: 256 << 20, Mode: 0o1777}, sandbox.Tmpfs{Target: "/small", Size: 4 << 20, Mode: 0o700, Owned: true})
		_, err := w.P.Create(context.Background(), s)
		must(t, err)
		t.Cleanup(func() { must(t, w.P.Remove(context.Background(), s.Name)) })
		sb, err := w.P.Open(context.Background(), s)
		must(t, err)
		t.Cleanup(func() { sb.Close() })
		p, err := sb.Start(context.Background(), sandbox.Command{Args: []string{"true"}}) // it brings up what watches the host
		must(t, err)
		_, err = p.Wait()
		must(t, err)
		b, err := fsbridge.OpenBy(context.Background(), sandbox.FSScript, sb, s.Mounts, s.Tmpfs)
		must(t, err)
		if got := b.Transport(); got.Name != fsbridge.TransportScript || !got.Durable || got.Note != "" {
			t.Fatalf("transport %+v", got)
		}
		workspace := source(s, sandbox.WorkspaceDir)
		return fstests.Rig{
			Sandbox: sb, Files: b, Dir: sandbox.WorkspaceDir, Outside: "/var/tmp", ReadOnly: "/ro", Small: "/small",
			Swap: func(t testing.TB, a, b string) func() { return swap(inHost(workspace, a), inHost(workspace, b)) },
		}
	}})
}
