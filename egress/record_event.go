package egress

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/journal"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/policy"
)

// The maximum recorded bytes of an event's texts.
const (
	maxWord       = 64
	maxHost       = 300
	maxRule       = 256
	maxText       = 512
	recordMaxPath = 1024
	maxSecrets    = 16
	maxLittle     = 96 // of each, if together they are too long
)

// bounded returns e as it is recorded. The proxy passes texts that are
// canonical or quoted; bounded enforces that again, and removes parts that may
// hold a secret: the query of a path, and credentials and queries of URLs in
// messages.
func bounded(e Event, now time.Time) Event {
	if y := e.Time.Year(); e.Time.IsZero() || y < 1 || y > 9999 {
		e.Time = now
	}
	e.Time = e.Time.UTC()
	e.Sandbox, e.Caller = journal.Name(e.Sandbox), journal.Name(e.Caller)
	e.Protocol, e.Phase = Protocol(recordPlain(string(e.Protocol), maxWord)), Phase(recordPlain(string(e.Phase), maxWord))
	e.Method, e.Host = recordPlain(e.Method, maxWord), recordPlain(e.Host, maxHost)
	if i := strings.IndexAny(e.Path, "?#"); i >= 0 {
		e.Path = e.Path[:i]
	}
	e.Path = recordPlain(e.Path, recordMaxPath)
	switch {
	case e.Verdict == "" && e.Phase == PhaseEnd: // only allowed accesses have an end
		e.Verdict = policy.Allow
	case e.Verdict != policy.Allow && e.Verdict != policy.Ask:
		e.Verdict = policy.Deny
	}
	e.Rule = recordPlain(e.Rule, maxRule)
	e.Message, e.Hint, e.Error = recordPlain(discreet(e.Message), maxText), recordPlain(discreet(e.Hint), maxText), recordPlain(discreet(e.Error), maxText)
	e.Secrets = slices.Clone(e.Secrets[:min(maxSecrets, len(e.Secrets))])
	for i, name := range e.Secrets {
		e.Secrets[i] = recordPlain(name, maxWord)
	}
	return e
}

// encode returns a bounded event as data. An event whose texts grow by
// encoding is cut further.
func encode(e Event) (json.RawMessage, error) {
	data, err := json.Marshal(e)
	if err != nil || len(data) <= evidence.MaxData {
		return data, err
	}
	for _, text := range []*string{&e.Sandbox, &e.Caller, &e.Method, &e.Host, &e.Path, &e.Rule, &e.Message, &e.Hint, &e.Error} {
		*text = journal.Text(*text, maxLittle)
	}
	e.Secrets = e.Secrets[:min(4, len(e.Secrets))]
	return json.Marshal(e)
}

// recordPlain returns s as printable ASCII of at most most bytes, quoted if it
// has other characters.
func recordPlain(s string, most int) string {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			s = strconv.QuoteToASCII(s[:min(len(s), most)])
			break
		}
	}
	if len(s) > most {
		s = s[:most-3] + "..."
	}
	return s
}

// discreet returns a message without the credentials and queries of URLs in
// it.
func discreet(s string) string {
	if !strings.ContainsAny(s, "?@") {
		return s
	}
	words := strings.SplitAfter(s, " ")
	for i, w := range words {
		if at := strings.IndexByte(w, '?'); at >= 0 && strings.ContainsAny(w, "/=") {
			w = w[:at] + "?..." + trailer(w[at:])
		}
		if scheme, rest, ok := strings.Cut(w, "://"); ok {
			authority, path, _ := strings.Cut(rest, "/")
			if at := strings.LastIndexByte(authority, '@'); at >= 0 {
				w = scheme + "://...@" + authority[at+1:] + rest[len(authority):len(rest)-len(path)] + path
			}
		}
		words[i] = w
	}
	return strings.Join(words, "")
}

// trailer returns the characters at the end of a word that belong to no URL.
func trailer(w string) string { return w[len(strings.TrimRight(w, "\"': ")):] }

// refusal returns the item's refusal as a violation record.
func (it item) refusal() (violation.Record, bool) {
	v, ok := violationOf(it.event)
	if !ok {
		return violation.Record{}, false
	}
	r := violation.FromNetwork(v, it.event.Message, it.who.meta)
	if strings.HasPrefix(v.Rule, "limits.") {
		r.Type, r.Severity = violation.LimitExceeded, policy.Low
	}
	return r, true
}

// fromEvents returns the violations of a command, each target and rule once,
// in the order of their last refusals, and at most the last
// [violation.MaxViolations]. The events are those of one command, oldest
// first.
func fromEvents(events []Event) []sandbox.Violation {
	var out []sandbox.Violation
	for _, e := range events {
		v, ok := violationOf(bounded(e, e.Time))
		if !ok {
			continue
		}
		out = slices.DeleteFunc(out, func(o sandbox.Violation) bool { return o.Resource == v.Resource && o.Rule == v.Rule })
		out = append(out, v)
	}
	return out[max(0, len(out)-violation.MaxViolations):]
}

// violationOf returns a refusal as a violation. An allowed request that failed
// is none.
func violationOf(e Event) (sandbox.Violation, bool) {
	if e.Phase != PhaseDecision || e.Verdict == policy.Allow {
		return sandbox.Violation{}, false
	}
	rule := e.Rule
	if rule == "address" && e.Message != "" { // only this message names the address and the rule that allows it
		rule += ": " + strings.TrimSuffix(e.Message+"; "+e.Hint, "; ")
	}
	return sandbox.Violation{
		Kind: sandbox.ResourceNetwork, Operation: sandbox.OpConnect, Resource: recordTarget(e), Rule: rule,
		Builtin: recordDenied(e.Rule), Evidence: sandbox.EvidenceCertain, Time: e.Time,
	}, true
}

// recordTarget formats host and port as policy/network does.
func recordTarget(e Event) string {
	host := e.Host
	switch {
	case host == "":
		host = "unknown host"
	case strings.Contains(host, ":") && !strings.ContainsAny(host, `[]"`):
		host = "[" + host + "]"
	}
	if e.Port == 0 {
		return host
	}
	return host + ":" + strconv.Itoa(int(e.Port))
}

// recordDenied reports whether a rule is an explicit denial, in contrast to a
// missing permission: a list of denials or the address rule.
func recordDenied(rule string) bool {
	return rule == "address" || strings.HasPrefix(rule, "network.deniedDomains")
}
