//go:build linux

package tools

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/client"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/images"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/docker"
	"github.com/bulkhead-dev/sandbox/provider/local"
)

// onProviders runs a test on each real provider.
func onProviders(t *testing.T, settings string, fn func(t *testing.T, r *rig)) {
	t.Run("docker", func(t *testing.T) { fn(t, newDocker(t, settings)) })
	t.Run("local", func(t *testing.T) { fn(t, newLocal(t, settings)) })
}

// newDocker has containers of the real engine.
func newDocker(t testing.TB, more string, change ...func(*Options)) *rig {
	t.Helper()
	testenv.Require(t, "docker")
	testenv.Require(t, "root")
	state, err := statedir.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	parsed, err := config.Parse("test", []byte(sandboxed("docker", more)))
	must(t, err)
	api, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	must(t, err)
	t.Cleanup(func() { api.Close() })
	engine := container.New(api, testenv.Patient())
	t.Cleanup(func() { cleared(t, engine, state.Instance()) })
	sensitive := []string{state.Path(), "/run/docker.sock"}
	p := docker.New(engine, docker.Options{Sockets: state, Images: testenv.Images(), Instance: state.Instance(), Protection: filepath.Join(state.Path(), "docker"), World: func() hardening.World {
		return hardening.World{Canonical: hostpath.Canonical, Sensitive: sensitive, Workspaces: []string{state.Workspaces()}}
	}})
	set, err := provider.New(p)
	must(t, err)
	return raised(t, manager.Options{
		Settings: parsed, State: state, Providers: set,
		Images: images.Source{Store: images.New(api, images.Config{LockDir: filepath.Join(state.Locks(), "images")})},
		Host:   hostOf(t, state, sensitive),
	}, change...)
}

// cleared removes what a test has left on the engine.
func cleared(t testing.TB, engine *container.Engine, instance string) {
	ctx, done := context.WithTimeout(context.Background(), 10*time.Minute)
	defer done()
	infos, err := engine.List(ctx, sandbox.Filter{Instance: instance})
	if err != nil {
		t.Error(err)
	}
	for _, info := range infos {
		if err := engine.Remove(ctx, info.ID); err != nil {
			t.Error(err)
		}
	}
}

// newLocal has sandboxes of bubblewrap.
func newLocal(t testing.TB, more string) *rig {
	t.Helper()
	testenv.Require(t, "local")
	state, err := statedir.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	parsed, err := config.Parse("test", []byte(sandboxed("local", more)))
	must(t, err)
	sensitive := []string{state.Path()}
	made := local.New(local.Options{State: state.Path(), World: func() hardening.World {
		return hardening.World{Canonical: hostpath.Canonical, Sensitive: sensitive, Workspaces: []string{state.Workspaces()}}
	}})
	t.Cleanup(func() { made.Close() })
	set, err := provider.New(made)
	must(t, err)
	return raised(t, manager.Options{Settings: parsed, State: state, Providers: set, Images: nowhere{}, Host: hostOf(t, state, sensitive)})
}

func hostOf(t testing.TB, state *statedir.Dir, sensitive []string) manager.Host {
	return manager.Host{CPUs: runtime.NumCPU(), Memory: 8 << 30, Sensitive: sensitive,
		Guest: sync.OnceValues(func() (sandbox.GuestRef, error) { return state.InstallGuest(testenv.Guest(t)) })}
}

// workspace is the folder of the host that is the session's workspace.
func (r *rig) workspace() string {
	r.t.Helper()
	entries, err := os.ReadDir(r.state.Workspaces())
	must(r.t, err)
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			return filepath.Join(r.state.Workspaces(), e.Name())
		}
	}
	r.t.Fatal("there is no workspace")
	return ""
}
