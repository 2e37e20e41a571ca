package manager_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// A holding provider says which settings it holds.
type holding struct {
	*fake.Provider
	held []provider.Setting
}

func (h holding) Holds() []provider.Setting { return h.held }

// TestWhatAProviderHolds checks that no sandbox is made where settings ask for
// what the provider does not enforce, and that explain names the defaults that
// it does not enforce.
func TestWhatAProviderHolds(t *testing.T) {
	t.Parallel()
	network := []provider.Setting{provider.HoldsNetwork}
	folder := t.TempDir()
	if os.Geteuid() == 0 {
		must(t, os.Chown(folder, 1000, 1000)) // no sandbox works for root
	}
	tests := []struct {
		name, settings string
		held           []provider.Setting
		flags          *config.SandboxSettings
		field          string // refused
	}{
		{"nothing, by default", ``, nil, nil, "docker.network"},
		{"nothing, and no network asked for", `"docker": {"network": "none"}`, nil, nil, "agents.defaults.sandbox.docker.network"},
		{"nothing, and any network will do", `"docker": {"network": "bridge"}`, nil, nil, ""},
		{"the network alone", ``, network, nil, ""},
		{"all", `"docker": {"memory": "64m", "cpus": 1, "dns": ["1.1.1.1"], "gpus": "all", "network": "own"}, "filesystem": {"denyRead": ["/x"]}`, provider.Settings(), nil, ""},
		{"memory", `"docker": {"memory": "64m"}`, network, nil, "agents.defaults.sandbox.docker.memory"},
		{"swap", `"docker": {"memorySwap": "4g"}`, network, nil, "agents.defaults.sandbox.docker.memorySwap"},
		{"memory, held", `"docker": {"memory": "64m"}`, append(network, provider.HoldsMemory), nil, ""},
		{"cpus", `"docker": {"cpus": 1}`, network, nil, "agents.defaults.sandbox.docker.cpus"},
		{"pids", `"docker": {"pidsLimit": 99}`, network, nil, "agents.defaults.sandbox.docker.pidsLimit"},
		{"a preset that somebody names", `"preset": "strict", "requireEvidence": false`, network, nil, "preset strict.docker"},
		{"ulimits", `"docker": {"ulimits": {"nofile": "64"}}`, network, nil, "agents.defaults.sandbox.docker.ulimits"},
		{"runtime", `"docker": {"runtime": "runsc"}`, network, nil, "agents.defaults.sandbox.docker.runtime"},
		{"gpus", `"docker": {"gpus": "all"}`, network, nil, "agents.defaults.sandbox.docker.gpus"},
		{"setup", `"docker": {"setup": ["true"]}`, network, nil, "agents.defaults.sandbox.docker.setup"},
		{"onStart", `"docker": {"onStart": ["true"]}`, network, nil, "agents.defaults.sandbox.docker.onStart"},
		{"hosts", `"docker": {"extraHosts": ["a:1.2.3.4"]}`, network, nil, "agents.defaults.sandbox.docker.extraHosts"},
		{"user", `"docker": {"user": "1000"}`, network, nil, "agents.defaults.sandbox.docker.user"},
		{"filesystem", `"filesystem": {"denyRead": ["/x"]}`, network, nil, "agents.defaults.sandbox.filesystem.denyRead"},
		{"limits", `"limits": {"memory": "64m"}`, network, nil, "agents.defaults.sandbox.limits.memory"},
		{"limits that the caller holds", `"limits": {"timeout": "5m", "maxOutputBytes": "1k"}`, network, nil, ""},
		{"another network", `"docker": {"network": "own"}`, nil, nil, "agents.defaults.sandbox.docker.network"},
		{"a folder of this call", ``, network, &config.SandboxSettings{Workspace: &folder}, "flag.workspace"},
		{"an image that nobody asked for", `"docker": {"image": "x"}`, network, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newMachine(t)
			c.local = holding{fake.New(fake.Options{Name: "local"}), tt.held}
			settings := `{"agents": {"defaults": {"sandbox": {"provider": "local"`
			if tt.settings != "" {
				settings += ", " + tt.settings
			}
			m := c.manager(settings+`}}}}`, "")
			_, err := m.Run(context.Background(), manager.Request{Who: someone, Flags: tt.flags, Command: sandbox.Command{Args: []string{"true"}}})
			x, explainErr := m.Explain(context.Background(), someone, tt.flags, manager.Questions{})
			must(t, explainErr)
			l, listErr := m.List(context.Background(), manager.ListOptions{})
			must(t, listErr)
			if tt.field != "" {
				e, _ := errors.AsType[*sandbox.Error](err)
				if e == nil || e.Code != sandbox.CodeUnsupported || !strings.HasPrefix(e.Field, tt.field) || e.Hint == "" {
					t.Errorf("%#v, want the field %s", err, tt.field)
				}
				if len(l.Containers) > 0 || len(x.Problems) != 1 {
					t.Errorf("there are %+v, and explain has the problems %q", l.Containers, x.Problems)
				}
				return
			}
			must(t, err)
			for _, name := range []provider.Setting{provider.HoldsPIDs, provider.HoldsReadOnly, provider.HoldsUser, provider.HoldsWorkspace} {
				said := slices.ContainsFunc(x.Notes, func(n string) bool { return strings.HasPrefix(n, string(name)+" is not enforced: ") })
				if said == slices.Contains(tt.held, name) {
					t.Errorf("explain says of %s: %q", name, x.Notes)
				}
			}
			noImage := slices.ContainsFunc(x.NoEffect, func(s manager.Setting) bool { return strings.HasSuffix(s.Path, "docker.image") })
			if noImage != strings.Contains(tt.settings, "image") {
				t.Errorf("explain says of the image: %+v", x.NoEffect)
			}
			if slices.ContainsFunc(x.NoEffect, func(s manager.Setting) bool { return strings.Contains(s.Path, "filesystem") }) {
				t.Errorf("explain says that rules have no effect which are held: %+v", x.NoEffect)
			}
		})
	}
}

// TestNoHolderIsAsked holds that nothing changes for a provider that refuses by
// itself what it cannot do.
func TestNoHolderIsAsked(t *testing.T) {
	t.Parallel()
	c := newMachine(t)
	m := c.manager(`{"agents": {"defaults": {"sandbox": {"provider": "local", "docker": {"memory": "64m"}}}}}`, "")
	c.run(m, "s", nil)
	x, err := m.Explain(context.Background(), someone, nil, manager.Questions{})
	must(t, err)
	if len(x.Notes) > 0 {
		t.Errorf("%q", x.Notes)
	}
}
