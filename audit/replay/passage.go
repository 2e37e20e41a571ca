package replay

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox/policy"
)

// A Placement is a decision of the egress proxy, with the fields of an Event of
// package egress that are needed to judge it again.
type Placement struct {
	Phase    string         `json:"phase"`    // decision, or end of what one allowed
	Protocol string         `json:"protocol"` // http, https for requests inside TLS, connect, socks5
	Method   string         `json:"method"`
	Host     string         `json:"host"` // quoted where it was no host
	Port     uint16         `json:"port"`
	Path     string         `json:"path"` // without query, cut where it was long
	Addr     netip.AddrPort `json:"addr"` // dialled or refused
	Verdict  policy.Verdict `json:"verdict"`
	Rule     string         `json:"rule"`
	Message  string         `json:"message"`
}

// ReadPlacement reads the data of a record of type egress.
func ReadPlacement(data []byte) (Placement, error) {
	var p Placement
	if err := json.Unmarshal(data, &p); err != nil {
		return p, err
	}
	switch {
	case p.Phase != "decision" && p.Phase != "end":
		return p, errors.New("it is neither a decision nor an end")
	case p.Verdict != policy.Allow && p.Verdict != policy.Ask && p.Verdict != policy.Deny:
		return p, errors.New("it has no verdict")
	}
	return p, nil
}

// Decision reports whether p is one, rather than the end of what one allowed.
func (p Placement) Decision() bool { return p.Phase == "decision" }

// Whose identifies the owner and the time of a record.
type Whose struct {
	Time                              time.Time
	Tenant, Agent, Session, CommandID string
}

// JudgePlacement judges one recorded decision of the egress proxy by today's
// policy.
func JudgePlacement(p Placement, w Whose, t Today) Result {
	r := passed(p, w)
	r.Today.Version = t.Version()
	switch why := p.stays(); {
	case why != "":
		r.same(why)
	default:
		r.compare([]Answer{t.Placement(p)})
		p.temper(&r)
	}
	return r
}

// UnknownPlacement is [Unknown] for a decision of the egress proxy.
func UnknownPlacement(p Placement, w Whose, err error) Result {
	r := passed(p, w)
	r.unknown(err)
	return r
}

func passed(p Placement, w Whose) Result {
	return Result{
		Type: TypeEgress, ID: w.CommandID, Time: w.Time, Tenant: w.Tenant, Agent: w.Agent, Session: w.Session, Kind: p.Protocol,
		What:     strings.TrimSpace(p.Method + " " + target(p.Host, int(p.Port)) + p.Path),
		Recorded: Judged{Verdict: p.Verdict, Rule: p.Rule, Message: p.Message},
	}
}

// stays returns why a refusal does not depend on the policy, or "".
func (p Placement) stays() string {
	if p.Verdict != policy.Deny {
		return ""
	}
	if p.Host == "" || p.Port == 0 {
		return "what was asked for was no host: " + ruleText(p.Rule)
	}
	for _, of := range []string{"network.", "address", "port", "protocol", "request", "target"} {
		if strings.HasPrefix(p.Rule, of) {
			return ""
		}
	}
	return "it was refused for another reason than the rules for hosts: " + ruleText(p.Rule)
}

// temper clears the parts of the result that the record does not support.
func (p Placement) temper(r *Result) {
	asked := strings.HasPrefix(p.Rule, "network.ask")
	switch {
	case r.Today.Verdict == policy.Ask && (asked || p.Verdict == policy.Ask):
		r.Differs, r.Certain, r.Why = false, false, "an approval was needed, and would be again: its answer is not the policy's"
	case r.Today.Verdict != policy.Allow || p.Verdict != policy.Deny:
	case p.Rule == "protocol":
		r.Differs, r.Certain, r.Why = false, false, "it was refused for what the connection carried, of which the record does not tell enough"
	case p.Rule == "request" && p.tunnel():
		r.Differs, r.Certain, r.Why = false, false, "it was refused for a request inside, which is not in the record"
	}
}

// tunnel reports whether p is a connection that was opened for anything.
func (p Placement) tunnel() bool { return p.Protocol == "connect" || p.Protocol == "socks5" }
