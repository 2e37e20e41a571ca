package manager_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// imaged is a provider whose sandboxes are made from images.
type imaged struct{ sandbox.Provider }

func (p imaged) Features() sandbox.Features {
	f := p.Provider.Features()
	f.Images = true
	return f
}

// oneImage has one image, which every sandbox is made from.
type oneImage struct{}

func (oneImage) Volumes(context.Context, string) ([]string, error)         { return nil, nil }
func (oneImage) Current(context.Context, string, []string) (string, error) { return "sha256:one", nil }
func (oneImage) Ensure(context.Context, string, []string) (string, error)  { return "sha256:one", nil }

// TestSessionOfTwoProviders holds that a session that is used with two providers
// has two sandboxes: each is listed, swept and recreated as its own, and what one
// of them leaves stays with the other.
func TestSessionOfTwoProviders(t *testing.T) {
	t.Parallel()
	c := newMachine(t)
	c.docker, c.images = imaged{fake.New(fake.Options{Name: "docker"})}, oneImage{}
	m, ctx := c.manager(local, ""), context.Background()
	on := func(provider string) *config.SandboxSettings { return config.Overrides{Provider: provider}.Layer() }
	rows := func() map[string]sandbox.Status {
		l, err := m.List(ctx, manager.ListOptions{})
		must(t, err)
		out := map[string]sandbox.Status{}
		for _, r := range l.Containers {
			out[r.Provider] = r.Status
		}
		if len(out) != len(l.Containers) {
			t.Errorf("%+v", l.Containers)
		}
		return out
	}
	for range 2 { // there and back
		c.run(m, "mine", on("local"))
		c.run(m, "mine", on("docker"))
		if got := rows(); len(got) != 2 || got["docker"] != sandbox.StatusRunning || got["local"] != sandbox.StatusRunning {
			t.Fatalf("the sandboxes are %+v", got)
		}
	}
	swept := func(o manager.PruneOptions) manager.Pruned {
		t.Helper()
		o.DryRun = true
		would, err := m.Prune(ctx, o)
		must(t, err)
		o.DryRun = false
		did, err := m.Prune(ctx, o)
		must(t, err)
		order := func(a, b manager.Removed) int { return len(a.Provider) - len(b.Provider) }
		slices.SortFunc(would.Removed, order)
		slices.SortFunc(did.Removed, order)
		if !slices.EqualFunc(would.Removed, did.Removed, func(a, b manager.Removed) bool { return a.Name == b.Name && a.Provider == b.Provider }) || would.Kept != did.Kept {
			t.Errorf("prune has removed %+v and kept %d, and --dry-run says %+v and %d", did.Removed, did.Kept, would.Removed, would.Kept)
		}
		return did
	}
	if out := swept(manager.PruneOptions{}); len(out.Removed) != 0 || out.Kept != 2 {
		t.Errorf("%+v", out)
	}

	// One of them goes, by whatever way: the other stays, with the workspace.
	l, err := m.List(ctx, manager.ListOptions{})
	must(t, err)
	workspace := l.Containers[0].Workspace
	if workspace == "" || l.Containers[1].Workspace != workspace {
		t.Fatalf("%+v", l.Containers)
	}
	must(t, c.docker.Remove(ctx, l.Containers[0].Name)) // as who uses the engine without us
	if got := rows(); got["docker"] != sandbox.StatusMissing || got["local"] != sandbox.StatusRunning {
		t.Errorf("%+v", got)
	}
	if out := swept(manager.PruneOptions{Workspaces: true}); len(out.Removed) != 1 || out.Removed[0].Provider != "docker" || out.Kept != 1 {
		t.Errorf("%+v", out)
	}
	if _, err := os.Stat(workspace); err != nil {
		t.Errorf("the workspace of the other sandbox is gone: %v", err)
	}
	if got := rows(); len(got) != 1 || got["local"] != sandbox.StatusRunning {
		t.Errorf("%+v", got)
	}

	c.run(m, "mine", on("docker"))
	idle := time.Nanosecond
	if out := swept(manager.PruneOptions{Idle: &idle}); len(out.Removed) != 2 || out.Removed[0].Provider == "" || out.Removed[0].Provider == out.Removed[1].Provider {
		t.Errorf("%+v", out)
	}
	if got := rows(); len(got) != 0 {
		t.Errorf("%+v", got)
	}

	c.run(m, "mine", on("docker"))
	c.run(m, "mine", on("local"))
	chosen, err := m.Select(ctx, "", manager.Selector{Session: "mine"}, false)
	must(t, err)
	out := m.Recreate(ctx, chosen)
	if len(out.Removed) != 2 || len(out.Failed) != 0 || out.Removed[0] == out.Removed[1] {
		t.Errorf("%+v", out)
	}
	if got := rows(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestNameOfTwoProviders holds that a name that two providers have is the sandbox of
// the provider that the settings name, or of the one that the caller names, and an
// error where neither says which.
func TestNameOfTwoProviders(t *testing.T) {
	t.Parallel()
	c := newMachine(t)
	c.docker, c.images = imaged{fake.New(fake.Options{Name: "docker"})}, oneImage{}
	c.more = append(c.more, fake.New(fake.Options{}))
	m, ctx := c.manager(local, ""), context.Background()
	c.run(m, "mine", config.Overrides{Provider: "docker"}.Layer()) // recorded first
	c.run(m, "mine", config.Overrides{Provider: "local"}.Layer())
	name, err := m.Name(config.Who{Agent: config.DefaultAgent, Session: "mine"}, nil)
	must(t, err)
	for given, want := range map[string]string{"": "local", "docker": "docker", "local": "local"} {
		if rec, err := m.Recorded(ctx, "", name, given); err != nil || rec.Provider != want {
			t.Errorf("provider %q: the record of %q, %v", given, rec.Provider, err)
		}
		if row, err := m.Find(ctx, "", name, given); err != nil || row.Provider != want || row.Status != sandbox.StatusRunning {
			t.Errorf("provider %q: %+v, %v", given, row, err)
		}
	}
	for _, none := range []string{"fake", "nowhere"} {
		if _, err := m.Recorded(ctx, "", name, none); !sandbox.IsNotFound(err) {
			t.Errorf("provider %q: %v", none, err)
		}
	}
	third, err := config.Parse("test", []byte(strings.Replace(local, `"local"`, `"fake"`, 1)))
	must(t, err)
	m.Reload(third)
	_, err = m.Recorded(ctx, "", name, "")
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != sandbox.CodeValidation || e.Field != "provider" || !strings.Contains(e.Hint, "docker or local") {
		t.Errorf("neither is the settings': %v", err)
	}
	if rec, err := m.Recorded(ctx, "", name, "docker"); err != nil || rec.Provider != "docker" {
		t.Errorf("%+v, %v", rec, err)
	}
}
