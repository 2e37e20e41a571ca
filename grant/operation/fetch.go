// This file carries out HTTP requests through the same egress proxy as the
// commands of a sandbox: its rules, its vetting of addresses, its limits and
// its audit record apply to them, whatever a guard allows.
//
// The proxy listens at an [Inside]. The executor sends a plain request to it as
// to any proxy; for https it opens a tunnel, in which it verifies the
// certificate of the host itself. The egress session is opened without secrets
// that are bound to hosts: to insert one, the proxy would have to terminate TLS
// with a certificate of its own, which the executor does not trust.
//
// Each request has a connection of its own, HTTP/1.1, TLS 1.2 or later. Nothing
// is kept or added beyond the request: no cookies, no Referer, no compression.
// Redirects are requests of their own, which the guard judges before they are
// sent. The executor judges the type of a response before it reads the body,
// and counts the body while reading: bytes of bodies count, those of headers do
// not and are bounded at 64 KiB.
//
// Errors, in addition to those of guard and budget:
//
//	SANDBOX.CAPABILITY_BLOCKED  the proxy's rules refuse host, port, method or address; a response is too large,
//	                            of a type that is not listed, or encoded; a redirect leads to an invalid address
//	QUOTA.BUDGET_EXCEEDED       a limit of the proxy; retryable when it is that of connections
//	PROVIDER.UNAVAILABLE        the host cannot be reached, or ended the connection early: retryable; or TLS fails,
//	                            because of the host's certificate or otherwise: not retryable
//	PROVIDER.TIMEOUT            it took too long, or the caller gave up; retryable
//	TOOL.EXECUTION_FAILED       the response is malformed
//
// For a plain request the proxy speaks to the host, and answers in the host's
// place when the host's response is malformed: that is PROVIDER.UNAVAILABLE
// too.

package operation

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"net/url"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
	"github.com/bulkhead-dev/sandbox/grant"
)

// op is the Op of this package's errors.
const fetchOp = "fetch"

// Options say how hosts are spoken to.
type Options struct {
	// Roots are the authorities of certificates; nil is those of the system.
	Roots *x509.CertPool
}

// A fetchExecutor does the operations of [grant.DomainNet]. It is safe for
// concurrent use.
type fetchExecutor struct {
	session proxy.Session
	inside  *Inside
	roots   *x509.CertPool

	drainTime time.Duration
}

var _ Executor = (*fetchExecutor)(nil)

// NewFetchExecutor returns an Executor whose requests leave by session,
// which was opened with inside and without secrets. The caller keeps ownership
// of both.
func NewFetchExecutor(session proxy.Session, inside *Inside, o Options) *fetchExecutor {
	return &fetchExecutor{session: session, inside: inside, roots: o.Roots, drainTime: drainTime}
}

// Execute implements [operation.Executor]. The Response of an Output that comes
// with an error is that of the last answer there was.
func (e *fetchExecutor) Execute(ctx context.Context, c *Call, v grant.Vetted) (Output, error) {
	if v.Kind != grant.OpNetHTTP {
		return Output{}, sandbox.Errorf(sandbox.CodeInternal, fetchOp, "%s is no request", string(v.Kind))
	}
	if err := settable(v.Header); err != nil {
		return Output{}, err
	}
	if v.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, v.Timeout, fetchLate("op.timeout", "the request took longer than it was given"))
		defer cancel()
	}
	f := &fetching{fetchExecutor: e, call: c, profile: c.Guard.Profile()}
	id := c.ID
	if id == "" {
		id = rand.Text()
	}
	p := &f.profile
	f.caller = e.session.Command(id, proxy.Command{Tenant: p.Tenant, Agent: p.Agent, Session: p.Session, Program: string(v.Kind)})
	defer f.caller.End()
	if err := f.authorize(); err != nil {
		return Output{}, err
	}
	return f.run(ctx, v)
}

// A fetching is one operation on its way.
type fetching struct {
	*fetchExecutor
	call    *Call
	profile grant.Profile
	caller  proxy.Caller
	auth    string // the field Proxy-Authorization, which is for the proxy alone
}

// authorize acquires the credentials by which the proxy's record attributes the
// requests.
func (f *fetching) authorize() error {
	u, err := url.Parse(f.caller.Env()["HTTP_PROXY"])
	if err != nil || u.User == nil { // what err says would show the credentials
		return sandbox.Errorf(sandbox.CodeInternal, fetchOp, "the way out gave no credentials")
	}
	password, _ := u.User.Password()
	f.auth = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	return nil
}

// run sends the request, and those that its answers redirect to.
func (f *fetching) run(ctx context.Context, v grant.Vetted) (Output, error) {
	for hops := 0; ; hops++ {
		x := &exchange{fetching: f, v: v, hops: hops}
		err := x.do(ctx)
		x.close()
		if err != nil || !x.redirected {
			return x.out, err
		}
		next, err := f.call.Guard.ValidateHop(x.next, hops+1, f.call.State())
		if err != nil {
			return x.out, unfollowed(err)
		}
		v = next
	}
}
