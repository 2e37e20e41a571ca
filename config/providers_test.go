package config_test

import (
	"slices"
	"testing"

	"github.com/bulkhead-dev/sandbox/config"
)

func TestProviders(t *testing.T) {
	tests := []struct {
		name, file string
		want       []string
	}{
		{"no settings", `{}`, []string{"docker"}},
		{"for all", `{"agents": {"defaults": {"sandbox": {"provider": "local"}}}}`, []string{"local"}},
		{"one agent otherwise", `{"agents": {"defaults": {"sandbox": {"provider": "local"}}, "list": [{"id": "a"}, {"id": "b", "sandbox": {"provider": "docker"}}]}}`, []string{"local", "docker"}},
		{"the main agent is listed", `{"agents": {"list": [{"id": "main", "sandbox": {"provider": "auto"}}]}}`, []string{"auto"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := config.Parse("test", []byte(tt.file))
			if err != nil {
				t.Fatal(err)
			}
			if got := config.Providers(s); !slices.Equal(got, tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}
