package manager_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// An outside stands for the host: opening is enough.
type outside struct{ sandbox.Provider }

func (o outside) Open(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	if err := o.Remove(ctx, s.Name); err != nil {
		return nil, err
	}
	if _, err := o.Create(ctx, s); err != nil {
		return nil, err
	}
	return o.Provider.Open(ctx, s)
}

// A missing sandbox says why it cannot be built.
type missing struct{ sandbox.Provider }

func (missing) Probe(context.Context) error { return errors.New("no bubblewrap") }

// A lacking sandbox can be built only where settings leave out what it lacks.
type lacking struct{ missing }

func (l lacking) ProbeWith(ctx context.Context, options map[string]any) error {
	if options["withoutLandlock"] == true {
		return nil
	}
	return l.Probe(ctx)
}

// CheckOptions takes all options.
func (lacking) CheckOptions(map[string]any) error { return nil }

// TestRunsOutside checks where commands run in the world of the gate, and that
// every run on the host is logged.
func TestRunsOutside(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, settings string
		broken, noHost bool
		where          string // "local", "host", or a code
	}{
		{"may be missing, allowed, and lacks something", `"failIfUnavailable": false, "commands": {"allowUnsandboxed": true}, "providerOptions": {"withoutSeccomp": true}`, true, false, "host"},
		{"may be missing, allowed, and lacks what is left out", `"failIfUnavailable": false, "commands": {"allowUnsandboxed": true}, "providerOptions": {"withoutLandlock": true}`, true, false, "local"},
		{"as usual", ``, false, false, "local"},
		{"not enabled", `"enabled": false`, false, false, "SANDBOX.CAPABILITY_BLOCKED"},
		{"not enabled, allowed", `"enabled": false, "commands": {"allowUnsandboxed": true}`, false, false, "host"},
		{"not enabled, allowed, no way", `"enabled": false, "commands": {"allowUnsandboxed": true}`, false, true, "SANDBOX.CAPABILITY_BLOCKED"},
		{"may be missing, allowed", `"failIfUnavailable": false, "commands": {"allowUnsandboxed": true}`, true, false, "host"},
		{"may be missing, allowed, and is there", `"failIfUnavailable": false, "commands": {"allowUnsandboxed": true}`, false, false, "local"},
		{"may be missing", `"failIfUnavailable": false`, true, false, "PROVIDER.UNAVAILABLE"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newGuarded(t)
			where := fake.Program(func(p *fake.Proc) int { fmt.Fprint(p.Stdout, p.Env["WALL"]); return 0 })
			wall := func(name string) sandbox.Provider {
				return named{fake.New(fake.Options{Name: name, CheckOptions: func(map[string]any) error { return nil }, Programs: map[string]fake.Program{"where": where}})}
			}
			providers := []sandbox.Provider{wall("local")}
			if tt.broken {
				providers[0] = lacking{missing{providers[0]}}
			}
			if !tt.noHost {
				providers = append(providers, outside{wall("host")})
			}
			set, err := provider.New(providers...)
			must(t, err)
			s, err := config.Parse("t", []byte(`{"agents": {"defaults": {"sandbox": {"provider": "local", `+tt.settings+`}}}}`))
			if err != nil {
				s, err = config.Parse("t", []byte(`{"agents": {"defaults": {"sandbox": {"provider": "local"}}}}`))
				must(t, err)
			}
			log := logrus.New()
			log.SetOutput(g.log)
			m, err := manager.New(manager.Options{Settings: s, State: g.state, Providers: set, Images: nowhere{}, Log: log,
				Host: manager.Host{CPUs: 2, Memory: 8 << 30, Guest: func() (sandbox.GuestRef, error) { return sandbox.GuestRef{Dir: "/guest", Digest: "0"}, nil }}})
			must(t, err)
			defer m.Close()
			for range 2 {
				var out bytes.Buffer
				_, err := m.Run(context.Background(), manager.Request{Who: someone, Command: sandbox.Command{Args: []string{"where"}, Stdout: &out}})
				got := out.String()
				if err != nil {
					got = string(sandbox.CodeOf(err))
				}
				if got != tt.where {
					t.Errorf("it ran in %q, %v", got, err)
				}
			}
			warned := 0
			if tt.where == "host" {
				warned = 2
			}
			if n := strings.Count(g.log.String(), "without a sandbox"); n != warned {
				t.Errorf("%d warnings: %s", n, g.log)
			}
			e, err := m.Explain(context.Background(), someone, nil, manager.Questions{})
			must(t, err)
			want := map[string]manager.Place{"host": manager.Unsandboxed, "local": manager.Sandboxed}[tt.where]
			if want == "" {
				want = manager.Refused
			}
			if e.Gate.Place != want || e.Gate.Reason == "" {
				t.Errorf("explained: %+v", e.Gate)
			}
			err = m.WithSandbox(context.Background(), manager.Request{Who: someone}, func(sandbox.Sandbox, sandbox.Spec) error { return nil })
			if (err == nil) != (tt.where == "local") {
				t.Errorf("lent: %v", err)
			}
			if tt.where == "host" {
				l, err := m.List(context.Background(), manager.ListOptions{})
				if err != nil || len(l.Containers) > 1 {
					t.Errorf("listed: %+v, %v", l.Containers, err)
				}
			}
		})
	}
}

// named shows programs inside which sandbox they are in.
type named struct{ *fake.Provider }

func (n named) Open(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	s.Env = map[string]string{"WALL": n.Name()}
	return n.Provider.Open(ctx, s)
}
