package replay_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/replay"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/policy"
)

// says answers every question alike but those that it names, and notes them.
type says struct {
	version string
	all     policy.Verdict
	but     map[string]replay.Answer
	asked   *[]string
}

func (s says) answer(question string) replay.Answer {
	if s.asked != nil {
		*s.asked = append(*s.asked, question)
	}
	if a, ok := s.but[question]; ok {
		return a
	}
	return replay.Answer{Verdict: s.all, Rule: "rule of " + question}
}

func (s says) Version() string                            { return s.version }
func (s says) Tool(name string) replay.Answer             { return s.answer("tool " + name) }
func (s says) File(k grant.Kind, p string) replay.Answer  { return s.answer(string(k) + " " + p) }
func (s says) Browser(action string) replay.Answer        { return s.answer("browser " + action) }
func (s says) Program(name string) replay.Answer          { return s.answer("program " + name) }
func (s says) Command(name string) replay.Answer          { return s.answer("command " + name) }
func (s says) Space(int64) replay.Answer                  { return s.answer("space") }
func (s says) Size(int64) replay.Answer                   { return s.answer("size") }
func (s says) Placement(p replay.Placement) replay.Answer { return s.answer("passage " + p.Host) }
func (s says) Request(r replay.Request) replay.Answer {
	return s.answer(strings.Join([]string{"request", r.Method, r.Scheme, r.Host}, " "))
}

func ended(s evidence.Status, code sandbox.Code, rule string) *evidence.End {
	return &evidence.End{Status: s, Code: code, Rule: rule}
}

func write() evidence.Begin {
	return evidence.Begin{ID: "1", Tool: "builder", Kind: grant.OpFsWrite, PolicyVersion: "old", Request: evidence.Request{Path: "/workspace/a", Bytes: 3}}
}

// TestJudge compares one recorded operation with answers of today.
func TestJudge(t *testing.T) {
	fetch := evidence.Begin{Kind: grant.OpNetHTTP, PolicyVersion: "old", Request: evidence.Request{Method: "GET", Scheme: "https", Host: "a.example", Port: 443}}
	run := evidence.Begin{Kind: grant.OpProcExec, PolicyVersion: "old", Request: evidence.Request{Program: "git", Args: 2}}
	command, bare := evidence.Begin{Kind: evidence.Command, Request: evidence.Request{Program: "git", Args: 2}}, evidence.Begin{Kind: evidence.Command, Request: evidence.Request{Program: "git"}}
	allow, ask, deny := says{all: policy.Allow, version: "new"}, says{all: policy.Ask, version: "new"}, says{all: policy.Deny, version: "new"}
	blocks := says{all: policy.Allow, version: "new", but: map[string]replay.Answer{"command git": {Verdict: policy.Deny, Rule: "commands.block[0]"}}}
	unsure := says{all: policy.Allow, version: "new", but: map[string]replay.Answer{"size": {Verdict: policy.Allow, Unsure: "no manifest"}}}
	led := ended(evidence.OK, "", "")
	led.Effects = []evidence.Effect{{Kind: grant.EffectNetwork, Host: "b.example:443"}}
	stayed := ended(evidence.OK, "", "")
	stayed.Effects = []evidence.Effect{{Kind: grant.EffectNetwork, Host: "a.example:443"}}
	tests := []struct {
		name             string
		begin            evidence.Begin
		end              *evidence.End
		today            replay.Today
		verdict          policy.Verdict
		differs, certain bool
		why              string
	}{
		{"still allowed", write(), ended(evidence.OK, "", ""), allow, policy.Allow, false, true, "lets it pass"},
		{"refused today", write(), ended(evidence.OK, "", ""), deny, policy.Deny, true, true, "refuses it"},
		{"asked about today", write(), ended(evidence.OK, "", ""), ask, policy.Ask, true, true, "would be asked"},
		{"not ended", write(), nil, deny, policy.Deny, true, true, "refuses it"},
		{"failed after it was allowed", write(), ended(evidence.Failed, sandbox.CodeExecution, ""), deny, policy.Deny, true, true, "refuses it"},
		{"a link that was refused on the way had been allowed", write(), ended(evidence.Failed, sandbox.CodeCapabilityBlocked, "link"), allow, policy.Allow, false, true, "lets it pass"},
		{"aborted", write(), ended(evidence.Aborted, sandbox.CodeExecution, ""), allow, policy.Allow, false, true, "lets it pass"},
		{"the same policy", func() evidence.Begin { b := write(); b.PolicyVersion = "new"; return b }(), ended(evidence.OK, "", ""), deny, policy.Allow, false, true, "the one that it was judged by"},
		{"a version that nobody has is no same one", func() evidence.Begin { b := write(); b.PolicyVersion = ""; return b }(), ended(evidence.OK, "", ""), says{all: policy.Deny}, policy.Deny, true, true, "refuses it"},
		{"a size that nobody can tell of", write(), ended(evidence.OK, "", ""), unsure, policy.Allow, false, false, "no manifest"},
		{"arguments", run, ended(evidence.OK, "", ""), allow, policy.Allow, false, false, "a digest only"},
		{"arguments of a program that is refused", run, ended(evidence.OK, "", ""), deny, policy.Deny, true, true, "refuses it"},
		{"a command", command, ended(evidence.OK, "", ""), allow, policy.Allow, false, false, "a digest only"},
		{"a command whose program alone is refused", command, ended(evidence.OK, "", ""), deny, policy.Allow, false, false, "a digest only"},
		{"a command whose program a rule names", command, ended(evidence.OK, "", ""), blocks, policy.Deny, true, false, "a rule names"},
		{"a command that was refused for its arguments", command, ended(evidence.Denied, sandbox.CodeDenyTool, "critical-path"), allow, policy.Deny, false, false, "for its arguments"},
		{"a command that a rule refused", command, ended(evidence.Denied, sandbox.CodeDenyTool, "commands.block[0]"), allow, policy.Allow, true, false, "behind the refusal"},
		{"a command without arguments that is refused", bare, ended(evidence.OK, "", ""), deny, policy.Deny, true, true, "refuses it"},
		{"a command by a tool that is refused", func() evidence.Begin { b := command; b.Tool = "exec"; return b }(), ended(evidence.OK, "", ""), deny, policy.Deny, true, true, "refuses it"},
		{"a line of a shell", evidence.Begin{Kind: evidence.Command}, ended(evidence.OK, "", ""), allow, policy.Allow, false, false, "does not say"},
		{"refused by the policy, allowed today", fetch, ended(evidence.Denied, sandbox.CodeCapabilityBlocked, "policy.lists.domains"), allow, policy.Allow, true, false, "behind the refusal"},
		{"refused by the policy, then and today", fetch, ended(evidence.Denied, sandbox.CodeCapabilityBlocked, "policy.denied.domains"), deny, policy.Deny, false, true, "refuses it"},
		{"refused by a rule for commands", run, ended(evidence.Denied, sandbox.CodeDenyTool, "commands.block[0]: git"), deny, policy.Deny, false, true, "refuses it"},
		{"refused by the grant", fetch, ended(evidence.Denied, sandbox.CodePermissionDeny, "grant.capabilities"), allow, policy.Deny, false, true, "the grant refused it: grant.capabilities"},
		{"no consent", fetch, ended(evidence.Denied, sandbox.CodePermissionDeny, "grant.consent"), allow, policy.Deny, false, true, "the grant refused it: grant.consent"},
		{"revoked", fetch, ended(evidence.Denied, sandbox.CodePermissionDeny, "grant.revoked"), allow, policy.Deny, false, true, "grant.revoked"},
		{"over budget", fetch, ended(evidence.Denied, sandbox.CodeBudgetExceeded, ""), allow, policy.Deny, false, true, "the budget refused it: the record names no rule"},
		{"not in the manifest", run, ended(evidence.Denied, sandbox.CodeDenyTool, "manifest.commands"), allow, policy.Deny, false, true, "the manifest refused it"},
		{"malformed", fetch, ended(evidence.Denied, sandbox.CodeValidation, "op.url"), allow, policy.Deny, false, true, "malformed"},
		{"a link that was found", write(), ended(evidence.Denied, sandbox.CodeCapabilityBlocked, "link"), allow, policy.Allow, false, false, "what was found when it was to be done"},
		{"a link that was found, refused today", write(), ended(evidence.Denied, sandbox.CodeCapabilityBlocked, "link"), deny, policy.Deny, false, true, "refuses it"},
		{"leads back", write(), ended(evidence.Denied, sandbox.CodeCapabilityBlocked, "op.path"), allow, policy.Deny, false, true, "by itself"},
		{"no evidence could be kept", fetch, ended(evidence.Denied, sandbox.CodeUnavailable, "requireEvidence"), allow, policy.Deny, false, true, "another reason"},
		{"a limit", write(), ended(evidence.Denied, sandbox.CodeCapabilityBlocked, "profile.limits.maxBytesOut"), allow, policy.Deny, false, false, "may be the manifest's"},
		{"led on to another host", fetch, led, allow, policy.Allow, false, false, "led on"},
		{"not led on", fetch, stayed, allow, policy.Allow, false, true, "lets it pass"},
		{"an unknown kind", evidence.Begin{Kind: "FsMelt", PolicyVersion: "old"}, ended(evidence.OK, "", ""), allow, policy.Allow, false, false, "does not say"},
		{"a file without a path", evidence.Begin{Kind: grant.OpFsRead, PolicyVersion: "old"}, ended(evidence.OK, "", ""), allow, policy.Allow, false, false, "does not say"},
		{"an answer that is none", write(), ended(evidence.OK, "", ""), says{all: "maybe", version: "new"}, policy.Deny, true, true, "refuses it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := replay.Judge(replay.Operation{Begin: tt.begin, End: tt.end}, tt.today)
			if r.Today.Verdict != tt.verdict || r.Differs != tt.differs || r.Certain != tt.certain || !strings.Contains(r.Why, tt.why) {
				t.Errorf("today %s, differs %v, certain %v, %q", r.Today.Verdict, r.Differs, r.Certain, r.Why)
			}
			if r.Differs && r.Today.Verdict == r.Recorded.Verdict {
				t.Errorf("%s and %s, differs %v", r.Recorded.Verdict, r.Today.Verdict, r.Differs)
			}
		})
	}
}

// TestJudgeAsks checks what is asked about each kind of operation.
func TestJudgeAsks(t *testing.T) {
	page := evidence.Request{Scheme: "https", Host: "a.example", Port: 443}
	tests := []struct {
		kind    grant.OpKind
		request evidence.Request
		want    string
	}{
		{grant.OpFsRead, evidence.Request{Path: "/w/a"}, "fs.read /w/a"},
		{grant.OpFsList, evidence.Request{Path: "/w/a"}, "fs.list /w/a"},
		{grant.OpFsWrite, evidence.Request{Path: "/w/a", Bytes: 1}, "fs.write /w/a|size"},
		{grant.OpNetHTTP, evidence.Request{Method: "POST", Scheme: "https", Host: "a.example", Port: 443, Bytes: 9}, "request POST https a.example|size"},
		{grant.OpBrowserNav, page, "request GET https a.example|browser open"},
		{grant.OpBrowserNav, evidence.Request{Path: "/w/page.html"}, "fs.read /w/page.html|browser open"},
		{grant.OpBrowserNav, evidence.Request{}, "browser open"},
		{grant.OpBrowserScreenshot, evidence.Request{}, "browser screenshot"},
		{grant.OpBrowserExtract, evidence.Request{}, "browser extract"},
		{grant.OpBrowserClick, evidence.Request{}, "browser click"},
		{grant.OpBrowserType, evidence.Request{}, "browser type"},
		{grant.OpBrowserDownload, evidence.Request{Path: "/w/a"}, "fs.write /w/a|browser download"},
		{grant.OpBrowserPDF, evidence.Request{}, "browser pdf"},
		{grant.OpBrowserWait, evidence.Request{}, "browser wait"},
		{grant.OpBrowserUpload, evidence.Request{Path: "/w/a"}, "fs.read /w/a|browser upload"},
		{grant.OpProcExec, evidence.Request{Program: "git"}, "program git"},
		{evidence.Command, evidence.Request{Program: "git"}, "command git"},
		{grant.OpTmpAlloc, evidence.Request{Bytes: 10}, "space"},
		{"Command", evidence.Request{Program: "git"}, "command git"},
	}
	for _, tt := range tests {
		var asked []string
		replay.Judge(replay.Operation{Begin: evidence.Begin{Kind: tt.kind, Tool: "x", Request: tt.request}}, says{all: policy.Allow, asked: &asked})
		if got := strings.Join(asked, "|"); got != "tool x|"+tt.want {
			t.Errorf("%s asks %s, want %s", tt.kind, got, tt.want)
		}
	}
}

// TestStrictestCounts checks that one refusal among answers decides, with its
// rule, and that what is refused for sure is certain whatever else is not.
func TestStrictestCounts(t *testing.T) {
	today := says{all: policy.Allow, but: map[string]replay.Answer{
		"tool builder":          {Verdict: policy.Ask, Rule: "first"},
		"fs.write /workspace/a": {Verdict: policy.Deny, Rule: "second", Message: "no"},
		"size":                  {Verdict: policy.Allow, Unsure: "nobody knows"},
	}}
	r := replay.Judge(replay.Operation{Begin: write()}, today)
	if r.Today.Verdict != policy.Deny || r.Today.Rule != "second" || r.Today.Message != "no" || !r.Certain {
		t.Errorf("%+v", r)
	}
}

// TestJudgeReadsFilesOfPages checks that a page of the workspace is judged as a
// file, which only the capability names.
func TestJudgeReadsFilesOfPages(t *testing.T) {
	var asked []string
	replay.Judge(replay.Operation{Begin: evidence.Begin{Kind: grant.OpBrowserNav, Capability: "browser:open:/workspace/a.html", Request: evidence.Request{Scheme: "workspace"}}}, says{all: policy.Allow, asked: &asked})
	if got := strings.Join(asked, "|"); got != "fs.read /workspace/a.html|browser open" {
		t.Errorf("it asks %s", got)
	}
}

func TestJudgePlacement(t *testing.T) {
	allow, ask, deny := says{all: policy.Allow}, says{all: policy.Ask}, says{all: policy.Deny}
	tests := []struct {
		name, protocol   string
		recorded         policy.Verdict
		rule             string
		today            replay.Today
		verdict          policy.Verdict
		differs, certain bool
	}{
		{"still allowed", "http", policy.Allow, "network.allowPublic", allow, policy.Allow, false, true},
		{"refused today", "connect", policy.Allow, "network.allowPublic", deny, policy.Deny, true, true},
		{"asked about today", "connect", policy.Allow, "network.allowPublic", ask, policy.Ask, true, true},
		{"allowed today", "connect", policy.Deny, "network.allowedDomains", allow, policy.Allow, true, true},
		{"an address", "socks5", policy.Deny, "address", allow, policy.Allow, true, true},
		{"asked then and now", "connect", policy.Deny, "network.ask", ask, policy.Ask, false, false},
		{"what it carried", "connect", policy.Deny, "protocol", allow, policy.Allow, false, false},
		{"what it carried, and refused now", "connect", policy.Deny, "protocol", deny, policy.Deny, false, true},
		{"a request inside", "connect", policy.Deny, "request", allow, policy.Allow, false, false},
		{"a request that is known", "http", policy.Deny, "request", allow, policy.Allow, true, true},
		{"a secret", "connect", policy.Deny, "secret", allow, policy.Deny, false, true},
		{"another name in TLS", "connect", policy.Deny, "sni", allow, policy.Deny, false, true},
		{"a limit", "http", policy.Deny, "limits.requestBytes", allow, policy.Deny, false, true},
		{"no evidence could be kept", "http", policy.Deny, "requireEvidence", allow, policy.Deny, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := replay.Placement{Phase: "decision", Protocol: tt.protocol, Host: "a.example", Port: 443, Verdict: tt.recorded, Rule: tt.rule}
			r := replay.JudgePlacement(p, replay.Whose{Tenant: "acme"}, tt.today)
			if r.Today.Verdict != tt.verdict || r.Differs != tt.differs || r.Certain != tt.certain || r.Why == "" {
				t.Errorf("today %s, differs %v, certain %v, %q", r.Today.Verdict, r.Differs, r.Certain, r.Why)
			}
		})
	}
	none := replay.JudgePlacement(replay.Placement{Verdict: policy.Deny, Rule: "request"}, replay.Whose{}, allow)
	if none.Differs || !none.Certain {
		t.Errorf("what was no host differs: %+v", none)
	}
}

func TestUnknown(t *testing.T) {
	err := errors.New("no such agent")
	for _, r := range []replay.Result{
		replay.Unknown(replay.Operation{Begin: write()}, err),
		replay.UnknownPlacement(replay.Placement{Host: "a", Verdict: policy.Deny}, replay.Whose{}, err),
	} {
		if r.Differs || r.Certain || r.Today.Verdict != "" || !strings.Contains(r.Why, "no such agent") {
			t.Errorf("%+v", r)
		}
	}
}

func TestReadPlacement(t *testing.T) {
	good := `{"id":7,"phase":"decision","protocol":"connect","host":"a.example","port":443,"addr":"192.0.2.7:443","verdict":"allow","rule":"r","later":1}`
	p, err := replay.ReadPlacement([]byte(good))
	if err != nil || !p.Decision() || p.Port != 443 || p.Addr != netip.MustParseAddrPort("192.0.2.7:443") {
		t.Errorf("%+v, %v", p, err)
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"phase":"decision"}`, `{"phase":"other","verdict":"allow"}`, `{"phase":"end","verdict":"yes"}`, `{"phase":"decision","verdict":"allow","port":70000}`, `{"phase":"decision","verdict":"allow","addr":"x"}`} {
		if p, err := replay.ReadPlacement([]byte(bad)); err == nil {
			t.Errorf("%s is read as %+v", bad, p)
		}
	}
}

// FuzzReplay checks that whatever a record says, it is judged without a fault,
// and never as certain without a verdict.
func FuzzReplay(f *testing.F) {
	f.Add("FsRead", "/workspace/a", "a.example", "policy.x", "POLICY.DENY_TOOL", []byte(`{"phase":"decision","verdict":"deny","host":"h","port":1}`))
	f.Add("", "", "", "", "", []byte(`{}`))
	f.Fuzz(func(t *testing.T, kind, path, host, rule, code string, data []byte) {
		b := evidence.Begin{Kind: grant.OpKind(kind), Request: evidence.Request{Path: path, Host: host, Program: path}}
		for _, status := range []evidence.Status{evidence.OK, evidence.Denied, "odd"} {
			r := replay.Judge(replay.Operation{Begin: b, End: ended(status, sandbox.Code(code), rule)}, says{all: policy.Deny})
			if r.Today.Verdict == "" || r.Why == "" {
				t.Fatalf("%+v", r)
			}
		}
		if p, err := replay.ReadPlacement(data); err == nil {
			if r := replay.JudgePlacement(p, replay.Whose{}, says{all: policy.Ask}); r.Today.Verdict == "" || r.Why == "" {
				t.Fatalf("%+v", r)
			}
		}
	})
}
