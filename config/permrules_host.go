package config

import (
	"errors"
	"strconv"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// host takes a rule for hosts: WebFetch, or WebFetch(domain:HOST).
func (im *permrulesImporter) host(content string, has bool) {
	domain, ok := strings.CutPrefix(content, "domain:")
	if has && !ok {
		im.cannot("names no domain", "write WebFetch(domain:example.com)")
		return
	}
	if !has {
		domain = "*"
	}
	rule, err := network.ParseRule(domain)
	var e *sandbox.Error
	switch {
	case strings.Contains(domain, "://"):
		im.fail(im.from, strconv.Quote(domain)+" is a URL", "write the host alone")
	case errors.As(err, &e):
		im.fail(im.from, e.Message, e.Hint)
	case im.kind == allowing && rule.All():
		im.cannot("allows every host", "set network.allowPublic where that is meant")
	case im.kind == allowing:
		im.add(&im.out.AllowedDomains, domain)
	case im.kind == denying:
		im.add(&im.out.DeniedDomains, domain)
	case im.allowed(im.out.AllowedDomains, domain, relatedHosts):
		im.cannot("asks about hosts some of which another rule allows", "take it out of that rule")
	default:
		im.notice(whyAsk)
	}
}

// whyAsk says what becomes of an ask that no allow meets.
const whyAsk = "nothing is set for it: what no rule allows is refused, or asked about where the call can ask"

// allowed reports whether a value of an allow has to do with text.
func (im *permrulesImporter) allowed(list []permrulesValue, text string, related func(a, b string) bool) bool {
	for _, v := range list {
		if related(v.Text, text) {
			return true
		}
	}
	return false
}

// relatedHosts reports whether some host may be meant by both rules. Ports do
// not count, and names that lie below each other count as one.
func relatedHosts(a, b string) bool {
	a, b = hostPart(a), hostPart(b)
	return a == "*" || b == "*" || a == b || strings.HasSuffix(a, "."+b) || strings.HasSuffix(b, "."+a) || strings.ContainsAny(a+b, "/[")
}

// hostPart is the name in a rule, without ports and wildcard.
func hostPart(rule string) string {
	if strings.Count(rule, ":") == 1 {
		rule, _, _ = strings.Cut(rule, ":")
	}
	return strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(rule, "*."), "."))
}
