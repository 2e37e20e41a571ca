package config_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

// TestProvidersOfAProgram holds that the name of a provider which a program adds
// is good wherever settings name a provider, and that any other one is refused
// there, with the names that there are.
func TestProvidersOfAProgram(t *testing.T) {
	names := []string{"daytona", "e2b"}
	places := []struct{ name, file, field, agent string }{
		{"agents.defaults", `{"agents": {"defaults": {"sandbox": {"provider": "NAME"}}}}`, "agents.defaults.sandbox.provider", "main"},
		{"agents.list", `{"agents": {"list": [{"id": "a"}, {"id": "b", "sandbox": {"provider": "NAME"}}]}}`, "agents.list[1].sandbox.provider", "b"},
	}
	fieldOf := func(err error) (field, text string) {
		if e, ok := errors.AsType[*sandbox.Error](err); ok && e.Code == sandbox.CodeValidation {
			return e.Field, e.Error()
		}
		return "", ""
	}
	for _, at := range places {
		t.Run(at.name, func(t *testing.T) {
			file := func(name string) []byte { return []byte(strings.ReplaceAll(at.file, "NAME", name)) }
			s, err := config.ParseWith("test", file("daytona"), names)
			if err != nil {
				t.Fatal(err)
			}
			who := config.Who{Agent: at.agent, Session: "s"}
			if r, err := config.Resolve(s, who, nil); err != nil || r.Provider != "daytona" {
				t.Errorf("resolved to %q, %v", r.Provider, err)
			}
			if !slices.Contains(config.Providers(s), "daytona") {
				t.Errorf("Providers = %v", config.Providers(s))
			}
			for name, hint := range map[string]string{"daytoma": `did you mean "daytona"?`, "podman": "orchestrator.Options.Providers", "": "orchestrator.Options.Providers", "Daytona": "", "host": "", "day tona": "", "日本": ""} {
				field, text := fieldOf(second(config.ParseWith("test", file(name), names)))
				if field != at.field || !strings.Contains(text, "docker, local, landlock, kubernetes, auto, fake, daytona, e2b") || !strings.Contains(text, hint) {
					t.Errorf("%q: the field %q, %s", name, field, text)
				}
			}
			// A program without them.
			if field, text := fieldOf(second(config.Parse("test", file("daytona")))); field != at.field || !strings.Contains(text, "docker, local, landlock, kubernetes, auto, fake") || !strings.Contains(text, "orchestrator.Options.Providers") {
				t.Errorf("without: the field %q, %s", field, text)
			}
		})
	}
	s, err := config.ParseWith("test", []byte(`{}`), names)
	if err != nil {
		t.Fatal(err)
	}
	who := config.Who{Agent: "main", Session: "s"}
	if r, err := config.Resolve(s, who, config.Overrides{Provider: "e2b"}.Layer()); err != nil || r.Provider != "e2b" {
		t.Errorf("a flag: %q, %v", r.Provider, err)
	}
	if field, text := fieldOf(second(config.Resolve(s, who, config.Overrides{Provider: "podman"}.Layer()))); field != "flag.provider" || !strings.Contains(text, "daytona, e2b") {
		t.Errorf("a flag: the field %q, %s", field, text)
	}
	s.Program = config.Overrides{Provider: "daytona"}.Layer()
	if r, err := config.Resolve(s, who, nil); err != nil || r.Provider != "daytona" {
		t.Errorf("of the program: %q, %v", r.Provider, err)
	}
	if err := second(config.Resolve(nil, who, config.Overrides{Provider: "daytona"}.Layer())); err == nil {
		t.Error("without settings any provider is known")
	}
}

func second[T any](_ T, err error) error { return err }

func TestCheckProviderName(t *testing.T) {
	for _, name := range []string{"daytona", "e2b", "my-cloud", "a", "x1-2", strings.Repeat("a", 32)} {
		if err := config.CheckProviderName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", " ", "Daytona", "2b", "-a", "a-", "a--b", "a_b", "a.b", "a/b", "../x", "a b", "é", "日本", "a\x00", "a\n", strings.Repeat("a", 33)} {
		if err := config.CheckProviderName(name); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestSchemaOfAProgram(t *testing.T) {
	if string(config.SchemaWith()) != string(config.Schema()) || strings.Contains(string(config.Schema()), "daytona") {
		t.Error("the schema of no further providers is another one")
	}
	text := config.SchemaWith("daytona")
	if !json.Valid(text) || strings.Count(string(text), `"daytona"`) != 2 { // of all agents and of single ones
		t.Errorf("daytona is there %d times", strings.Count(string(text), `"daytona"`))
	}
}

func TestParseLayer(t *testing.T) {
	l, err := config.ParseLayer("flags", []byte(`{"provider": "daytona", "docker": {"memory": "64m"}}`))
	if err != nil || l.Provider == nil || *l.Provider != "daytona" || l.Docker == nil {
		t.Errorf("%+v, %v", l, err)
	}
	for text, field := range map[string]string{
		`{"provider": "Daytona"}`:                "agents.defaults.sandbox.provider",
		`{"provider": "../x"}`:                   "agents.defaults.sandbox.provider",
		`{"unknown": 1}`:                         "agents.defaults.sandbox.unknown",
		`{"docker": {"network": "host"}}`:        "agents.defaults.sandbox.docker.network",
		`null`:                                   "agents.defaults.sandbox",
		`[]`:                                     "agents.defaults.sandbox",
		`{"mode": "sometimes"}`:                  "agents.defaults.sandbox.mode",
		`{"filesystem": {"allowRead": ["a\n"]}}`: "agents.defaults.sandbox.filesystem.allowRead[0]",
	} {
		l, err := config.ParseLayer("flags", []byte(text))
		e, _ := errors.AsType[*sandbox.Error](err)
		if l != nil || e == nil || e.Field != field {
			t.Errorf("%s: %+v, %v, want the field %s", text, l, err, field)
		}
	}
	for _, text := range []string{``, `{`, `{"a": 1} {}`} {
		if _, err := config.ParseLayer("flags", []byte(text)); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestBuilderOfAProgram holds that settings that are written in Go name the
// providers of the program, and no other one.
func TestBuilderOfAProgram(t *testing.T) {
	options := map[string]any{"target": "eu"}
	s, err := config.NewBuilder().Agent("far").Provider("daytona").ProviderOptions(options).Providers("daytona").Build()
	if err != nil {
		t.Fatal(err)
	}
	options["target"] = "us"
	r, err := config.Resolve(s, config.Who{Agent: "far", Session: "s"}, nil)
	if err != nil || r.Provider != "daytona" || r.ProviderOptions["target"] != "eu" || r.OptionsFor != "daytona" {
		t.Errorf("%q with %v for %q, %v", r.Provider, r.ProviderOptions, r.OptionsFor, err)
	}
	if err := second(config.NewBuilder().Provider("daytona").Build()); err == nil {
		t.Error("a provider that nobody has")
	}
}
