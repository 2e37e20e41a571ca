package operation

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// ruleField is the field in which the proxy names what decided its answer.
// Hosts can send it, too.
const ruleField = "X-Sandbox-Rule"

// refused returns the error for what the proxy refused to this operation, or
// nil when it refused nothing. resp is the response of the proxy, or nil when
// it could not give one.
//
// The proxy itself records its refusals for each client, so a host cannot
// pretend to be the proxy.
func (x *exchange) refused(resp *http.Response) error {
	list := x.caller.End()
	if len(list) == 0 {
		return nil
	}
	x.passed = false
	rule := list[len(list)-1].Rule
	if strings.HasPrefix(rule, "address: ") {
		rule = "address" // what follows is in the answer, too
	}
	e := x.byRule(rule, "the rules of the sandbox's network refuse it")
	if resp != nil {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 2<<10)) // what is missing makes a reason shorter, not another
		lines := strings.Split(string(text), "\n")
		if lines[0] != "" {
			e.Message = printable(lines[0])
		}
		for _, line := range lines {
			if hint, ok := strings.CutPrefix(line, "hint: "); ok {
				e.Hint = printable(hint)
			}
		}
	}
	return e
}

// byRule makes an error of a rule that the proxy has named.
func (x *exchange) byRule(rule, message string) *sandbox.Error {
	e := &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: fetchOp, Field: rule, Resource: x.v.Host.Target(x.v.Port), Message: message}
	switch {
	case rule == "limits.requestBytes":
	case rule == "limits", strings.HasPrefix(rule, "limits."):
		e.Code, e.Retryable = sandbox.CodeBudgetExceeded, rule == "limits.connections"
	case rule == "requireEvidence":
		e.Code, e.Retryable = sandbox.CodeUnavailable, true
	}
	return e
}

// ofProxy says what an answer to a plain request means that the proxy gave in
// the place of the host; nil for an answer of the host. A host that names a rule
// in its own answer makes an error of it, and gains nothing by that: the request
// counts as one that has reached it.
func (x *exchange) ofProxy(ctx context.Context, resp *http.Response) error {
	rule := resp.Header.Get(ruleField)
	if rule == "" || resp.StatusCode < 400 {
		return nil
	}
	if refused := x.refused(resp); refused != nil {
		return orEnded(ctx, refused)
	}
	return x.byStatus(resp.StatusCode, rule)
}

// notOpened says why the proxy has opened no tunnel.
func (x *exchange) notOpened(ctx context.Context, resp *http.Response) error {
	if refused := x.refused(resp); refused != nil {
		return orEnded(ctx, refused)
	}
	if err := x.byStatus(resp.StatusCode, resp.Header.Get(ruleField)); err != nil {
		x.passed = resp.StatusCode == http.StatusBadGateway || resp.StatusCode == http.StatusGatewayTimeout // otherwise no host was dialled
		return err
	}
	return malformed(&x.v, "the proxy answers with status "+strconv.Itoa(resp.StatusCode), nil)
}

// orEnded is err, unless the operation was ended meanwhile.
func orEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fetchEnded(ctx)
	}
	return err
}

// byStatus makes an error of what the proxy says that went wrong; nil when it
// says nothing of the kind.
func (x *exchange) byStatus(status int, rule string) error {
	reach := rule == "reach" || rule == "lookup" || rule == "tls"
	e := &sandbox.Error{Op: fetchOp, Resource: x.v.Host.Target(x.v.Port), Hint: "try again later", Retryable: true}
	switch {
	case strings.HasPrefix(rule, "limits") && (status == 413 || status == 429 || status == 503):
		return x.byRule(printable(rule), "a limit of the sandbox's network is reached")
	case rule == "request" && status < 500:
		return malformed(&x.v, "the proxy does not take the request", nil)
	case reach && status == 504:
		e.Code, e.Message = sandbox.CodeTimeout, "the host did not answer in time"
	case reach && status == 502:
		e.Code, e.Message = sandbox.CodeUnavailable, "the host cannot be reached, or ended the connection before it answered"
		if rule == "lookup" {
			e.Message = "the host has no address"
		}
	default:
		return nil
	}
	return e
}
