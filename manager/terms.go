package manager

import (
	"reflect"
	"slices"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

// terms are what the settings of a call say about its egress session. A handle serves
// calls with the same terms.
type terms struct {
	from *config.Settings // in force when the call came; its flags are not in there

	rules   sandbox.EgressRules
	limits  config.NetworkLimits
	secrets map[string]config.SecretSettings // with where they come from
	require bool                             // nothing passes that is not on record
}

// terms returns those of w.
func (w *want) terms() terms {
	return terms{
		from: w.settings, rules: w.egress, limits: w.res.Network.Limits,
		secrets: w.res.Network.Secrets, require: w.res.RequireEvidence,
	}
}

// same reports whether an egress session opened by t can serve a call with o.
func (t terms) same(o terms) bool {
	if !opens(t.rules) && !opens(o.rules) {
		return same(t.rules, o.rules)
	}
	return same(t.rules, o.rules) && t.limits == o.limits && t.require == o.require && reflect.DeepEqual(t.secrets, o.secrets)
}

// revoked reports whether settings that came into force after t take away
// something that t has: an egress session by t must not stay open beside the
// rules in force. What the flags of a call leave out does not count as taken
// away.
func (t terms) revoked(now terms) bool {
	if t.from == now.from || t.same(now) {
		return false
	}
	a, b := t.rules, now.rules
	switch {
	case a.AllowPublic && !b.AllowPublic, a.AllowPrivate && !b.AllowPrivate, !t.require && now.require:
		return true
	case !within(a.AllowedDomains, b.AllowedDomains), !within(b.DeniedDomains, a.DeniedDomains):
		return true
	}
	return t.limits != now.limits || !reflect.DeepEqual(t.secrets, now.secrets)
}

// hostsAlone reports whether t and now differ in rules for hosts alone, so that
// an egress session that was opened by t can be narrowed.
func (t terms) hostsAlone(now terms) bool {
	return t.limits == now.limits && t.require == now.require && reflect.DeepEqual(t.secrets, now.secrets)
}

// within reports whether all of a is in b.
func within(a, b []string) bool {
	return !slices.ContainsFunc(a, func(s string) bool { return !slices.Contains(b, s) })
}
