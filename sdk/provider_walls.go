// Walls: this part of the package makes the providers behind a daemon available as
// sandbox.Provider. It is the other side of package daemon/walls, which says
// who may use it and for which sandboxes.
//
// Specs name folders and users of the daemon's machine. What comes in at a
// listener inside a sandbox comes out here: so a proxy of this process is the
// way out of sandboxes behind the daemon, and reaches what this machine does.

package sdk

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"net/url"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

// ProviderOptions are what a provider may be told; the zero value is usable.
type ProviderOptions struct {
	Query  time.Duration // bounds inspect, list and what is asked of files; zero is a minute
	Change time.Duration // bounds create, open and remove; zero is 15 minutes
	Stream stream.Options
}

// settleWithin bounds the wait for the daemon to undo what was called off.
const settleWithin = time.Minute

// A Provider is one behind a daemon. It is safe for concurrent use.
type Provider struct {
	c        *API
	o        ProviderOptions
	name     string
	features sandbox.Features
}

var (
	_ sandbox.Provider = (*Provider)(nil)
	_ sandbox.Pauser   = (*Provider)(nil)
)

// Open asks the daemon of c for its provider name and what that can do; empty
// is the only one there is. Closing c is the caller's.
func OpenProvider(ctx context.Context, c *API, name string, o ProviderOptions) (*Provider, error) {
	if o.Query <= 0 {
		o.Query = time.Minute
	}
	if o.Change <= 0 {
		o.Change = 15 * time.Minute
	}
	p := &Provider{c: c, o: o}
	var all stream.Providers
	if err := p.call(ctx, o.Query, Request{Op: "list providers", Method: http.MethodGet, Path: stream.Prefix + "/providers"}, &all); err != nil {
		return nil, err
	}
	for _, one := range all.Items {
		if one.Name == name || name == "" && len(all.Items) == 1 {
			p.name, p.features = one.Name, sandbox.Features(one.Features)
			return p, nil
		}
	}
	return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: "choose provider", Field: "provider", Resource: name, Message: "the daemon has no such provider"}
}

// Name implements sandbox.Provider.
func (p *Provider) Name() string { return p.name }

// Features implements sandbox.Provider.
func (p *Provider) Features() sandbox.Features { return p.features }

func (p *Provider) path(rest string) string {
	return stream.Prefix + "/providers/" + url.PathEscape(p.name) + rest
}

// call makes a request within d. That something is not there counts only when
// a provider has said so.
func (p *Provider) call(ctx context.Context, d time.Duration, q Request, out any) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	q.Mark = stream.HeaderWalls
	return p.c.Call(ctx, q, out)
}

// Probe reports whether the wall could be built now.
func (p *Provider) Probe(ctx context.Context) error {
	return p.call(ctx, p.o.Query, Request{Op: "probe", Method: http.MethodPost, Path: p.path("/probe")}, nil)
}

// Inspect implements sandbox.Provider.
func (p *Provider) Inspect(ctx context.Context, name string) (sandbox.Info, error) {
	var b stream.Box
	err := p.call(ctx, p.o.Query, named("inspect", http.MethodGet, p.path("/sandbox"), name), &b)
	return sandbox.Info(b), err
}

func named(op, method, path, name string) Request {
	return Request{Op: op, Method: method, Path: path, Query: url.Values{"name": {name}}}
}

// List implements sandbox.Provider.
func (p *Provider) List(ctx context.Context, f sandbox.Filter) ([]sandbox.Info, error) {
	q := url.Values{}
	for name, value := range map[string]string{"instance": f.Instance, "tenant": f.Tenant, "kind": string(f.Kind), "name": f.Name} {
		if value != "" {
			q.Set(name, value)
		}
	}
	var all stream.Boxes
	err := p.call(ctx, p.o.Query, Request{Op: "list", Method: http.MethodGet, Path: p.path("/sandboxes"), Query: q}, &all)
	if err != nil {
		return nil, err
	}
	out := make([]sandbox.Info, len(all.Items))
	for i, b := range all.Items {
		out[i] = sandbox.Info(b)
	}
	return out, nil
}

// Remove implements sandbox.Provider.
func (p *Provider) Remove(ctx context.Context, name string) error {
	return p.call(ctx, p.o.Change, named("remove", http.MethodDelete, p.path("/sandbox"), name), nil)
}

// Pause implements sandbox.Pauser.
func (p *Provider) Pause(ctx context.Context, name string) error {
	return p.call(ctx, p.o.Query, named("pause", http.MethodPost, p.path("/sandbox/pause"), name), nil)
}

// Unpause implements sandbox.Pauser.
func (p *Provider) Unpause(ctx context.Context, name string) error {
	return p.call(ctx, p.o.Query, named("unpause", http.MethodPost, p.path("/sandbox/unpause"), name), nil)
}

// Create implements sandbox.Provider. When ctx ends the call is called off and
// its answer waited for, so that nothing is left behind when Create returns.
func (p *Provider) Create(ctx context.Context, s sandbox.Spec) (sandbox.Info, error) {
	if err := ctx.Err(); err != nil {
		return sandbox.Info{}, providerEnded("create", err)
	}
	id := random()
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.o.Change)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		off, done := context.WithTimeout(whole, settleWithin)
		defer done()
		// When it cannot be called off the daemon has gone, or hears that we have.
		if p.call(off, settleWithin, Request{Op: "call off", Method: http.MethodDelete, Path: stream.Prefix + "/calls/" + id}, nil) != nil {
			cancel()
			return
		}
		time.AfterFunc(settleWithin, cancel)
	})
	defer stop()
	var b stream.Box
	err := p.c.Call(whole, Request{
		Op: "create", Method: http.MethodPost, Path: p.path("/sandboxes"), JSON: stream.SpecOf(s), Header: http.Header{stream.HeaderCall: {id}},
	}, &b)
	if err != nil && ctx.Err() != nil && sandbox.CodeOf(err) == sandbox.CodeUnavailable {
		err = providerEnded("create", ctx.Err())
	}
	return sandbox.Info(b), err
}

func providerEnded(op string, cause error) error {
	return &sandbox.Error{Code: sandbox.CodeTimeout, Op: op, Message: "the call ended before there was an answer", Retryable: true, Err: cause}
}

func closedError(op string) error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Message: "the handle is closed"}
}

func random() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // does not fail
	return hex.EncodeToString(b[:])
}
