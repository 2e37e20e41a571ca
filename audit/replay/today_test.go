package replay_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/replay"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/policy"
)

func settings(t testing.TB, members string) *replay.Settings {
	t.Helper()
	s, err := config.Parse("f", []byte(`{"agents":{"defaults":{"sandbox":{`+members+`}},"list":[{"id":"open","sandbox":{"network":{"allowPublic":true}}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	return replay.New(s, func(config.Resolved) (config.Inside, error) { return config.Inside{}, nil })
}

func of(t testing.TB, members, agent string) replay.Today {
	t.Helper()
	j, err := settings(t, members).For("acme", agent, "chat-42")
	if err != nil {
		t.Fatal(err)
	}
	return j
}

const rules = `"filesystem": {"denyRead": ["/workspace/private", "**/*.pem"]}, "limits": {"fileSize": "1m"}, "browser": {"enabled": true},
	"docker": {"tmpfs": ["/tmp:size=4m"]}, "tools": {"alsoAllow": ["builder"]}, "commands": {"block": ["curl"]},
	"network": {"allowedDomains": ["a.example", "https://b.example:8443", "http://c.example/pub", "tcp://d.example:22", "intra.example"], "deniedDomains": ["bad.a.example"]}`

func TestAnswers(t *testing.T) {
	j := of(t, rules, "main")
	get := func(scheme, host string, port int) replay.Answer {
		return j.Request(replay.Request{Method: "GET", Scheme: scheme, Host: host, Port: port})
	}
	tests := []struct {
		name   string
		got    replay.Answer
		want   policy.Verdict
		rule   string // or a part of it
		unsure bool
	}{
		{"a tool", j.Tool("builder"), policy.Allow, "", false},
		{"another tool", j.Tool("phone"), policy.Deny, "allow", false},
		{"a file", j.File(grant.FSRead, "/workspace/a"), policy.Allow, "", false},
		{"a file that is written", j.File(grant.FSWrite, "/workspace/a"), policy.Allow, "", false},
		{"a folder", j.File(grant.FSList, "/workspace"), policy.Allow, "", false},
		{"a deny by name", j.File(grant.FSRead, "/workspace/private/a"), policy.Deny, "policy.denied.paths", false},
		{"a deny by pattern", j.File(grant.FSRead, "/workspace/x.pem"), policy.Deny, "**/*.pem", false},
		{"a place that no tool gets to", j.File(grant.FSRead, "/etc/passwd"), policy.Deny, "policy.mappings", false},
		{"a deep file", j.File(grant.FSRead, "/workspace"+strings.Repeat("/d", 60)), policy.Allow, "", false},
		{"no path", j.File(grant.FSRead, "x"), policy.Deny, "op.path", false},
		{"no operation on files", j.File(grant.Temp, "/workspace/a"), policy.Deny, "kind", false},
		{"a host", get("https", "a.example", 443), policy.Allow, "", false},
		{"a host without a port", get("https", "a.example", 0), policy.Allow, "", false},
		{"a host at a port that no rule names", get("https", "a.example", 22), policy.Deny, "policy.capabilities", false},
		{"a host at the port of its rule", get("https", "b.example", 8443), policy.Allow, "", false},
		{"plain where a rule wants TLS", get("http", "b.example", 8443), policy.Deny, "policy.capabilities", false},
		{"a host that is denied", get("https", "bad.a.example", 443), policy.Deny, "", false},
		{"a host that is not named", get("https", "z.example", 443), policy.Deny, "policy.capabilities", false},
		{"a path that is not recorded", get("http", "c.example", 80), policy.Allow, "", true},
		{"a host that no path would help", get("http", "z.example", 80), policy.Deny, "", false},
		{"no host", get("https", "a b", 443), policy.Deny, "", false},
		{"no scheme", get("ftp", "a.example", 21), policy.Deny, "scheme", false},
		{"no port", get("https", "a.example", 70000), policy.Deny, "port", false},
		{"no method", j.Request(replay.Request{Method: "get", Scheme: "https", Host: "a.example"}), policy.Deny, "", false},
		{"a look", j.Browser("screenshot"), policy.Allow, "", false},
		{"a download", j.Browser("download"), policy.Deny, "policy.capabilities", false},
		{"a program", j.Program("git"), policy.Allow, "", false},
		{"a program that is blocked", j.Program("curl"), policy.Deny, "commands.block[0]", false},
		{"a command", j.Command("git"), policy.Allow, "", false},
		{"a command that is blocked", j.Command("curl"), policy.Deny, "commands.block[0]", false},
		{"a command of a name that no grant could have", j.Command("a b"), policy.Allow, "", false},
		{"no program", j.Program("a b"), policy.Deny, "manifest.capabilities", false},
		{"space", j.Space(1 << 20), policy.Allow, "", false},
		{"more space than there is", j.Space(5 << 20), policy.Deny, "policy.capabilities", false},
		{"a size", j.Size(1 << 20), policy.Allow, "", false},
		{"too large", j.Size(1<<20 + 1), policy.Deny, "profile.limits.maxBytesOut", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.got.Verdict != tt.want || !strings.Contains(tt.got.Rule, tt.rule) || (tt.got.Unsure != "") != tt.unsure {
				t.Errorf("%+v", tt.got)
			}
			if tt.want == policy.Deny && tt.got.Message == "" {
				t.Error("it does not say why")
			}
		})
	}
	if a := of(t, `"tools": {}`, "main").Size(1 << 30); a.Verdict != policy.Allow || a.Unsure == "" {
		t.Errorf("a size that the manifest bounds: %+v", a)
	}
	if a := of(t, `"tools": {}`, "main").Browser("open"); a.Verdict != policy.Deny {
		t.Errorf("without a browser: %+v", a)
	}
}

func TestPlacements(t *testing.T) {
	j := of(t, rules, "main")
	public, private := netip.MustParseAddrPort("93.184.216.34:443"), netip.MustParseAddrPort("10.0.0.5:443")
	tests := []struct {
		name   string
		p      replay.Placement
		want   policy.Verdict
		unsure bool
	}{
		{"a request", replay.Placement{Protocol: "http", Host: "c.example", Port: 80, Method: "GET", Path: "/pub/x"}, policy.Allow, false},
		{"another path", replay.Placement{Protocol: "http", Host: "c.example", Port: 80, Method: "GET", Path: "/x"}, policy.Deny, false},
		{"a request inside TLS", replay.Placement{Protocol: "https", Host: "a.example", Port: 443, Method: "GET", Path: "/"}, policy.Allow, false},
		{"a tunnel for web only", replay.Placement{Protocol: "connect", Host: "a.example", Port: 443}, policy.Allow, true},
		{"a tunnel to nowhere", replay.Placement{Protocol: "connect", Host: "z.example", Port: 443}, policy.Deny, false},
		{"a public address", replay.Placement{Protocol: "connect", Host: "intra.example", Port: 443, Addr: public}, policy.Allow, true},
		{"a private address", replay.Placement{Protocol: "connect", Host: "intra.example", Port: 443, Addr: private}, policy.Deny, false},
		{"no host", replay.Placement{Protocol: "connect", Host: `"a b"`, Port: 443}, policy.Deny, false},
		{"a strange protocol", replay.Placement{Protocol: "gopher", Host: "a.example", Port: 70}, policy.Deny, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if a := j.Placement(tt.p); a.Verdict != tt.want || (a.Unsure != "") != tt.unsure {
				t.Errorf("%+v", a)
			}
		})
	}
}

// TestQuestionsInsideSandboxes checks that a call about which the gate would ask is
// allowed where a sandbox answers the question, as at run time.
func TestQuestionsInsideSandboxes(t *testing.T) {
	for members, want := range map[string]policy.Verdict{
		`"commands": {"autoAllowIfSandboxed": true}`:                policy.Allow,
		`"commands": {"autoAllowIfSandboxed": false}`:               policy.Ask,
		`"commands": {"autoAllowIfSandboxed": true}, "mode": "off"`: policy.Ask,
	} {
		if a := of(t, members, "main").Program("ssh"); a.Verdict != want {
			t.Errorf("%s: %+v, want %s", members, a, want)
		}
	}
}

// TestFor checks that every agent is judged by its own settings, and one that
// can be none is not judged.
func TestFor(t *testing.T) {
	s := settings(t, `"tools": {}`)
	ask := func(agent string) policy.Verdict {
		j, err := s.For("acme", agent, "s")
		if err != nil {
			t.Fatal(err)
		}
		return j.Request(replay.Request{Method: "GET", Scheme: "https", Host: "a.example"}).Verdict
	}
	if ask("main") != policy.Deny || ask("open") != policy.Allow || ask("main") != policy.Deny {
		t.Error("agents are mixed up")
	}
	if _, err := s.For("acme", "../x", "s"); err == nil {
		t.Error("a name that is none has a policy")
	}
	for i := range 600 { // more than are kept
		if _, err := s.For("acme", "main", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWhatIsBuiltIsWhatIsReplayed checks that a record made under settings does
// not differ under the same, and does when they have changed.
func TestWhatIsBuiltIsWhatIsReplayed(t *testing.T) {
	before, after := of(t, rules, "main"), of(t, `"tools": {"alsoAllow": ["builder"]}`, "main")
	b := evidence.Begin{Tool: "builder", Kind: grant.OpNetHTTP, PolicyVersion: before.Version(), Request: evidence.Request{Method: "GET", Scheme: "https", Host: "a.example", Port: 443}}
	if r := replay.Judge(replay.Operation{Begin: b}, before); r.Differs || !r.Certain {
		t.Errorf("%+v", r)
	}
	if r := replay.Judge(replay.Operation{Begin: b}, after); !r.Differs || !r.Certain || r.Today.Rule != "policy.capabilities" {
		t.Errorf("%+v", r)
	}
}

func BenchmarkJudge(b *testing.B) {
	s := settings(b, rules)
	var p evidence.Begin
	for i := 0; b.Loop(); i++ {
		p = evidence.Begin{Tool: "builder", Kind: grant.OpNetHTTP, Request: evidence.Request{Method: "GET", Scheme: "https", Host: fmt.Sprintf("h%d.a.example", i), Port: 443}}
		j, err := s.For("acme", "main", "s")
		if err != nil {
			b.Fatal(err)
		}
		replay.Judge(replay.Operation{Begin: p}, j)
	}
}
