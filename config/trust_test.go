package config_test

import (
	"slices"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/egress"
)

// TestTrustVariablesAreReserved checks that no secret can set a variable that
// configures which certificates programs trust.
func TestTrustVariablesAreReserved(t *testing.T) {
	for name := range new(egress.Authority).Env() {
		if _, _, err := config.ParseSecret(name + "@h.example"); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("a secret can be called %s: %v", name, err)
		}
	}
}

// TestTrustMount holds that the folder of certificates is shown to every
// sandbox, since a secret may be bound while it exists.
func TestTrustMount(t *testing.T) {
	const secret = `"network": {"allowedDomains": ["api.example.com"], "secrets": {"TOKEN": {"hosts": ["api.example.com"]}}}`
	trust := sandbox.Mount{Source: "/srv/state/egress/trust", Target: sandbox.TrustDir, ReadOnly: true, Role: sandbox.RoleTrust}
	tests := []struct{ name, in string }{
		{"a secret", secret},
		{"hosts alone", `"network": {"allowedDomains": ["api.example.com"]}`},
		{"nothing", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := build(t, inDefaults(tt.in), func(*config.Facts) {})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(s.Mounts, trust) {
				t.Errorf("it is not shown, in %v", s.Mounts)
			}
		})
	}
	_, err := build(t, inDefaults(secret), func(f *config.Facts) { f.TrustDir = "" })
	if sandbox.CodeOf(err) != sandbox.CodeInternal {
		t.Errorf("without the fact: %v", err)
	}
	_, err = build(t, inDefaults(secret), func(f *config.Facts) { f.TrustDir = "/srv/state/egress" })
	if sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Errorf("with the folder of the key: %v", err)
	}
}
