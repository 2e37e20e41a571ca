package manager_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// observeOption takes the option "observe".
func observeOption(options map[string]any) error {
	for key, value := range options {
		if _, ok := value.(bool); key != "observe" || !ok {
			return provider.OptionError(key, "no such option", "it has observe")
		}
	}
	return nil
}

// TestProviderOptions holds that each provider judges its options before anything
// is made, that one without options refuses all of them, and that options which
// are for another provider reach none.
func TestProviderOptions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, settings string // of agents.defaults
		flag           string // --provider
		noEngine       bool
		field          string // refused
		on             string // the provider that made it, otherwise
		given          bool   // whether it got the option observe
		noEffect       string // what explain says of the options
	}{
		{"of docker", `"providerOptions": {"pull": "never"}`, "", false, "providerOptions.pull", "", false, ""},
		{"of docker, named", `"provider": "docker", "providerOptions": {"pul": 1, "x": 2}`, "", false, "providerOptions.pul", "", false, ""},
		{"none of docker", `"provider": "docker", "providerOptions": {}`, "", false, "", "docker", false, ""},
		{"of local", `"provider": "local", "providerOptions": {"observe": true}`, "", false, "", "local", true, ""},
		{"of local, misspelt", `"provider": "local", "providerOptions": {"obsreve": true}`, "", false, "providerOptions.obsreve", "", false, ""},
		{"of local, malformed", `"provider": "local", "providerOptions": {"observe": "yes"}`, "", false, "providerOptions.observe", "", false, ""},
		{"of local, and a flag names docker", `"provider": "local", "providerOptions": {"observe": true}`, "docker", false, "", "docker", false, "options of the provider local"},
		{"of nobody, and a flag names local", `"providerOptions": {"observe": true}`, "local", false, "", "local", true, ""},
		{"of nobody, and a flag names docker", `"providerOptions": {"observe": true}`, "docker", false, "providerOptions.observe", "", false, ""},
		{"of either", `"provider": "auto", "providerOptions": {"observe": true}`, "", false, "", "docker", false, "the provider in use is docker"},
		{"of either, no engine", `"provider": "auto", "providerOptions": {"observe": true}`, "", true, "", "local", true, ""},
		{"of either, misspelt", `"provider": "auto", "providerOptions": {"obsreve": true}`, "", false, "providerOptions.obsreve", "", false, ""},
		{"of either, misspelt, no engine", `"provider": "auto", "providerOptions": {"obsreve": true}`, "", true, "providerOptions.obsreve", "", false, ""},
		{"of either, and a flag names docker", `"provider": "auto", "providerOptions": {"observe": true}`, "docker", false, "", "docker", false, "the provider in use is docker"},
		{"of either, and a flag names local", `"provider": "auto", "providerOptions": {"observe": true}`, "local", false, "", "local", true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newMachine(t)
			made := map[string]*made{}
			c.local = note(made, fake.New(fake.Options{Name: "local", CheckOptions: observeOption}))
			if !tt.noEngine {
				c.docker, c.images = imaged{note(made, fake.New(fake.Options{Name: "docker"}))}, oneImage{}
			}
			m := c.manager(`{"agents": {"defaults": {"sandbox": {`+tt.settings+`}}}}`, "")
			flags := config.Overrides{Provider: tt.flag}.Layer()
			_, err := m.Run(context.Background(), manager.Request{Who: someone, Flags: flags, Command: sandbox.Command{Args: []string{"true"}}})
			if tt.field != "" {
				e, _ := errors.AsType[*sandbox.Error](err)
				if e == nil || e.Code != sandbox.CodeValidation || e.Field != tt.field {
					t.Errorf("%v, want the field %s", err, tt.field)
				}
				if len(made) > 0 {
					t.Errorf("%v made a sandbox all the same", made)
				}
				return
			}
			must(t, err)
			one := made[tt.on]
			if one == nil || len(made) != 1 {
				t.Fatalf("made by %v, want %s", made, tt.on)
			}
			if _, got := one.spec.Options["observe"]; got != tt.given {
				t.Errorf("%s got the options %v", tt.on, one.spec.Options)
			}
			x, err := m.Explain(context.Background(), someone, flags, manager.Questions{})
			must(t, err)
			said := ""
			for _, n := range x.NoEffect {
				if strings.HasSuffix(n.Path, "providerOptions") {
					said += n.Note
					if n.Value != `["observe"]` {
						t.Errorf("explain shows %s", n.Value)
					}
				}
			}
			if !strings.Contains(said, tt.noEffect) || tt.noEffect == "" && said != "" {
				t.Errorf("explain says %q of the options, want %q", said, tt.noEffect)
			}
		})
	}
}

// made is what a provider was asked for.
type made struct {
	sandbox.Provider
	spec sandbox.Spec
}

// A noting provider notes what it makes.
type noting struct {
	*fake.Provider
	all map[string]*made
}

func note(all map[string]*made, p *fake.Provider) sandbox.Provider { return noting{p, all} }

func (n noting) Create(ctx context.Context, s sandbox.Spec) (sandbox.Info, error) {
	n.all[n.Name()] = &made{spec: s}
	return n.Provider.Create(ctx, s)
}
