// Package policy defines the types that express decisions about commands,
// paths, hosts and tools. The packages below it decide; none of them depends
// on a sandbox, reads a file or uses the network.
package policy

import (
	"fmt"

	"github.com/bulkhead-dev/sandbox"
)

// A Verdict is the outcome of a decision.
type Verdict string

// The verdicts, from mild to strict.
const (
	Allow Verdict = "allow"
	Ask   Verdict = "ask" // a person has to approve first
	Deny  Verdict = "deny"
)

// Strictest returns the strictest of vs; Allow when there is none. A verdict
// that is none of the three counts as Deny.
func Strictest(vs ...Verdict) Verdict {
	out := Allow
	for _, v := range vs {
		switch v {
		case Allow:
		case Ask:
			if out == Allow {
				out = Ask
			}
		default:
			return Deny
		}
	}
	return out
}

// A Severity says how much harm something can do.
type Severity int

// The severities, from mild to grave.
const (
	Low      Severity = iota + 1 // worth telling
	Medium                       // may be a problem
	High                         // a danger
	Critical                     // must be stopped
)

// severities are the names, by value.
func severities() []string { return []string{"", "low", "medium", "high", "critical"} }

// String returns the name: low, medium, high, critical.
func (s Severity) String() string {
	if s < Low || s > Critical {
		return fmt.Sprintf("severity(%d)", int(s))
	}
	return severities()[s]
}

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) {
	if s < Low || s > Critical {
		return nil, fmt.Errorf("no severity: %d", int(s))
	}
	return []byte(s.String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Severity) UnmarshalText(text []byte) error {
	for i, name := range severities() {
		if i > 0 && name == string(text) {
			*s = Severity(i)
			return nil
		}
	}
	return fmt.Errorf("%q is none of low, medium, high, critical", text)
}

// A Span is a range of bytes of the text that was judged, as it was given.
type Span struct {
	Start int `json:"start"`
	End   int `json:"end"` // exclusive
}

// Of returns the part of text that s names, or as much of it as there is.
func (s Span) Of(text string) string {
	start := min(max(s.Start, 0), len(text))
	return text[start:min(max(s.End, start), len(text))]
}

// A Reason is one thing that was found and what it asks for.
type Reason struct {
	Check    string   `json:"check"`          // what found it: "removal", "rule", "syntax"
	Verdict  Verdict  `json:"verdict"`        // what it alone asks for
	Severity Severity `json:"severity"`       // how bad it is
	Message  string   `json:"message"`        // what is wrong with which part, one sentence without trailing period
	Hint     string   `json:"hint,omitempty"` // what to do instead
	Rule     string   `json:"rule,omitempty"` // the setting or the entry of a table that decided
	Span     Span     `json:"span"`           // which part; empty when it is the whole

	// Code is that of the refusal, where it is another than [sandbox.CodeDenyTool].
	Code sandbox.Code `json:"code,omitempty"`
}
