package docker_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
	"github.com/bulkhead-dev/sandbox/provider/docker"
	"github.com/bulkhead-dev/sandbox/provider/providertest"
)

// TestConformance runs the suite of all providers on the real engine, with
// "make test-all" over both transports to the guest. TestRelay and others use
// the relay in every run.
func TestConformance(t *testing.T) {
	t.Run("socket", func(t *testing.T) { conformance(t, func(s sandbox.Spec) sandbox.Spec { return s }) })
	t.Run("relay", func(t *testing.T) {
		testenv.Exhaustive(t, "the suite over another way to the guest")
		conformance(t, withoutSocket)
	})
}

func conformance(t *testing.T, way func(sandbox.Spec) sandbox.Spec) {
	r := dockertest.New(t)
	id, err := exec.Command("docker", "image", "inspect", "-f", "{{.Id}}", dockertest.Image).Output()
	must(t, err)
	// behind uses the engine's own tool, which knows nothing of us.
	behind := func(args ...string) func(testing.TB, sandbox.Provider, string) {
		return func(t testing.TB, _ sandbox.Provider, name string) {
			t.Helper()
			if out, err := exec.Command("docker", append(args, name)...).CombinedOutput(); err != nil {
				t.Fatalf("docker %v: %v: %s", args, err, out)
			}
		}
	}
	connectWith := func(t testing.TB, d container.Deadlines) sandbox.Provider {
		api, err := container.Dial()
		must(t, err)
		e := container.New(api, d)
		t.Cleanup(func() { e.Close() })
		return docker.New(e, docker.Options{Sockets: r.State, World: r.World, Images: testenv.Images()})
	}
	connect := func(t testing.TB) sandbox.Provider { return connectWith(t, testenv.Patient()) }
	connectTo := func(t testing.TB, sock string) sandbox.Provider {
		t.Setenv("DOCKER_HOST", "unix://"+sock)
		// What hangs does so for ever: a second tells that as well as ten.
		return connectWith(t, container.Deadlines{Query: time.Second, Create: time.Second, Change: time.Second, Start: time.Second})
	}
	without := map[string]string{}
	if !r.Engine.Groups() {
		without["paused behind our back"] = "the engine gives containers no control groups, so it cannot pause them"
	}
	exchange := func(t testing.TB, _ sandbox.Spec, content string) *os.File {
		if os.Geteuid() != 0 {
			return nil
		}
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "file"), []byte(content), 0o644))
		must(t, os.Chmod(dir, 0o777))
		return detachedClone(t, dir)
	}
	providertest.Run(t, providertest.Harness{
		Together: true,
		Without:  without,
		New:      connect,
		Spec: func(_ testing.TB, key string) sandbox.Spec {
			s := way(r.Spec(key))
			s.ImageID = strings.TrimSpace(string(id))
			s.Resources.PIDs = 512
			return s
		},
		Reconnect: func(t testing.TB, _ sandbox.Provider) sandbox.Provider { return connect(t) },
		Behind: providertest.Behind{
			Stop: behind("kill"), Pause: behind("pause"), Restart: behind("restart", "-t", "0"), Destroy: behind("rm", "-f"),
		},
		Folder: func(t testing.TB, _ sandbox.Provider) string {
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, "file"), []byte(providertest.FolderContent), 0o600))
			must(t, os.Chmod(dir, 0o777))
			must(t, os.Chmod(filepath.Join(dir, "file"), 0o666))
			return dir
		},
		Exchange: exchange,
		Down: func(t testing.TB) sandbox.Provider {
			return connectTo(t, filepath.Join(t.TempDir(), "none.sock"))
		},
		Hanging: func(t testing.TB) sandbox.Provider {
			sock := filepath.Join(t.TempDir(), "hang.sock")
			l, err := net.Listen("unix", sock)
			must(t, err)
			t.Cleanup(func() { l.Close() })
			return connectTo(t, sock)
		},
	})
}
