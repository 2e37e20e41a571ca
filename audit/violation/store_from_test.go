package violation

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/journal"
	"github.com/bulkhead-dev/sandbox/policy"
)

var meta = Meta{Tenant: "acme", Agent: "main", Session: "chat-42", Sandbox: "sbx-x", Command: "TOKEN=s3cret rm -rf / # tidy"}

func TestFromSandbox(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	v := sandbox.Violation{
		Kind: sandbox.ResourcePath, Operation: sandbox.OpWrite, Resource: "/etc/x", Rule: "filesystem.denyWrite: /etc",
		Builtin: true, Evidence: sandbox.EvidenceCertain, Program: "touch", PID: 7, HostPath: "/host/etc/x", Time: at,
	}
	want := Record{
		Time: at, Tenant: "acme", Agent: "main", Session: "chat-42", Sandbox: "sbx-x", Type: WallPath, Severity: policy.High, Verdict: policy.Deny,
		Kind: "path", Op: "write", Resource: "/etc/x", Rule: "filesystem.denyWrite: /etc", Message: "denied by the sandbox, evidence certain",
		Program: "touch", CommandDigest: journal.Digest(meta.Command), Count: 1,
	}
	if d := cmp.Diff(want, FromSandbox(v, meta)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	tests := []struct {
		v        sandbox.Violation
		typ      Type
		severity policy.Severity
	}{
		{sandbox.Violation{Kind: sandbox.ResourceNetwork}, providerNetwork, policy.Medium},
		{sandbox.Violation{Kind: sandbox.ResourceSyscall}, providerSyscall, policy.Medium},
		{sandbox.Violation{Kind: sandbox.ResourcePath, Evidence: sandbox.EvidenceWeak, Builtin: true}, WallPath, policy.Low},
	}
	for _, tt := range tests {
		if r := FromSandbox(tt.v, Meta{}); r.Type != tt.typ || r.Severity != tt.severity || r.CommandDigest != "" {
			t.Errorf("%+v is %+v", tt.v, r)
		}
	}
}

func TestFromNetwork(t *testing.T) {
	v := sandbox.Violation{
		Kind: sandbox.ResourceNetwork, Operation: sandbox.OpConnect, Resource: "evil.example:443", Rule: "network.allowedDomains",
		Evidence: sandbox.EvidenceCertain, Time: time.Unix(1, 0),
	}
	got := FromNetwork(v, "no rule allows evil.example:443", meta)
	want := Record{
		Time: v.Time, Tenant: "acme", Agent: "main", Session: "chat-42", Sandbox: "sbx-x", Type: NetworkViolation, Severity: policy.Medium, Verdict: policy.Deny,
		Kind: "network", Op: "connect", Resource: "evil.example:443", Rule: "network.allowedDomains", Message: "no rule allows evil.example:443",
		CommandDigest: journal.Digest(meta.Command), Count: 1,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	v.Builtin = true
	m := Meta{Program: "curl", CommandDigest: journal.Digest(meta.Command)}
	if got = FromNetwork(v, "", m); got.Severity != policy.High || got.Program != "curl" || got.CommandDigest != want.CommandDigest {
		t.Errorf("%+v", got)
	}
	if got = FromNetwork(v, "", Meta{}); got.CommandDigest != "" {
		t.Errorf("a digest of nothing: %+v", got)
	}
}

func TestFromReason(t *testing.T) {
	at := strings.Index(meta.Command, "rm")
	reason := policy.Reason{
		Check: "removal", Verdict: policy.Deny, Severity: policy.Critical, Message: "it removes the root", Rule: "root",
		Span: policy.Span{Start: at, End: at + len("rm -rf /")},
	}
	want := Record{
		Tenant: "acme", Agent: "main", Session: "chat-42", Sandbox: "sbx-x", Type: CriticalPathRemoval, Severity: policy.Critical, Verdict: policy.Deny,
		Kind: sandbox.ResourceCommand, Op: sandbox.OpExecute, Rule: "root", Message: "it removes the root", Program: "rm", Command: "rm -rf /",
		CommandDigest: journal.Digest(meta.Command), Count: 1,
	}
	if d := cmp.Diff(want, FromReason(reason, meta)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	reason.Span = policy.Span{}
	if r := FromReason(reason, meta); r.Command != "TOKEN=*** rm -rf / # tidy" || r.Program != "rm" {
		t.Errorf("the whole line is kept as %q of %q", r.Command, r.Program)
	}
	short := meta
	short.Command = "rm -rf /"
	if r := FromReason(reason, short); r.Command != short.Command || r.CommandDigest != "" {
		t.Errorf("a short line is kept as %q with %q", r.Command, r.CommandDigest)
	}
	if r := FromReason(policy.Reason{Check: "rule"}, Meta{Program: "rm", CommandDigest: "d1"}); r.Command != "" || r.CommandDigest != "d1" || r.Program != "rm" {
		t.Errorf("a command that is told by its digest: %+v", r)
	}
	if r := FromReason(policy.Reason{Check: "tool"}, Meta{}); r.Type != ToolDenied || r.Kind != sandbox.ResourceTool {
		t.Errorf("a tool is %+v", r)
	}
}

func TestFromLimit(t *testing.T) {
	r := FromLimit("limits.memory", "limits.memory: 3 MiB, bound 2 MiB", meta)
	if r.Type != LimitExceeded || r.Resource != "limits.memory" || r.Kind != sandbox.ResourceLimit || r.Severity != policy.Low || r.Command != "" {
		t.Errorf("%+v", r)
	}
}

func TestEveryCheckHasAType(t *testing.T) {
	for check, want := range map[string]Type{
		"heredoc": heredocInjection, "metacharacter": metacharacterAbuse, "syntax": metacharacterAbuse, "variable": variableInjection,
		"pattern": dangerousPattern, "interpreter": dangerousPattern, "removal": CriticalPathRemoval, "sensitive-file": sensitiveFileAccess,
		"path": pathAccessDenied, "temporary": disallowedTempWrite, "network": NetworkViolation, "tool": ToolDenied,
		"rule": CommandBlocked, "one that comes later": CommandBlocked,
	} {
		if got := byCheck(check); got != want || !got.Known() {
			t.Errorf("%s is %s, want %s", check, got, want)
		}
	}
	for _, typ := range Types() {
		if s := severityOf(typ); s < policy.Low || s > policy.Critical {
			t.Errorf("%s has severity %d", typ, s)
		}
	}
}

func TestMask(t *testing.T) {
	tests := []struct{ in, want string }{
		{"rm -rf /", "rm -rf /"},
		{"A=1 B='two words' rm x", "A=*** B=*** rm x"},
		{"A=1;B=2&&C=3|D=4", "A=***;B=***&&C=***|D=***"},
		{`A="x $(cat y)" ls`, "A=*** ls"},
		{`A=$(cat "a b" | tr a b) ls`, "A=*** ls"},
		{`A=x\ y ls`, "A=*** ls"},
		{"PATH+=:/x ls", "PATH+=*** ls"},
		{"env TOKEN=abc curl", "env TOKEN=*** curl"},
		{"docker run -e TOKEN=abc x", "docker run -e TOKEN=*** x"},
		{"bash -c 'TOKEN=abc curl x'", "bash -c 'TOKEN=*** curl x'"},
		{"A='never ends ls", "A=***"},
		{"dd if=/dev/zero of=/dev/sda", "dd if=/dev/zero of=/dev/sda"},
		{"test a = b == c", "test a = b == c"},
		{"=x", "=x"},
		{"1A=x", "1A=x"},
		{"A=", "A=***"},
		{"", ""},
	}
	for _, tt := range tests {
		if got := mask(tt.in, 1000); got != tt.want {
			t.Errorf("%q is kept as %q, want %q", tt.in, got, tt.want)
		}
		if strings.Contains(mask(tt.in, 1000), "abc") {
			t.Errorf("%q keeps the value", tt.in)
		}
	}
}

func FuzzMask(f *testing.F) {
	f.Add("A=1 B='x y' ls $(C=2 d)", 300)
	f.Fuzz(func(t *testing.T, s string, most int) {
		if got := mask(s, most); most > 0 && len(got) > most+len(s)+8 {
			t.Errorf("%d bytes of %d", len(got), len(s))
		}
		got := mask("SECRET=tellnobody "+s, 1000)
		if strings.Contains(strings.Split(got, " ")[0], "tell") {
			t.Errorf("kept as %q", got)
		}
	})
}
