package manager_test

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/registry"
)

// A machine has sandboxes called docker and local, both in memory, and a state
// folder.
type machine struct {
	t             *testing.T
	state         *statedir.Dir
	docker, local sandbox.Provider
	more          []sandbox.Provider // beside them
	lookup        func(context.Context, string) ([]netip.Addr, error)
	images        manager.Images // or nil, where none may be asked for
	log           *logBuffer
	reload        func() (*config.Settings, error) // or nil
}

// noEngine is a provider of which nothing answers.
func noEngine() sandbox.Provider {
	return provider.Unusable("docker", &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "ask", Message: "no engine"})
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	state, err := statedir.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	return &machine{t: t, state: state, docker: noEngine(), local: fake.New(fake.Options{Name: "local"}), log: &logBuffer{}}
}

// manager returns a manager whose calls name the provider chosen, if any.
func (c *machine) manager(settings, chosen string) *manager.Manager {
	c.t.Helper()
	parsed, err := config.Parse("test", []byte(settings))
	must(c.t, err)
	set, err := provider.New(append([]sandbox.Provider{c.docker, c.local}, c.more...)...)
	must(c.t, err)
	log := logrus.New()
	log.SetOutput(io.MultiWriter(c.log))
	if c.images == nil {
		c.images = nowhere{}
	}
	m, err := manager.New(manager.Options{
		Settings: parsed, State: c.state, Providers: set, Images: c.images, Log: log, Provider: chosen, Reload: c.reload,
		Host: manager.Host{CPUs: 2, Memory: 8 << 30, Lookup: c.lookup, Guest: func() (sandbox.GuestRef, error) {
			return sandbox.GuestRef{Dir: "/guest", Digest: strings.Repeat("0", 64)}, nil
		}},
	})
	must(c.t, err)
	c.t.Cleanup(func() { m.Close() })
	return m
}

// nowhere holds no images, and must not be asked for one.
type nowhere struct{}

var errAsked = errors.New("asked for an image")

func (nowhere) Volumes(context.Context, string) ([]string, error)         { return nil, nil }
func (nowhere) Current(context.Context, string, []string) (string, error) { return "", errAsked }
func (nowhere) Ensure(context.Context, string, []string) (string, error)  { return "", errAsked }

func (c *machine) run(m *manager.Manager, session string, flags *config.SandboxSettings) {
	c.t.Helper()
	out, err := m.Run(context.Background(), manager.Request{
		Who: config.Who{Agent: "main", Session: session}, Flags: flags, Command: sandbox.Command{Args: []string{"true"}},
	})
	if err != nil || out.Exit.Code != 0 {
		c.t.Fatalf("run: %+v, %v", out, err)
	}
}

const (
	local  = `{"agents": {"defaults": {"sandbox": {"provider": "local"}}}}`
	auto   = `{"agents": {"defaults": {"sandbox": {"provider": "auto"}}}}`
	plain  = `{}`
	either = `{"agents": {"defaults": {"sandbox": {"provider": "local"}}, "list": [{"id": "b", "sandbox": {"provider": "docker"}}]}}`
)

// TestProviderOfTheProgram holds that the sandbox that a program names is that of
// each call that names none, whatever the settings say and also when they
// change, and of no other.
func TestProviderOfTheProgram(t *testing.T) {
	t.Parallel()
	for what, text := range map[string]string{"no settings": "{}", "settings say docker": `{"agents": {"list": [{"id": "main", "sandbox": {"provider": "docker"}}]}}`} {
		t.Run(what, func(t *testing.T) {
			c := newMachine(t)
			now, err := config.Parse("test", []byte(text))
			must(t, err)
			c.reload = func() (*config.Settings, error) { return now, nil }
			m := c.manager(text, "local")
			c.run(m, "one", nil)
			now, err = config.Parse("test", []byte(text))
			must(t, err)
			c.run(m, "two", nil)
			req := manager.Request{Who: config.Who{Agent: "main", Session: "three"}, Flags: config.Overrides{Provider: "docker"}.Layer(), Command: sandbox.Command{Args: []string{"true"}}}
			if _, err := m.Run(context.Background(), req); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
				t.Errorf("with a flag: %v", err)
			}
			l, err := m.List(context.Background(), manager.ListOptions{})
			must(t, err)
			for _, r := range l.Containers {
				if r.Provider != "local" || r.ConfigMatch == nil || !*r.ConfigMatch {
					t.Errorf("%+v", r)
				}
			}
			if len(l.Containers) != 2 {
				t.Errorf("%d sandboxes", len(l.Containers))
			}
		})
	}
}

// TestSilenceOfAnEngineThatNobodyWants checks that a machine without Docker
// lists, measures and sweeps without a failure when neither settings nor
// records name Docker, and with one when they do.
func TestSilenceOfAnEngineThatNobodyWants(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, settings, chosen string
		recorded               bool // a sandbox of docker
		fails                  bool
	}{
		{"settings say local", local, "", false, false},
		{"settings say auto", auto, "", false, false},
		{"a flag says local", plain, "local", false, false},
		{"settings say docker", plain, "", false, true},
		{"settings say docker for one agent", either, "", false, true},
		{"a flag says docker", local, "docker", false, true},
		{"one is recorded", local, "", true, true},
		{"one is recorded, a flag says local", plain, "local", true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newMachine(t)
			m, ctx := c.manager(tt.settings, tt.chosen), context.Background()
			c.run(m, "mine", config.Overrides{Provider: "local"}.Layer())
			rows := 1
			if tt.recorded {
				c.record("sbx-old-0000000000000000")
				rows++
			}
			l, err := m.List(ctx, manager.ListOptions{})
			if got := err != nil; got != tt.fails {
				t.Errorf("list says %v", err)
			}
			if len(l.Containers) != rows {
				t.Fatalf("%d rows: %+v", len(l.Containers), l.Containers)
			}
			for _, r := range l.Containers {
				if want := map[string]sandbox.Status{"docker": sandbox.StatusUnknown, "local": sandbox.StatusRunning}[r.Provider]; r.Status != want {
					t.Errorf("%s of %s is %s, want %s", r.Name, r.Provider, r.Status, want)
				}
			}
			_, stats := m.Stats(ctx, "")
			_, swept := m.Prune(ctx, manager.PruneOptions{Workspaces: true})
			for what, err := range map[string]error{"stats": stats, "prune": swept} {
				if got := err != nil; got != tt.fails {
					t.Errorf("%s says %v", what, err)
				}
			}
		})
	}
}

// record writes the record of a sandbox of docker.
func (c *machine) record(name string) {
	c.t.Helper()
	records, err := registry.Open(c.state.Registry())
	must(c.t, err)
	must(c.t, records.Put(registry.Record{
		Name: name, Kind: sandbox.KindSandbox, Provider: "docker", Instance: c.state.Instance(), Agent: "main", Session: "old",
		Scope: sandbox.ScopeSession, ScopeKey: "old", CreatedAt: time.Now(), LastUsedAt: time.Now(),
	}))
}

// TestForgottenWorkspacesGoWithoutAnEngine checks that an unwanted engine that
// does not answer keeps no leftovers alive, and that a wanted one does.
func TestForgottenWorkspacesGoWithoutAnEngine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		settings string
		gone     int
	}{{local, 1}, {plain, 0}} {
		c := newMachine(t)
		m := c.manager(tt.settings, "")
		c.run(m, "mine", config.Overrides{Provider: "local"}.Layer())
		rows, err := c.manager(local, "").Select(context.Background(), "", manager.Selector{Session: "mine"}, false)
		must(t, err)
		if r := m.Recreate(context.Background(), rows); len(r.Removed) != 1 {
			t.Fatalf("%+v", r)
		}
		out, err := m.Prune(context.Background(), manager.PruneOptions{Workspaces: true})
		if len(out.Removed) != tt.gone || (err != nil) != (tt.gone == 0) {
			t.Errorf("with %s: %+v, %v", tt.settings, out, err)
		}
	}
}

// TestListingTellsOfASandboxWithoutImages holds that settings are compared
// though there is no image to compare, and none is asked for.
func TestListingTellsOfASandboxWithoutImages(t *testing.T) {
	t.Parallel()
	c := newMachine(t)
	m := c.manager(local, "")
	c.run(m, "mine", nil)
	l, err := m.List(context.Background(), manager.ListOptions{})
	must(t, err)
	r := l.Containers[0]
	if r.ImageMatch != nil || r.ConfigMatch == nil || !*r.ConfigMatch {
		t.Errorf("image %v, settings %v", r.ImageMatch, r.ConfigMatch)
	}
}

// TestSessionThatChangedItsSandbox holds that the older sandbox of a session is
// an orphan and not taken for the newer one.
func TestSessionThatChangedItsSandbox(t *testing.T) {
	t.Parallel()
	c := newMachine(t)
	c.docker = fake.New(fake.Options{Name: "docker"})
	m, ctx := c.manager(local, ""), context.Background()
	c.run(m, "mine", nil)
	l, err := m.List(ctx, manager.ListOptions{})
	must(t, err)
	info, err := c.local.Inspect(ctx, l.Containers[0].Name)
	must(t, err)
	_, err = c.docker.Create(ctx, sandbox.Spec{Name: info.Name, Kind: info.Kind, Provider: "docker", Owner: info.Owner, UID: 1, GID: 1, Security: sandbox.Security{NoNewPrivileges: true}})
	must(t, err)
	l, err = m.List(ctx, manager.ListOptions{})
	must(t, err)
	got := map[string]sandbox.Status{}
	for _, r := range l.Containers {
		got[r.Provider] = r.Status
	}
	if len(l.Containers) != 2 || got["docker"] != sandbox.StatusOrphan || got["local"] != sandbox.StatusRunning {
		t.Errorf("%+v", l.Containers)
	}
}

// TestImageOfASandboxWithoutImages holds that an image that a call names is
// refused and never left out in silence, and one of the settings, which are
// for every provider, is no part of the sandbox.
func TestImageOfASandboxWithoutImages(t *testing.T) {
	t.Parallel()
	c := newMachine(t)
	m := c.manager(`{"agents": {"defaults": {"sandbox": {"provider": "local", "docker": {"image": "debian:12"}}}}}`, "")
	c.run(m, "mine", nil)
	l, err := m.List(context.Background(), manager.ListOptions{})
	must(t, err)
	if l.Containers[0].Image != "" {
		t.Errorf("the image is %q", l.Containers[0].Image)
	}
	_, err = m.Run(context.Background(), manager.Request{
		Who: config.Who{Agent: "main", Session: "other"}, Flags: config.Overrides{Image: "alpine"}.Layer(), Command: sandbox.Command{Args: []string{"true"}},
	})
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != sandbox.CodeUnsupported || e.Field != "docker.image" {
		t.Errorf("%v", err)
	}
}
