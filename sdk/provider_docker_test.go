package sdk_test

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
	"github.com/bulkhead-dev/sandbox/internal/testenv/wall"
	"github.com/bulkhead-dev/sandbox/provider/docker"
	"github.com/bulkhead-dev/sandbox/provider/providertest"
)

// TestConformanceOfDocker runs the suite of all walls through a daemon on a
// real socket, with the real engine behind it.
func TestConformanceOfDocker(t *testing.T) {
	testenv.Exhaustive(t, "the suite of all walls again, over HTTP and with another provider")
	r := wall.New(t)
	id, err := exec.Command("docker", "image", "inspect", "-f", "{{.Id}}", wall.Image).Output()
	must(t, err)
	behind := func(args ...string) func(testing.TB, sandbox.Provider, string) {
		return func(t testing.TB, _ sandbox.Provider, name string) {
			t.Helper()
			if out, err := exec.Command("docker", append(args, name)...).CombinedOutput(); err != nil {
				t.Fatalf("docker %v: %v: %s", args, err, out)
			}
		}
	}
	connect := func(t testing.TB, d container.Deadlines) sandbox.Provider {
		api, err := container.Dial()
		must(t, err)
		e := container.New(api, d)
		t.Cleanup(func() { e.Close() })
		return docker.New(e, docker.Options{Sockets: r.State, World: r.World, Protection: filepath.Join(r.State.Path(), "docker")})
	}
	connectTo := func(t testing.TB, sock string) sandbox.Provider {
		t.Setenv("DOCKER_HOST", "unix://"+sock)
		// What hangs does so for ever: a second tells that as well as ten.
		return connect(t, container.Deadlines{Query: time.Second, Create: time.Second, Change: time.Second, Start: time.Second})
	}
	providertest.Run(t, through(providertest.Harness{
		New: func(t testing.TB) sandbox.Provider { return connect(t, testenv.Patient()) },
		Spec: func(_ testing.TB, key string) sandbox.Spec {
			s := r.Spec(key)
			s.ImageID = strings.TrimSpace(string(id))
			s.Resources.PIDs = 512
			return s
		},
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
		Down: func(t testing.TB) sandbox.Provider { return connectTo(t, filepath.Join(t.TempDir(), "none.sock")) },
		Hanging: func(t testing.TB) sandbox.Provider {
			sock := filepath.Join(t.TempDir(), "hang.sock")
			l, err := net.Listen("unix", sock)
			must(t, err)
			t.Cleanup(func() { l.Close() })
			return connectTo(t, sock)
		},
	}))
}
