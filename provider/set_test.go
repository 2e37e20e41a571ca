package provider_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider"
)

// named is a provider that has a name and nothing else.
type named struct {
	sandbox.Provider
	name string
}

func (n named) Name() string { return n.name }

// probed is a provider with an answer to Probe.
type probed struct {
	named
	probe func(context.Context) error
}

func (p probed) Probe(ctx context.Context) error { return p.probe(ctx) }

func answering(name string, err error) sandbox.Provider {
	return probed{named{name: name}, func(context.Context) error { return err }}
}

func TestNewRefuses(t *testing.T) {
	tests := []struct {
		name string
		ps   []sandbox.Provider
		want string
	}{
		{"nil", []sandbox.Provider{nil}, "is nil"},
		{"empty name", []sandbox.Provider{named{name: ""}}, "has no name"},
		{"blank name", []sandbox.Provider{named{name: " "}}, "has no name"},
		{"twice", []sandbox.Provider{named{name: "a"}, named{name: "b"}, named{name: "a"}}, `two providers are called "a"`},
		{"reserved", []sandbox.Provider{named{name: "auto"}}, "cannot name one"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := provider.New(tt.ps...)
			if s != nil || sandbox.CodeOf(err) != sandbox.CodeValidation {
				t.Fatalf("New = %v, %v; want a validation error", s, err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q does not say %q", err, tt.want)
			}
		})
	}
}

func TestGet(t *testing.T) {
	s, err := provider.New(named{name: "docker"}, named{name: "local"})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := s.Get("local"); err != nil || p.Name() != "local" {
		t.Errorf("Get(local) = %v, %v", p, err)
	}
	names := s.Names()
	if want := []string{"docker", "local"}; !slices.Equal(names, want) {
		t.Errorf("Names = %v, want %v", names, want)
	}
	names[0] = "changed"
	if s.Names()[0] != "docker" {
		t.Error("Names handed out the set's own slice")
	}
	for _, name := range []string{"", "auto", "Docker", "podman"} {
		p, err := s.Get(name)
		if p != nil || sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("Get(%q) = %v, %v; want a validation error", name, p, err)
		} else if !strings.Contains(err.Error(), "docker, local") {
			t.Errorf("Get(%q): %q does not list the names", name, err)
		}
	}
}

func TestAuto(t *testing.T) {
	down := errors.New("no engine answers")
	tests := []struct {
		name   string
		ps     []sandbox.Provider
		order  []string
		want   string // name of the provider, or empty for an error
		reason string
	}{
		{"first answers", []sandbox.Provider{answering("docker", nil), answering("local", nil)},
			[]string{"docker", "local"}, "docker", "docker answers"},
		{"order of the call, not of the set", []sandbox.Provider{answering("local", nil), answering("docker", nil)},
			[]string{"docker", "local"}, "docker", "docker answers"},
		{"second answers", []sandbox.Provider{answering("docker", down), answering("local", nil)},
			[]string{"docker", "local"}, "local", "local is the first that answers; not docker: no engine answers"},
		{"no prober is usable", []sandbox.Provider{named{name: "plain"}},
			[]string{"plain"}, "plain", "plain answers"},
		{"not built in", []sandbox.Provider{answering("docker", down)},
			[]string{"docker", "local"}, "", "local: not part of this program"},
		{"nobody answers", []sandbox.Provider{answering("docker", down)},
			[]string{"docker"}, "", "docker: no engine answers"},
		{"nothing asked for", []sandbox.Provider{answering("docker", nil)}, nil, "", "no provider can be used"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := provider.New(tt.ps...)
			if err != nil {
				t.Fatal(err)
			}
			c, err := s.Auto(t.Context(), nil, tt.order...)
			if tt.want == "" {
				if c.Provider != nil || sandbox.CodeOf(err) != sandbox.CodeUnavailable {
					t.Fatalf("Auto = %+v, %v; want it unavailable", c, err)
				}
				if !strings.Contains(err.Error(), tt.reason) {
					t.Errorf("error %q does not say %q", err, tt.reason)
				}
				return
			}
			if err != nil || c.Provider.Name() != tt.want {
				t.Fatalf("Auto = %+v, %v; want %s", c, err, tt.want)
			}
			if c.Reason != tt.reason {
				t.Errorf("reason %q, want %q", c.Reason, tt.reason)
			}
		})
	}
}

// TestAutoEndOfContext checks that a caller that gives up never gets another,
// perhaps weaker provider.
func TestAutoEndOfContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	hanging := probed{named{name: "docker"}, func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}}
	s, err := provider.New(hanging, answering("local", nil))
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Auto(ctx, nil, "docker", "local")
	if c.Provider != nil || sandbox.CodeOf(err) != sandbox.CodeTimeout || !errors.Is(err, context.Canceled) {
		t.Errorf("Auto = %+v, %v; want a timeout that wraps context.Canceled", c, err)
	}
	if c, err := s.Auto(ctx, nil, "local"); c.Provider != nil || err == nil {
		t.Errorf("Auto with an ended context = %+v, %v; want an error", c, err)
	}
}

// TestAutoBoundsAProbe holds that a provider which does not answer is passed over,
// for that reason and not for what came of giving up.
func TestAutoBoundsAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hanging := probed{named{name: "docker"}, func(ctx context.Context) error {
			if _, ok := ctx.Deadline(); !ok {
				return nil // would be taken, and the test would fail
			}
			<-ctx.Done()
			return errors.New("signal: killed")
		}}
		s, err := provider.New(hanging, answering("local", nil))
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.Auto(t.Context(), nil, "docker", "local")
		if err != nil || c.Provider.Name() != "local" || len(c.Rejected) != 1 {
			t.Fatalf("Auto = %+v, %v; want local with docker rejected", c, err)
		}
		if why := c.Rejected[0].Err; sandbox.CodeOf(why) != sandbox.CodeUnavailable || !strings.Contains(why.Error(), "has not answered within 15s") {
			t.Errorf("rejected for %v", why)
		}
	})
}

func ExampleSet_Auto() {
	s, err := provider.New(
		answering("docker", errors.New("no engine answers at /var/run/docker.sock")),
		answering("local", nil),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	choice, err := s.Auto(context.Background(), nil, "docker", "local")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(choice.Reason)
	// Output:
	// local is the first that answers; not docker: no engine answers at /var/run/docker.sock
}
