// This file opens the egress sessions of sandboxes: it compiles the rules of a
// sandbox, reads its secrets, opens the listener inside, and connects it to
// the proxy and the recorder.

package egress

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
	"github.com/bulkhead-dev/sandbox/egress/secret"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// serveLoopback is the address of the proxy inside.
const serveLoopback = "127.0.0.1"

// A Server serves sandboxes with one Plane. All fields but Home are required.
type Server struct {
	Plane     *Plane
	Recorder  *Recorder
	Authority func() (*Authority, error)  // called if a sandbox has secrets
	LookupEnv func(string) (string, bool) // the orchestrator's variables, for secrets
	Home      string                      // replaces ~ in the names of files with secrets
}

var _ proxy.Server = (*Server)(nil)

// Open implements [proxy.Server].
func (t *Server) Open(ctx context.Context, inside sandbox.Listener, o proxy.Options) (proxy.Session, error) {
	hosts, err := network.New(optionsOf(o.Rules))
	if err != nil {
		return nil, err
	}
	options := SessionOptions{Sandbox: o.Sandbox, Policy: hosts, Limits: limits(o.Limits), CA: o.CA, Ask: asking(o.Ask), Permitted: permitted(o.Permitted)}
	w := &servedSession{record: t.Recorder, o: o}
	if len(o.Secrets) > 0 {
		if options.Authority, err = t.Authority(); err != nil {
			return nil, err
		}
		if _, err = options.Authority.Bundle(); err != nil {
			return nil, err
		}
		if w.secrets, err = t.read(ctx, o); err != nil {
			return nil, err
		}
		options.Secrets = w.secrets
	}
	w.leave = t.Recorder.Sandbox(o.Sandbox, recordWho{
		Tenant: o.Owner.Tenant, Agent: o.Owner.Agent, Session: o.Owner.Session, Require: o.Require,
	})
	listener, err := listen(ctx, inside, o)
	if err == nil {
		var names map[string][]netip.Addr
		options.HostListeners, names, options.Direct = hostListeners(ctx, inside, o)
		w.Session, err = t.Plane.Open(listener, options)
		if err == nil && len(names) > 0 && o.Resolve != nil {
			o.Resolve(names)
		}
	}
	if err != nil {
		w.letGo()
		return nil, err
	}
	return w, nil
}

// listen opens the listener inside, at the port of the settings if it is free.
// Commands get the port in variables, so programs that respect these work with
// another one.
func listen(ctx context.Context, inside sandbox.Listener, o proxy.Options) (net.Listener, error) {
	port := o.Rules.HTTPProxyPort
	at := func(port int) string { return net.JoinHostPort(serveLoopback, strconv.Itoa(port)) }
	l, err := inside.Listen(ctx, "tcp", at(port))
	code := sandbox.CodeOf(err)
	if err == nil || port == 0 || o.Fixed || code != sandbox.CodeBusy && code != sandbox.CodeExecution {
		return l, err
	}
	if o.Warn != nil {
		o.Warn(err, "the port of network.httpProxyPort cannot be had inside: the proxy has another one, which only programs that heed HTTP_PROXY find")
	}
	return inside.Listen(ctx, "tcp", at(0))
}

// read reads the values of secrets.
func (t *Server) read(ctx context.Context, o proxy.Options) (*secret.Set, error) {
	bindings := make([]secret.Binding, len(o.Secrets))
	for i, b := range o.Secrets {
		bindings[i] = secret.Binding{Name: b.Name, Hosts: b.Hosts, From: secret.Source{Env: b.From.Env, File: b.From.File, Command: b.From.Command}}
	}
	return secret.NewSet(ctx, bindings, secret.Deps{Home: t.Home, Exposed: o.Exposed, LookupEnv: t.LookupEnv})
}

func limits(l config.NetworkLimits) Limits {
	return Limits{
		Connections: int(l.Connections), BytesIn: int64(l.BytesIn), BytesOut: int64(l.BytesOut),
		RequestBytes: int64(l.RequestBytes), Idle: time.Duration(l.Idle), Total: time.Duration(l.Total),
	}
}
