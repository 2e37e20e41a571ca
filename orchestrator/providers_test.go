package orchestrator_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/orchestrator"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// A cloud is a provider of a program's own.
type cloud struct {
	*fake.Provider
	closed *int
}

func (c cloud) Holds() []provider.Setting { return provider.Settings() }
func (c cloud) Close() error              { *c.closed++; return nil }

func clouds(name string, closed *int) orchestrator.Registration {
	return orchestrator.Registration{Name: name, New: func(orchestrator.Deps) (sandbox.Provider, error) {
		return cloud{fake.New(fake.Options{Name: name}), closed}, nil
	}}
}

// TestRegistrationsRefused holds that no provider takes the place of another, and
// that one which cannot be made leaves nothing behind.
func TestRegistrationsRefused(t *testing.T) {
	closed := 0
	gives := func(p sandbox.Provider, err error) orchestrator.Registration {
		return orchestrator.Registration{Name: "own", New: func(orchestrator.Deps) (sandbox.Provider, error) { return p, err }}
	}
	type list = []orchestrator.Registration
	tests := []struct {
		name string
		list list
		code sandbox.Code
		says string
	}{
		{"docker", list{clouds("docker", &closed)}, sandbox.CodeValidation, `"docker" is the name of a built-in provider`},
		{"local", list{clouds("local", &closed)}, sandbox.CodeValidation, "built-in"},
		{"auto", list{clouds("auto", &closed)}, sandbox.CodeValidation, "built-in"},
		{"host", list{clouds("host", &closed)}, sandbox.CodeValidation, "built-in"},
		{"fake", list{clouds("fake", &closed)}, sandbox.CodeValidation, "built-in"},
		{"no name", list{clouds("", &closed)}, sandbox.CodeValidation, "cannot be the name"},
		{"capitals", list{clouds("Docker", &closed)}, sandbox.CodeValidation, "cannot be the name"},
		{"a path", list{clouds("../x", &closed)}, sandbox.CodeValidation, "cannot be the name"},
		{"other letters", list{clouds("dаytona", &closed)}, sandbox.CodeValidation, "cannot be the name"}, // the second one is Cyrillic
		{"twice", list{clouds("own", &closed), clouds("own", &closed)}, sandbox.CodeValidation, `"own" is registered twice`},
		{"no function", list{{Name: "own"}}, sandbox.CodeValidation, "no function"},
		{"nothing made", list{gives(nil, nil)}, sandbox.CodeValidation, "returned no provider"},
		{"an error", list{gives(nil, errors.New("no account"))}, sandbox.CodeUnavailable, "no account"},
		{"an error with a code", list{gives(nil, sandbox.Errorf(sandbox.CodePermissionDeny, "log in", "expired"))}, sandbox.CodePermissionDeny, "expired"},
		{"another name", list{gives(cloud{fake.New(fake.Options{Name: "other"}), new(int)}, nil)}, sandbox.CodeValidation, `calls itself "other"`},
		{"does not say what it holds", list{gives(fake.New(fake.Options{Name: "own"}), nil)}, sandbox.CodeValidation, "provider.Holder"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			closed = 0
			first := clouds("first", &closed)
			h, err := orchestrator.Open(orchestrator.Options{StateDir: t.TempDir(), Providers: append(list{first}, tt.list...)})
			if h != nil || sandbox.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "Providers[") && !strings.Contains(fieldOf(err), "Providers[") {
				t.Errorf("%v, %v", h, err)
			}
			made := strings.Contains(tt.name, "made") || strings.Contains(tt.name, "error") || tt.name == "another name" || strings.Contains(tt.name, "holds")
			if made != (closed == 1) {
				t.Errorf("the one before was closed %d times", closed)
			}
		})
	}
}

func fieldOf(err error) string {
	if e, ok := errors.AsType[*sandbox.Error](err); ok {
		return e.Field
	}
	return ""
}

// TestOwnProvider holds that a provider of a program's own is used like the
// built-in ones: by settings, by a flag and by the program, listed, explained,
// kept in settings that are edited, recreated, pruned, and closed with the Orchestrator.
func TestOwnProvider(t *testing.T) {
	ctx, dir, closed := context.Background(), t.TempDir(), 0
	file := filepath.Join(dir, "sandbox.json")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(file, []byte(`{"agents": {"defaults": {"sandbox": {"provider": "local"}}, "list": [{"id": "far", "sandbox": {"provider": "cloud"}}]}}`), 0o600))
	var deps orchestrator.Deps
	own := clouds("cloud", &closed)
	o := orchestrator.Options{ConfigFile: file, StateDir: filepath.Join(dir, "state"), Providers: []orchestrator.Registration{{Name: own.Name, New: func(d orchestrator.Deps) (sandbox.Provider, error) {
		deps = d
		return own.New(d)
	}}}}
	h, err := orchestrator.Open(o)
	must(err)
	if st, err := os.Stat(deps.State); err != nil || !st.IsDir() || st.Mode().Perm() != 0o700 || deps.Instance != h.State().Instance() || deps.World == nil || deps.Warn == nil {
		t.Errorf("it was made from %+v, %v", deps, err)
	}
	m, err := h.Manager()
	must(err)
	run := func(m *manager.Manager, agent string, flags *config.SandboxSettings) error {
		_, err := m.Run(ctx, manager.Request{Who: config.Who{Agent: agent, Session: "s"}, Flags: flags, Command: sandbox.Command{Args: []string{"true"}}})
		return err
	}
	must(run(m, "far", nil))
	must(run(m, "near", config.Overrides{Provider: "cloud"}.Layer()))
	if err := run(m, "near", config.Overrides{Provider: "cluod"}.Layer()); sandbox.CodeOf(err) != sandbox.CodeValidation || !strings.Contains(err.Error(), `did you mean "cloud"`) {
		t.Errorf("an unknown one: %v", err)
	}
	l, err := m.List(ctx, manager.ListOptions{})
	must(err)
	if len(l.Containers) != 2 || l.Containers[0].Provider != "cloud" || l.Containers[0].Status != sandbox.StatusRunning {
		t.Errorf("%+v", l.Containers)
	}
	far := config.Who{Agent: "far", Session: "s"}
	x, err := m.Explain(ctx, far, nil, manager.Questions{})
	must(err)
	if x.Provider != "cloud" || x.ProviderReason != "set by agents.list[far]" || len(x.Problems) > 0 || !strings.HasPrefix(x.Next, "use") && !strings.HasPrefix(x.Next, "reuse") {
		t.Errorf("explain: %q because %q, problems %q, next %q", x.Provider, x.ProviderReason, x.Problems, x.Next)
	}

	// A program without the provider sees its records and judges nothing by
	// their absence.
	plain, err := orchestrator.Open(orchestrator.Options{StateDir: o.StateDir, ConfigFile: writeFile(t, `{"agents": {"defaults": {"sandbox": {"provider": "local"}}}}`)})
	must(err)
	defer plain.Close()
	pm, err := plain.Manager()
	must(err)
	l, err = pm.List(ctx, manager.ListOptions{})
	must(err)
	if len(l.Containers) != 2 || l.Containers[0].Status != sandbox.StatusUnknown {
		t.Errorf("without the provider: %+v", l.Containers)
	}
	nothing := pruned(t, pm)
	if len(nothing.Removed) > 0 {
		t.Errorf("a program without the provider has pruned %+v", nothing)
	}
	if out := pm.Recreate(ctx, l.Containers[:1]); len(out.Removed) > 0 || len(out.Failed) != 1 {
		t.Errorf("a program without the provider has recreated %+v", out)
	}
	if _, err := orchestrator.Open(orchestrator.Options{StateDir: o.StateDir, ConfigFile: file}); sandbox.CodeOf(err) != sandbox.CodeValidation || fieldOf(err) != "agents.list[0].sandbox.provider" || !strings.Contains(err.Error(), "orchestrator.Options.Providers") {
		t.Errorf("settings that name it: %v", err)
	}

	rows, err := m.Select(ctx, "", manager.Selector{Agent: "far"}, false)
	must(err)
	if out := m.Recreate(ctx, rows); len(out.Removed) != 1 || len(out.Failed) > 0 {
		t.Errorf("recreate: %+v", out)
	}
	must(run(m, "far", nil))
	if out := pruned(t, m); len(out.Removed) != 2 || len(out.Failed) > 0 {
		t.Errorf("prune: %+v", out)
	}
	h.Close()
	if closed != 1 {
		t.Errorf("it was closed %d times", closed)
	}
}

// pruned removes all that is not in use.
func pruned(t *testing.T, m *manager.Manager) manager.Pruned {
	t.Helper()
	idle := manager.PruneOptions{Idle: new(time.Nanosecond)}
	out, err := m.Prune(context.Background(), idle)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sandbox.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOwnProviderWithoutFile holds that a program may name its provider where
// there are no settings, and that sandboxes which end with the program are made
// anew by the next one.
func TestOwnProviderWithoutFile(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("SANDBOX_CONFIG", "")
	state, ctx := t.TempDir(), context.Background()
	for i := range 2 {
		h, err := orchestrator.Open(orchestrator.Options{StateDir: state, Provider: "cloud", Providers: []orchestrator.Registration{clouds("cloud", new(int))}})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		m, err := h.Manager()
		if err != nil {
			t.Fatal(err)
		}
		status := func() (all []sandbox.Status) {
			l, err := m.List(ctx, manager.ListOptions{})
			if err != nil {
				t.Error(err)
			}
			for _, r := range l.Containers {
				all = append(all, r.Status)
			}
			return all
		}
		if got := status(); i > 0 && (len(got) != 1 || got[0] != sandbox.StatusMissing) {
			t.Errorf("before a use the sandboxes are %v", got)
		}
		if _, err := m.Run(ctx, manager.Request{Who: config.Who{Agent: "main", Session: "s"}, Command: sandbox.Command{Args: []string{"true"}}}); err != nil {
			t.Error(err)
		}
		if got := status(); len(got) != 1 || got[0] != sandbox.StatusRunning {
			t.Errorf("after a use the sandboxes are %v", got)
		}
		h.Close()
	}
}
