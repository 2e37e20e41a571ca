package config_test

import (
	"testing"

	"github.com/bulkhead-dev/sandbox/config"
)

// TestOptionsBelongToAProvider holds that options reach the provider that their
// layer or one below it names, and no other one in silence.
func TestOptionsBelongToAProvider(t *testing.T) {
	tests := []struct {
		name, file, agent, flag string
		options                 int
		of                      string
		path                    string // of the notice
	}{
		{"no layer names a provider", `{"agents": {"defaults": {"sandbox": {"providerOptions": {"a": 1}}}}}`, "main", "", 1, "", ""},
		{"the same layer", `{"agents": {"defaults": {"sandbox": {"provider": "local", "providerOptions": {"a": 1}}}}}`, "main", "", 1, "local", ""},
		{"a lower layer", `{"agents": {"defaults": {"sandbox": {"provider": "local"}}, "list": [{"id": "x", "sandbox": {"providerOptions": {"a": 1}}}]}}`, "x", "", 1, "local", ""},
		{"an agent names another", `{"agents": {"defaults": {"sandbox": {"provider": "local", "providerOptions": {"a": 1}}}, "list": [{"id": "x", "sandbox": {"provider": "docker"}}]}}`, "x", "", 0, "", "agents.defaults.sandbox.providerOptions"},
		{"an agent names another and its options", `{"agents": {"defaults": {"sandbox": {"provider": "local", "providerOptions": {"a": 1}}}, "list": [{"id": "x", "sandbox": {"provider": "docker", "providerOptions": {"b": 1, "c": 2}}}]}}`, "x", "", 2, "docker", ""},
		{"the flag names another than the agent", `{"agents": {"list": [{"id": "x", "sandbox": {"provider": "local", "providerOptions": {"a": 1}}}]}}`, "x", "docker", 0, "", "agents.list[0].sandbox.providerOptions"},
		{"the flag names the same", `{"agents": {"defaults": {"sandbox": {"provider": "local", "providerOptions": {"a": 1}}}}}`, "main", "local", 1, "local", ""},
		{"there and back", `{"agents": {"defaults": {"sandbox": {"provider": "local", "providerOptions": {"a": 1}}}, "list": [{"id": "x", "sandbox": {"provider": "docker"}}]}}`, "x", "local", 1, "local", ""},
		{"auto, and a flag", `{"agents": {"defaults": {"sandbox": {"provider": "auto", "providerOptions": {"a": 1}}}}}`, "main", "docker", 1, "auto", ""},
		{"an empty object", `{"agents": {"defaults": {"sandbox": {"provider": "local", "providerOptions": {}}}}}`, "main", "docker", 0, "local", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := config.Parse("test", []byte(tt.file))
			if err != nil {
				t.Fatal(err)
			}
			r, err := config.Resolve(s, config.Who{Agent: tt.agent, Session: "s"}, config.Overrides{Provider: tt.flag}.Layer())
			if err != nil {
				t.Fatal(err)
			}
			if len(r.ProviderOptions) != tt.options || r.OptionsFor != tt.of {
				t.Errorf("%d options for %q, want %d for %q", len(r.ProviderOptions), r.OptionsFor, tt.options, tt.of)
			}
			path := ""
			for _, n := range r.NoEffect {
				path = n.Path
				if n.Value != `["a"]` {
					t.Errorf("the notice shows %s", n.Value)
				}
			}
			if path != tt.path {
				t.Errorf("a notice about %q, want %q", path, tt.path)
			}
		})
	}
}
