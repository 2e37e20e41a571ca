//go:build linux && !sandbox_front

package orchestrator_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
	"github.com/bulkhead-dev/sandbox/orchestrator"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/providertest"
)

// started are the machines of the provider of the example, by sandbox name.
type started struct {
	mu sync.Mutex
	of map[string]provider.Machine
}

// TestProviderOfTheExample runs the suite of all providers over the one that the
// example registers.
func TestProviderOfTheExample(t *testing.T) {
	w := dockertest.NewLocal(t)
	all := &started{of: map[string]provider.Machine{}}
	specs := sync.Map{}                                           // by name
	stop := func(_ testing.TB, _ sandbox.Provider, name string) { // behind its back
		all.mu.Lock()
		m := all.of[name]
		all.mu.Unlock()
		m.Kill()
	}
	providertest.Run(t, providertest.Harness{
		New: func(t testing.TB) sandbox.Provider {
			o := daytonaOptions(orchestrator.Deps{World: func() hardening.World {
				return hardening.World{Canonical: hostpath.Canonical, Sensitive: []string{w.State.Path()}, Workspaces: []string{w.State.Workspaces()}}
			}})
			o.Start = func(ctx context.Context, s sandbox.Spec) (provider.Machine, error) {
				m, err := startMachine(ctx, s)
				if err == nil {
					all.mu.Lock()
					all.of[s.Name] = m
					all.mu.Unlock()
				}
				return m, err
			}
			p := provider.NewWithin(o)
			t.Cleanup(func() {
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			})
			return p
		},
		Spec: func(_ testing.TB, key string) sandbox.Spec {
			s := w.Spec(key)
			s.Provider, s.Options = "daytona", map[string]any{"target": "eu"}
			specs.Store(s.Name, s)
			return s
		},
		Behind: providertest.Behind{
			Stop: stop,
			Restart: func(t testing.TB, p sandbox.Provider, name string) {
				stop(t, p, name)
				s, _ := specs.Load(name)
				sb, err := p.Open(context.Background(), s.(sandbox.Spec))
				if err != nil {
					t.Fatal(err)
				}
				sb.Close()
			},
			Destroy: func(t testing.TB, p sandbox.Provider, name string) {
				if err := p.Remove(context.Background(), name); err != nil {
					t.Fatal(err)
				}
			},
		},
		Folder: func(t testing.TB, _ sandbox.Provider) string {
			dir := t.TempDir()
			for _, err := range []error{
				os.WriteFile(filepath.Join(dir, "file"), []byte(providertest.FolderContent), 0o600),
				os.Chmod(filepath.Join(dir, "file"), 0o666), os.Chmod(dir, 0o777),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			return dir
		},
		Without: map[string]string{
			"paused behind our back":                           "a bubblewrap process cannot be frozen: who stops its first process does not stop the others",
			"an engine that is down is unavailable, not empty": "there is no engine: the provider knows its sandboxes itself",
			"an engine that hangs times out":                   "there is no engine: the provider knows its sandboxes itself",
		},
	})
}

// TestProviderOfTheExampleIsShown holds that the page about providers shows the
// provider as it is, and that it stays short.
func TestProviderOfTheExampleIsShown(t *testing.T) {
	source, err := os.ReadFile("example_provider_test.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(source), "\n// daytona makes")
	text, _, ok := strings.Cut("// daytona makes"+text, "\n\n// A program with a provider")
	if !ok || !strings.Contains(string(page), text) {
		t.Error("docs/providers.md does not show the provider of the example")
	}
	if n := strings.Count(text, "\n") + 1; n > 60 {
		t.Errorf("the provider has %d lines", n)
	}
}
