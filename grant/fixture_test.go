package grant_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
)

// noon is when these tests take place.
func noon() time.Time { return time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC) }

// everything are capabilities of every kind.
func everything() []grant.Capability {
	return []grant.Capability{
		{Kind: grant.FSRead, Path: "/workspace"},
		{Kind: grant.FSList, Path: "/workspace"},
		{Kind: grant.FSWrite, Path: "/workspace/out"},
		{Kind: grant.FSWrite, Path: "/tmp/call"},
		{Kind: grant.NetHTTP, Host: "api.example.com", Scheme: "https", Methods: []string{"GET", "POST"}},
		{Kind: grant.NetHTTP, Host: "*.cdn.example.com", Methods: []string{"GET"}},
		{Kind: grant.Browser, Actions: []string{"open", "screenshot", "extract", "click", "type", "download"}},
		{Kind: grant.Process, Tool: "git"},
		{Kind: grant.Process, Tool: "make"},
		{Kind: grant.Temp, Bytes: 1 << 20},
		{Kind: grant.GPU, Class: "a100"},
	}
}

// aGrant, aManifest and aPolicy fit together: all three allow everything.
func aGrant() grant.Grant {
	return grant.Grant{
		ID: "g-1", Tenant: "acme", Subject: "alice", Agent: "main", Session: "chat-42", Tool: "builder", Call: "call-1",
		Capabilities: everything(),
		Budget:       grant.Budget{Calls: 10, BytesIn: 1 << 20, BytesOut: 1 << 20, CPUMs: 1000, Files: 5, WallMs: grant.Unlimited},
		Issued:       noon().Add(-time.Minute), Expires: noon().Add(time.Hour),
		Consent:     &grant.Consent{By: "alice", At: noon().Add(-time.Minute), Expires: noon().Add(30 * time.Minute)},
		DecisionKey: "dk-1",
	}
}

func aManifest() grant.Manifest {
	return grant.Manifest{
		Tool: "builder", Version: "1.2.3", Capabilities: everything(), Safety: grant.SafetyMedium,
		SideEffects: []grant.SideEffect{grant.EffectWrite, grant.EffectProcess},
		Limits:      grant.Limits{MaxBytesOut: 4096, Timeout: 30 * time.Second},
		Commands: []grant.Template{{
			Tool: "git",
			Args: []grant.Argument{{OneOf: []string{"log", "status", "push"}}, {Pattern: `-n[0-9]+`, Optional: true}},
			Rest: &grant.Argument{Pattern: `[a-z/]+`},
		}},
	}
}

func aPolicy() grant.Policy {
	return grant.Policy{
		Version: "settings-1", Capabilities: everything(), Safety: grant.SafetyLow,
		Limits: grant.Limits{MaxBytesIn: 8192, MaxBytesOut: 65536, MaxFiles: 3, MaxDepth: 4, MaxConcurrency: 2},
		Lists: grant.Lists{
			Domains: []string{"api.example.com", "*.cdn.example.com"}, Paths: []string{"/workspace", "/tmp"}, Tools: []string{"git", "make"},
			MIME: []string{"text/*", "application/json"}, Methods: []string{"GET", "POST"},
		},
		Denied:   grant.Denied{Domains: []string{"bad.cdn.example.com"}, Paths: []string{"/workspace/secret"}},
		Mappings: grant.Mappings{Root: "/workspace", Tmp: "/tmp/call"},
		Commands: []grant.Template{{Tool: "git", Args: []grant.Argument{{OneOf: []string{"log", "status"}}}, Rest: &grant.Argument{Pattern: `.*`}}},
	}
}

// now is the state in which nothing is used up.
func now() grant.State { return grant.State{Now: noon()} }

func built(t testing.TB, g grant.Grant, m grant.Manifest, p grant.Policy) grant.Profile {
	t.Helper()
	out, err := grant.Build(g, m, p, noon())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func guarded(t testing.TB, g grant.Grant, m grant.Manifest, p grant.Policy) *grant.Guard {
	t.Helper()
	out, err := grant.Compile(built(t, g, m, p))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// refused fails the test unless err has code and field; both empty is no error.
func refused(t testing.TB, err error, code sandbox.Code, field string) {
	t.Helper()
	if sandbox.CodeOf(err) != code {
		t.Errorf("got %v, want code %q at %q", err, code, field)
		return
	}
	var e *sandbox.Error
	if errors.As(err, &e) {
		if e.Field != field {
			t.Errorf("got field %q, want %q: %v", e.Field, field, err)
		}
		if e.Message == "" {
			t.Errorf("%v says nothing", err)
		}
	}
}

// rounds is n, and less under the race detector, which has nothing to find in
// arithmetic and makes it slow.
func rounds(n int) int {
	if raceEnabled {
		return n / 8
	}
	return n
}

// realistic are parties of the size that is promised: 20 capabilities, 50 domains.
func realistic() (grant.Grant, grant.Manifest, grant.Policy) {
	g, m, p := aGrant(), aManifest(), aPolicy()
	for i := range 9 {
		m.Capabilities = append(m.Capabilities, grant.Capability{Kind: grant.NetHTTP, Host: fmt.Sprintf("host%d.example.org", i), Scheme: "https", Methods: []string{"GET", "HEAD", "POST"}})
	}
	g.Capabilities, p.Capabilities = m.Capabilities, m.Capabilities
	p.Lists.Domains = nil
	for i := range 40 {
		p.Lists.Domains = append(p.Lists.Domains, fmt.Sprintf("host%d.example.org", i))
	}
	for i := range 10 {
		p.Lists.Domains = append(p.Lists.Domains, fmt.Sprintf("*.wide%d.example.org", i))
	}
	return g, m, p
}
