package config_test

import (
	"testing"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
)

// BenchmarkGrantPolicy measures what a policy costs that is made for one call:
// aim for 100 µs.
func BenchmarkGrantPolicy(b *testing.B) {
	s, err := config.Parse("f", []byte(inDefaults(`"preset": "normal", "filesystem": {"allowRead": ["/opt"], "denyRead": ["/workspace/private"]},
		"network": {"allowedDomains": ["example.com", "*.example.org", "https://api.example.net"]}`)))
	if err != nil {
		b.Fatal(err)
	}
	r, err := config.Resolve(s, ann, nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, bb := range []struct {
		name string
		m    grant.Manifest
	}{
		{"files", grant.Manifest{Capabilities: []grant.Capability{{Kind: grant.FSRead, Path: "/workspace"}}}},
		{"programs", grant.Manifest{Capabilities: []grant.Capability{{Kind: grant.Process, Tool: "git"}, {Kind: grant.Process, Tool: "make"}}}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := config.GrantPolicy(r, config.Inside{}, bb.m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
