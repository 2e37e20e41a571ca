package grant_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
)

func TestBuild(t *testing.T) {
	p := built(t, aGrant(), aManifest(), aPolicy())
	if p.Safety != grant.SafetyMedium {
		t.Errorf("safety %q is not the highest", p.Safety)
	}
	effects := []grant.SideEffect{grant.EffectBrowser, grant.EffectFilesystem, grant.EffectNetwork, grant.EffectProcess, grant.EffectRead, grant.EffectWrite}
	if !slices.Equal(p.SideEffects, effects) {
		t.Errorf("side effects %v", p.SideEffects)
	}
	limits := grant.Limits{
		MaxBytesIn: 8192, MaxBytesOut: 4096, MaxTmpBytes: grant.Defaults().MaxTmpBytes, MaxFiles: 3, MaxDepth: 4, MaxConcurrency: 2, Timeout: 30 * time.Second,
	}
	if p.Limits != limits {
		t.Errorf("limits %+v are not the strictest", p.Limits)
	}
	if !reflect.DeepEqual(p.Capabilities, normal(t, everything())) {
		t.Errorf("capabilities %+v", p.Capabilities)
	}
	if p.Budget != aGrant().Budget || p.Grant != "g-1" || p.Call != "call-1" || p.PolicyVersion != "settings-1" || p.ManifestVersion != "1.2.3" {
		t.Errorf("%+v", p)
	}
}

// TestBuildRefuses changes one thing at a time.
func TestBuildRefuses(t *testing.T) {
	type parties struct {
		g *grant.Grant
		m *grant.Manifest
		p *grant.Policy
	}
	const deny, bad = sandbox.CodePermissionDeny, sandbox.CodeValidation
	tests := []struct {
		name   string
		change func(parties)
		code   sandbox.Code
		field  string
	}{
		{"no grant", func(c parties) { *c.g = grant.Grant{} }, deny, "grant"},
		{"expired", func(c parties) { c.g.Expires = noon() }, deny, "grant.expires"},
		{"not good yet", func(c parties) { c.g.Issued = noon().Add(1) }, deny, "grant.issued"},
		{"without end", func(c parties) { c.g.Expires = time.Time{} }, bad, "grant.expires"},
		{"ends before it begins", func(c parties) { c.g.Expires = c.g.Issued.Add(-1) }, bad, "grant.expires"},
		{"no id", func(c parties) { c.g.ID = "" }, bad, "grant.id"},
		{"a tenant with a blank", func(c parties) { c.g.Tenant = "a b" }, bad, "grant.tenant"},
		{"no subject", func(c parties) { c.g.Subject = "" }, bad, "grant.subject"},
		{"no call", func(c parties) { c.g.Call = "" }, bad, "grant.call"},
		{"no decision", func(c parties) { c.g.DecisionKey = "" }, bad, "grant.decisionKeyFingerprint"},
		{"line in a session", func(c parties) { c.g.Session = "a\nb" }, bad, "grant.session"},
		{"tool", func(c parties) { c.g.Tool = "a b" }, bad, "grant.tool"},
		{"budget", func(c parties) { c.g.Budget.CPUMs = -2 }, bad, "grant.budget.cpuMs"},
		{"capability", func(c parties) { c.g.Capabilities[2].Path = "x" }, bad, "grant.capabilities[2].path"},
		{"nobody's consent", func(c parties) { c.g.Consent.By = "" }, bad, "grant.consent.by"},
		{"consent without end", func(c parties) { c.g.Consent.Expires = time.Time{} }, bad, "grant.consent.expires"},
		{"no consent", func(c parties) { c.g.Consent = nil }, deny, "grant.consent"},
		{"consent expired", func(c parties) { c.g.Consent.Expires = noon() }, deny, "grant.consent"},
		{"consent of tomorrow", func(c parties) { c.g.Consent.At = noon().Add(1) }, deny, "grant.consent"},
		{"another tool", func(c parties) { c.m.Tool = "other" }, sandbox.CodeDenyTool, "manifest.tool"},
		{"manifest's tool", func(c parties) { c.m.Tool = "" }, bad, "manifest.tool"},
		{"version", func(c parties) { c.m.Version = "1.2" }, bad, "manifest.version"},
		{"no safety", func(c parties) { c.m.Safety = "" }, bad, "manifest.safety"},
		{"effect", func(c parties) { c.m.SideEffects = []grant.SideEffect{"read", "rm"} }, bad, "manifest.sideEffects[1]"},
		{"manifest's limit", func(c parties) { c.m.Limits.MaxFiles = -1 }, bad, "manifest.limits.maxFiles"},
		{"manifest's capability", func(c parties) { c.m.Capabilities[0].Kind = "x" }, bad, "manifest.capabilities[0].kind"},
		{"template's program", func(c parties) { c.m.Commands[0].Tool = "a/b" }, bad, "manifest.commands[0].tool"},
		{"empty argument", func(c parties) { c.m.Commands[0].Args[0].OneOf = nil }, bad, "manifest.commands[0].args[0]"},
		{"broken pattern", func(c parties) { c.m.Commands[0].Args[1].Pattern = "(" }, bad, "manifest.commands[0].args[1].pattern"},
		{"broken rest", func(c parties) { c.m.Commands[0].Rest.Pattern = "a**" }, bad, "manifest.commands[0].rest.pattern"},
		{"policy's version", func(c parties) { c.p.Version = "" }, bad, "policy.version"},
		{"policy's safety", func(c parties) { c.p.Safety = "none" }, bad, "policy.safety"},
		{"policy's effect", func(c parties) { c.p.SideEffects = []grant.SideEffect{""} }, bad, "policy.sideEffects[0]"},
		{"policy's limit", func(c parties) { c.p.Limits.Timeout = -1 }, bad, "policy.limits.timeout"},
		{"policy's capability", func(c parties) { c.p.Capabilities[4].Host = "a b" }, bad, "policy.capabilities[4].host"},
		{"policy's template", func(c parties) { c.p.Commands[0].Args[0].OneOf[0] = "a\x00" }, bad, "policy.commands[0].args[0].oneOf[0]"},
		{"no root", func(c parties) { c.p.Mappings.Root = "" }, bad, "policy.mappings.root"},
		{"all is root", func(c parties) { c.p.Mappings.Root = "/" }, bad, "policy.mappings.root"},
		{"relative tmp", func(c parties) { c.p.Mappings.Tmp = "tmp" }, bad, "policy.mappings.tmp"},
		{"domain", func(c parties) { c.p.Lists.Domains = []string{"x.test", "a..b"} }, bad, "policy.lists.domains[1]"},
		{"list of paths", func(c parties) { c.p.Lists.Paths = []string{"a"} }, bad, "policy.lists.paths[0]"},
		{"list of tools", func(c parties) { c.p.Lists.Tools = []string{""} }, bad, "policy.lists.tools[0]"},
		{"type", func(c parties) { c.p.Lists.MIME = []string{"text"} }, bad, "policy.lists.mime[0]"},
		{"type in capitals", func(c parties) { c.p.Lists.MIME = []string{"Text/html"} }, bad, "policy.lists.mime[0]"},
		{"any kind of type", func(c parties) { c.p.Lists.MIME = []string{"*/html"} }, bad, "policy.lists.mime[0]"},
		{"method", func(c parties) { c.p.Lists.Methods = []string{"get"} }, bad, "policy.lists.methods[0]"},
		{"denied domain", func(c parties) { c.p.Denied.Domains = []string{"http://10.0.0.1"} }, bad, "policy.denied.domains[0]"},
		{"denied pattern", func(c parties) { c.p.Denied.Paths = []string{"**/.env"} }, bad, "policy.denied.paths[0]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, m, p := aGrant(), aManifest(), aPolicy()
			tt.change(parties{&g, &m, &p})
			out, err := grant.Build(g, m, p, noon())
			refused(t, err, tt.code, tt.field)
			if out.Hash != "" || out.Capabilities != nil {
				t.Errorf("refused, and yet there is %+v", out)
			}
		})
	}
	_, err := grant.Build(aGrant(), aManifest(), aPolicy(), time.Time{})
	refused(t, err, sandbox.CodeInternal, "state.now")
}

// TestConsentIsFor checks when a consent is needed to build a profile at all.
func TestConsentIsFor(t *testing.T) {
	read := []grant.Capability{{Kind: grant.FSRead, Path: "/workspace"}}
	tests := []struct {
		name   string
		change func(*grant.Manifest, *grant.Policy)
		code   sandbox.Code
	}{
		{"reading", func(*grant.Manifest, *grant.Policy) {}, ""},
		{"unsafe by the manifest", func(m *grant.Manifest, _ *grant.Policy) { m.Safety = grant.SafetyHigh }, sandbox.CodePermissionDeny},
		{"unsafe by the policy", func(_ *grant.Manifest, p *grant.Policy) { p.Safety = grant.SafetyHigh }, sandbox.CodePermissionDeny},
		{"declared to write", func(m *grant.Manifest, _ *grant.Policy) { m.SideEffects = []grant.SideEffect{grant.EffectWrite} }, sandbox.CodePermissionDeny},
		{"said to run programs", func(_ *grant.Manifest, p *grant.Policy) {
			p.SideEffects = []grant.SideEffect{grant.EffectProcess}
		}, sandbox.CodePermissionDeny},
		{"declared to reach out", func(m *grant.Manifest, _ *grant.Policy) { m.SideEffects = []grant.SideEffect{grant.EffectNetwork} }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, m, p := aGrant(), aManifest(), aPolicy()
			g.Consent, g.Capabilities, m.SideEffects = nil, read, nil
			tt.change(&m, &p)
			_, err := grant.Build(g, m, p, noon())
			field := "grant.consent"
			refused(t, err, tt.code, field)
		})
	}
	// A manifest that hides what it does needs one all the same.
	g, m, p := aGrant(), aManifest(), aPolicy()
	g.Consent, m.SideEffects = nil, nil
	_, err := grant.Build(g, m, p, noon())
	refused(t, err, sandbox.CodePermissionDeny, "grant.consent")
}

// golden is the hash of the fixture. It changes only when what a profile means
// does, and then hashFormat with it: records name profiles by it.
const golden = "3ca500d8639eaae2a0cbfc5fc9e8a648bcdd8d659bff32f0e73269284663af3a"

func TestHash(t *testing.T) {
	p := built(t, aGrant(), aManifest(), aPolicy())
	if p.Hash != golden {
		t.Errorf("hash %s, want %s", p.Hash, golden)
	}
	same := map[string]func(*grant.Grant, *grant.Manifest, *grant.Policy){
		"another call": func(g *grant.Grant, _ *grant.Manifest, _ *grant.Policy) {
			g.ID, g.Call, g.Session, g.DecisionKey, g.Expires = "g-2", "call-2", "chat-43", "dk-2", noon().Add(2*time.Hour)
			g.Consent.At = noon()
		},
		"another order": func(g *grant.Grant, m *grant.Manifest, p *grant.Policy) {
			slices.Reverse(g.Capabilities)
			slices.Reverse(m.Capabilities)
			slices.Reverse(m.SideEffects)
			slices.Reverse(m.Commands[0].Args[0].OneOf)
			slices.Reverse(p.Lists.Domains)
			m.Commands = append(m.Commands, m.Commands[0])
		},
		"another spelling": func(g *grant.Grant, _ *grant.Manifest, _ *grant.Policy) { g.Capabilities[4].Host = "API.example.com." },
		"more that is denied": func(g *grant.Grant, _ *grant.Manifest, _ *grant.Policy) {
			g.Capabilities = append(g.Capabilities, grant.Capability{Kind: grant.FSRead, Path: "/etc"})
		},
	}
	for name, change := range same {
		if got := changed(t, change); got.Hash != p.Hash {
			t.Errorf("%s: hash %s, want %s", name, got.Hash, p.Hash)
		}
	}
	other := map[string]func(*grant.Grant, *grant.Manifest, *grant.Policy){
		"tenant":     func(g *grant.Grant, _ *grant.Manifest, _ *grant.Policy) { g.Tenant = "other" },
		"subject":    func(g *grant.Grant, _ *grant.Manifest, _ *grant.Policy) { g.Subject = "bob" },
		"agent":      func(g *grant.Grant, _ *grant.Manifest, _ *grant.Policy) { g.Agent = "other" },
		"capability": func(g *grant.Grant, _ *grant.Manifest, _ *grant.Policy) { g.Capabilities = g.Capabilities[1:] },
		"budget":     func(g *grant.Grant, _ *grant.Manifest, _ *grant.Policy) { g.Budget.Calls++ },
		"version":    func(_ *grant.Grant, m *grant.Manifest, _ *grant.Policy) { m.Version = "1.2.4" },
		"safety":     func(_ *grant.Grant, m *grant.Manifest, _ *grant.Policy) { m.Safety = grant.SafetyHigh },
		"template":   func(_ *grant.Grant, m *grant.Manifest, _ *grant.Policy) { m.Commands[0].Args[1].Optional = false },
		"settings":   func(_ *grant.Grant, _ *grant.Manifest, p *grant.Policy) { p.Version = "settings-2" },
		"limit":      func(_ *grant.Grant, _ *grant.Manifest, p *grant.Policy) { p.Limits.MaxDepth++ },
		"list":       func(_ *grant.Grant, _ *grant.Manifest, p *grant.Policy) { p.Lists.MIME = nil },
		"empty list": func(_ *grant.Grant, _ *grant.Manifest, p *grant.Policy) { p.Lists.MIME = []string{} },
		"deny":       func(_ *grant.Grant, _ *grant.Manifest, p *grant.Policy) { p.Denied = grant.Denied{} },
		"root":       func(_ *grant.Grant, _ *grant.Manifest, p *grant.Policy) { p.Mappings.Root = "/agent" },
		"whose template": func(_ *grant.Grant, m *grant.Manifest, p *grant.Policy) {
			m.Commands, p.Commands = p.Commands, m.Commands
		},
	}
	seen := map[string]string{p.Hash: "the fixture"}
	for name, change := range other {
		got := changed(t, change)
		if before, ok := seen[got.Hash]; ok {
			t.Errorf("%s has the hash of %s", name, before)
		}
		seen[got.Hash] = name
	}
}

func changed(t *testing.T, change func(*grant.Grant, *grant.Manifest, *grant.Policy)) grant.Profile {
	t.Helper()
	g, m, p := aGrant(), aManifest(), aPolicy()
	change(&g, &m, &p)
	return built(t, g, m, p)
}

// TestProfileTravels checks that a profile which was written and read again is
// the same one, and that one which was changed on the way is refused.
func TestProfileTravels(t *testing.T) {
	p := built(t, aGrant(), aManifest(), aPolicy())
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var again grant.Profile
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if _, err := grant.Compile(again); err != nil {
		t.Errorf("read again: %v", err)
	}
	again.Limits.MaxBytesOut++
	_, err = grant.Compile(again)
	refused(t, err, sandbox.CodeValidation, "profile.profileHash")
	_, err = grant.Compile(grant.Profile{})
	refused(t, err, sandbox.CodeValidation, "profile.profileHash")
}

// TestTerms checks that terms that are kept say what is said without them, and
// that what callers do with their lists afterwards changes nothing.
func TestTerms(t *testing.T) {
	g, m, p := aGrant(), aManifest(), aPolicy()
	terms, err := grant.Prepare(m, p)
	if err != nil {
		t.Fatal(err)
	}
	want := built(t, aGrant(), aManifest(), aPolicy())
	m.Capabilities[0].Path, p.Lists.Domains[0], m.Commands[0].Args[0].OneOf[0], m.Commands[0].Rest.Pattern = "/x", "x.test", "x", "x"
	for range 2 {
		got, err := terms.Build(g, noon())
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
	}
	g.Consent.By = "mallory"
	if want.Consent.By != "alice" {
		t.Error("the profile has its consent from the caller's memory")
	}
}

// TestStrictestLimits checks over random limits that a profile's are no more
// than either says, and the default where neither says one.
func TestStrictestLimits(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 6))
	random := func() grant.Limits {
		n := func() int64 { return max(0, r.Int64N(200)-100) }
		return grant.Limits{MaxBytesIn: n(), MaxBytesOut: n(), MaxTmpBytes: n(), MaxFiles: n(), MaxDepth: int(n()), MaxConcurrency: int(n()), Timeout: time.Duration(n())}
	}
	spread := func(l grant.Limits) [7]int64 {
		return [...]int64{l.MaxBytesIn, l.MaxBytesOut, l.MaxTmpBytes, l.MaxFiles, int64(l.MaxDepth), int64(l.MaxConcurrency), int64(l.Timeout)}
	}
	for range 200 {
		m, p := aManifest(), aPolicy()
		m.Limits, p.Limits = random(), random()
		got := built(t, aGrant(), m, p).Limits
		m.Limits, p.Limits = p.Limits, m.Limits
		if other := built(t, aGrant(), m, p).Limits; other != got {
			t.Fatalf("%+v, and the other way round %+v", got, other)
		}
		one, two, def := spread(m.Limits), spread(p.Limits), spread(grant.Defaults())
		for i, n := range spread(got) {
			want := min(one[i], two[i])
			if want == 0 {
				want = max(one[i], two[i])
			}
			if want == 0 {
				want = def[i]
			}
			if n != want {
				t.Fatalf("limit %d of %+v and %+v is %d, want %d", i, m.Limits, p.Limits, n, want)
			}
		}
	}
}
