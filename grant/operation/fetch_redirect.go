package operation

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
)

// follow returns the request that a response redirects to; ok is false for a
// response that is not a redirect. The guard judges the target.
//
// As RFC 9110 permits, 301, 302 and 303 turn every method except HEAD into GET;
// 307 and 308 keep the method and the body.
func follow(v *grant.Vetted, status int, location []string) (next grant.Operation, ok bool, err error) {
	keeps := status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect
	if !keeps && (status < 301 || status > 303) || len(location) == 0 || location[0] == "" {
		return grant.Operation{}, false, nil
	}
	if len(location) > 1 {
		return grant.Operation{}, false, malformed(v, "the answer redirects to several addresses", nil)
	}
	from, err := url.Parse(v.URL)
	if err != nil {
		return grant.Operation{}, false, sandbox.Errorf(sandbox.CodeInternal, fetchOp, "the address that was judged cannot be read")
	}
	to, err := from.Parse(location[0])
	if err != nil { // what err says is the host's
		return grant.Operation{}, false, unfollowed(sandbox.Errorf(sandbox.CodeValidation, fetchOp, "it cannot be read"))
	}
	to.Fragment, to.RawFragment = "", "" // it is for programs that display a page
	next = v.Operation
	next.URL, next.Header = to.String(), maps.Clone(v.Header)
	if !keeps && next.Method != http.MethodHead {
		next.Method = http.MethodGet
	}
	if !keeps {
		next.Data = nil
		drop(next.Header, func(name string) bool { return strings.HasPrefix(name, "content-") })
	}
	if to.Scheme != from.Scheme || !strings.EqualFold(to.Host, from.Host) {
		drop(next.Header, func(name string) bool { return !slices.Contains(harmless(), name) })
	}
	return next, true, nil
}

// harmless are the header fields that may be sent to a host other than the one
// they were meant for. Any other field may identify the caller.
func harmless() []string { return []string{"accept", "accept-language", "content-type", "user-agent"} }

// drop removes the fields whose names, in lower case, are such.
func drop(header map[string]string, such func(string) bool) {
	maps.DeleteFunc(header, func(name, _ string) bool { return such(strings.ToLower(name)) })
}

// unfollowed returns the reason why a redirect is not followed. A malformed
// redirect is the host's fault and not the caller's.
func unfollowed(err error) error {
	e, ok := err.(*sandbox.Error)
	if !ok || e.Code != sandbox.CodeValidation {
		return err
	}
	return blocked("redirect", "", "the answer redirects to what is no address of http or https: "+e.Message, "ask for the address that is meant")
}

// settable reports fields that a request cannot be sent with: two of one name,
// which would be sent in some order, and an encoding, which would hide type and
// size of the answer.
func settable(header map[string]string) error {
	seen := map[string]bool{}
	for name := range header {
		name = http.CanonicalHeaderKey(name)
		if seen[name] {
			return &sandbox.Error{Code: sandbox.CodeValidation, Op: fetchOp, Field: "op.header", Message: "two headers have the same name but for upper and lower case", Hint: "leave one out"}
		}
		seen[name] = true
	}
	if seen["Accept-Encoding"] {
		return blocked("op.header", "Accept-Encoding", "the header Accept-Encoding is not a caller's to set: answers are asked for as they are", "leave it out")
	}
	return nil
}
