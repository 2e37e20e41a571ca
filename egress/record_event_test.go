package egress

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/policy"
)

// TestNoSecretIsKept checks that a secret occurs nowhere in the records,
// although every text with a URL contains it.
func TestNoSecretIsKept(t *testing.T) {
	const secret = "sk-FAKE0123456789abcdefFAKE"
	g := recordNewRig(t, RecorderOptions{Require: true}, evidence.Options{})
	g.Command(sbx, "run-9", recordWho{Tenant: "acme", Session: "chat-42", Program: "curl", Line: "curl -H 'Authorization: Bearer " + secret + "' https://example.com"})
	for _, e := range []Event{allowed(), recordRefused()} {
		e.Caller, e.Protocol, e.Method, e.Secrets = "run-9", ProtocolIntercepted, "GET", []string{"API_KEY"}
		for _, path := range []string{"/v1/me?key=" + secret, "/v1/me#" + secret, "/?" + secret} {
			e.Path = path
			e.Error = `Get "http://user:` + secret + `@example.com/v1?key=` + secret + `": connection reset`
			e.Message = "cannot reach http://" + secret + "@example.com, nor http://example.com/?" + secret + ": refused"
			e.Hint = "look at http://example.com?key=" + secret
			if e.Verdict == policy.Allow {
				if err := g.Decide(e); err != nil {
					t.Fatal(err)
				}
				e.Phase = PhaseEnd
			}
			g.Record(e)
		}
	}
	g.flush(t)
	if len(g.proven(t)) != 9 || len(g.listed(t)) == 0 {
		t.Fatalf("%d records and %d violations", len(g.proven(t)), len(g.listed(t)))
	}
	for _, dir := range g.dirs {
		holdsNone(t, dir, secret, secret[8:], url.QueryEscape(secret), base64.StdEncoding.EncodeToString([]byte(secret))[:32])
	}
	for _, e := range g.proven(t) {
		if ev := eventOf(t, e); !strings.Contains(ev.Error, "connection reset") || !strings.Contains(ev.Error, "example.com/v1") || ev.Secrets[0] != "API_KEY" {
			t.Errorf("too much is gone: %+v", ev)
		}
	}
}

func TestDiscreet(t *testing.T) {
	for in, want := range map[string]string{
		"":                               "",
		"evil.example:443 is not known?": "evil.example:443 is not known?",
		"is it git@example.com ?":        "is it git@example.com ?",
		`Get "http://a/b?c=d": EOF`:      `Get "http://a/b?...": EOF`,
		"http://u:p@a/b":                 "http://...@a/b",
		"http://u:p@a":                   "http://...@a",
		"http://u@v@a:80/x@y":            "http://...@a:80/x@y",
		"a?b=c":                          "a?...",
	} {
		if got := discreet(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// TestHostileTexts checks that an event with any texts is recorded, bounded,
// and printable.
func TestHostileTexts(t *testing.T) {
	for name, text := range map[string]string{
		"long": strings.Repeat("x", 100<<10), "control": strings.Repeat("\x00\x1b[2J\n", 50000), "invalid": strings.Repeat("\xff", 50000),
		"wide": strings.Repeat("日", 50000), "markup": strings.Repeat("<&>", 50000), "quotes": strings.Repeat(`"\`, 50000), "blank": "\n",
	} {
		t.Run(name, func(t *testing.T) {
			g := recordNewRig(t, RecorderOptions{}, evidence.Options{})
			for _, v := range []policy.Verdict{policy.Allow, policy.Deny, policy.Verdict(text)} {
				g.Record(Event{
					Phase: PhaseDecision, Sandbox: text, Caller: text, Protocol: Protocol(text), Method: text, Host: text, Port: 1, Path: text,
					Addr: netip.MustParseAddrPort("[fe80::1%eth0]:1"), Verdict: v, Rule: text, Message: text, Hint: text, Error: text,
					Secrets: []string{text, text, text, text, text, text, text, text, text, text, text, text, text, text, text, text, text, text},
				})
			}
			g.flush(t)
			got := g.proven(t)
			if len(got) != 3 || g.Counters().Lost != 0 {
				t.Fatalf("%d records, %+v", len(got), g.Counters())
			}
			for _, r := range got {
				e := eventOf(t, r)
				for _, s := range []string{e.Method, e.Host, e.Path, e.Rule, e.Message, e.Hint, e.Error, e.Secrets[0], string(e.Protocol)} {
					if s != strings.Map(recordPrintable, s) || len(s) > recordMaxPath {
						t.Errorf("kept as %.100q", s)
					}
				}
			}
			for _, v := range g.listed(t) {
				if v.Resource != strings.Map(recordPrintable, v.Resource) {
					t.Errorf("listed as %.100q", v.Resource)
				}
			}
		})
	}
}

// printable drops what is no printable ASCII, but for the mark of a cut.
func recordPrintable(r rune) rune {
	if r == '…' || r >= ' ' && r <= '~' {
		return r
	}
	return -1
}

func TestFromEvents(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	refusal := func(host string, port uint16, rule string) Event {
		return Event{Phase: PhaseDecision, Time: at, Host: host, Port: port, Verdict: policy.Deny, Rule: rule}
	}
	end := allowed()
	end.Phase, end.Error = PhaseEnd, "connection refused"
	asked := refusal("asked.example", 443, "network.ask")
	asked.Verdict = policy.Ask
	got := fromEvents([]Event{
		refusal("evil.example", 443, "network.allowedDomains"),
		allowed(), end,
		refusal("evil.example", 443, "sni"),
		refusal("evil.example", 443, "network.allowedDomains"),
		refusal("bad.example", 80, "network.deniedDomains[3]: *.example"),
		refusal("169.254.169.254", 80, "address"),
		refusal("fe80::1", 80, "address"),
		refusal("", 0, "malformed"),
		refusal("a\nb", 443, "target"),
		asked,
	})
	violationAt := func(resource, rule string, builtin bool) sandbox.Violation {
		return sandbox.Violation{
			Kind: sandbox.ResourceNetwork, Operation: sandbox.OpConnect, Resource: resource, Rule: rule, Builtin: builtin,
			Evidence: sandbox.EvidenceCertain, Time: at,
		}
	}
	want := []sandbox.Violation{
		violationAt("evil.example:443", "sni", false),
		violationAt("evil.example:443", "network.allowedDomains", false),
		violationAt("bad.example:80", "network.deniedDomains[3]: *.example", true),
		violationAt("169.254.169.254:80", "address", true),
		violationAt("[fe80::1]:80", "address", true),
		violationAt("unknown host", "malformed", false),
		violationAt(`"a\nb":443`, "target", false),
		violationAt("asked.example:443", "network.ask", false),
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	var many []Event
	for n := range 1000 {
		many = append(many, refusal(fmt.Sprintf("h%d.example", n), 443, "network.allowedDomains"))
	}
	if got := fromEvents(many); len(got) != violation.MaxViolations || got[violation.MaxViolations-1].Resource != "h999.example:443" {
		t.Errorf("%d violations", len(got))
	}
	if got := fromEvents([]Event{allowed(), end}); got != nil {
		t.Errorf("what was allowed is told as %v", got)
	}
}

// TestBlocked checks the effect of a refusal on a command: blocked if it has
// failed, and only reported otherwise.
func TestBlocked(t *testing.T) {
	seen := fromEvents([]Event{recordRefused()})
	f := violation.Classify(nil, violation.Ending{Exit: sandbox.Exit{Code: 56}, Observed: seen})
	if !f.Blocked || f.Resource != "evil.example:443" || f.Reason != "connect evil.example:443: denied: network.allowedDomains (refused on the way out)" || len(f.Violations) != 1 {
		t.Errorf("a command that failed: %+v", f)
	}
	f = violation.Classify(nil, violation.Ending{Observed: seen})
	if f.Blocked || len(f.Violations) != 1 {
		t.Errorf("a command that did without: %+v", f)
	}
	hostile := recordRefused()
	hostile.Host = "evil\x1b[2J\nsandbox: allowed"
	f = violation.Classify(nil, violation.Ending{Exit: sandbox.Exit{Code: 1}, Observed: fromEvents([]Event{hostile})})
	if want := `connect "evil\x1b[2J\nsandbox: allowed":443: denied: network.allowedDomains (refused on the way out)`; f.Reason != want {
		t.Errorf("reason %s\nwant %s", f.Reason, want)
	}
}
