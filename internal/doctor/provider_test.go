package doctor_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/internal/doctor"
	"github.com/bulkhead-dev/sandbox/provider"
)

// own is a provider of a program.
type own struct {
	sandbox.Provider
	inspect error
	held    []provider.Setting
}

func (own) Name() string { return "daytona" }
func (o own) Inspect(context.Context, string) (sandbox.Info, error) {
	return sandbox.Info{}, o.inspect
}
func (o own) Holds() []provider.Setting { return o.held }
func (own) CheckOptions(options map[string]any) error {
	if _, bad := options["regoin"]; bad {
		return provider.OptionError("regoin", "daytona has no such option", "it has region")
	}
	return nil
}

// A probing one says by itself whether it can be used.
type probing struct {
	own
	probe error
}

func (p probing) Probe(context.Context) error { return p.probe }

// TestProviderOfAProgram holds that doctor asks a provider that a program has
// beside the built-in ones, and that the engine does not matter then.
func TestProviderOfAProgram(t *testing.T) {
	none := &sandbox.Error{Code: sandbox.CodeNotFound, Message: "none"}
	network := []provider.Setting{provider.HoldsNetwork}
	down := &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "ask", Message: "no account", Hint: "log in"}
	tests := []struct {
		name    string
		p       sandbox.Provider
		options map[string]any
		wanted  string
		status  doctor.Status
		detail  string
		fix     string
	}{
		{"answers", own{inspect: none, held: network}, nil, "daytona", doctor.OK, "docker.network", ""},
		{"holds nothing", own{inspect: none}, nil, "daytona", doctor.Warn, "no setting", "Holds"},
		{"does not answer", own{inspect: down}, nil, "daytona", doctor.Fail, "no account", "log in"},
		{"does not answer and is not wanted", own{inspect: down}, nil, "docker", doctor.Warn, "does without it", "log in"},
		{"an error without a code", own{inspect: errors.New("odd")}, nil, "daytona", doctor.Fail, "odd", ""},
		{"misspelt", own{inspect: none, held: network}, map[string]any{"regoin": 1}, "daytona", doctor.Fail, "providerOptions.regoin: daytona has no such option", "it has region"},
		{"probed", probing{own{inspect: down, held: network}, nil}, nil, "daytona", doctor.OK, "answers", ""},
		{"probed in vain", probing{own{inspect: none, held: network}, down}, nil, "daytona", doctor.Fail, "no account", "log in"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := healthy()
			w.settings.Provider = tt.wanted
			if tt.wanted != "docker" {
				w.posture, w.postErr, w.wall = container.Posture{}, errors.New("no engine"), doctor.Fail
			}
			d := w.deps()
			d.Local = append(d.Local, doctor.ProviderCheck(tt.p, tt.options))
			r := doctor.Run(t.Context(), d)
			found := false
			for _, c := range r.Checks {
				if c.Name == "provider-daytona" {
					found = true
					if c.Status != tt.status || !strings.Contains(c.Detail, tt.detail) || !strings.Contains(c.Fix, tt.fix) {
						t.Errorf("%+v", c)
					}
				} else if c.Status == doctor.Fail && c.Name != "guest" { // which is no real one here
					t.Errorf("%s fails: %s", c.Name, c.Detail)
				}
			}
			if !found {
				t.Error("it was not asked")
			}
		})
	}
}

// TestOptionsOfDocker holds that options that docker does not have are a finding.
func TestOptionsOfDocker(t *testing.T) {
	for wanted, status := range map[string]doctor.Status{"docker": doctor.Fail, "local": doctor.Warn} {
		w := healthy()
		w.settings.Provider = wanted
		d := w.deps()
		d.Local = append(d.Local, doctor.OptionsCheck("docker", map[string]any{"pull": 1}))
		r := doctor.Run(t.Context(), d)
		if c := r.Checks[len(r.Checks)-1]; c.Name != "provider-options" || c.Status != status || !strings.Contains(c.Detail, "providerOptions.pull") {
			t.Errorf("%s: %+v", wanted, c)
		}
	}
	if s, detail, _ := doctor.OptionsCheck("docker", nil).Look(t.Context()); s != doctor.OK {
		t.Errorf("%s: %s", s, detail)
	}
}
