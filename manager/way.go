package manager

import (
	"cmp"
	"context"
	"maps"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/egress/authority"
	"github.com/bulkhead-dev/sandbox/egress/meter"
	"github.com/bulkhead-dev/sandbox/egress/record"
	"github.com/bulkhead-dev/sandbox/egress/secret"
	"github.com/bulkhead-dev/sandbox/lifecycle"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// loopback is the address inside at which the proxy is found.
const loopback = "127.0.0.1"

// ways are the ways out that the commands of one handle have: one for those
// of whom somebody can be asked, and one for the others. They are opened when
// the first command needs them, and end with the handle.
type ways struct {
	mu     sync.Mutex
	open   map[bool]*way
	closed bool
}

// An Outlet is what sandboxes reach hosts through, and what records that.
type Outlet struct {
	Plane     *egress.Plane
	Recorder  *record.Recorder
	Authority func() (*authority.Authority, error) // asked for when a sandbox has secrets
}

// A way is a proxy for the sandbox, with the commands that use it.
type way struct {
	*egress.Way
	m       *Manager
	record  *record.Recorder
	secrets *secret.Set
	leave   func() // ends what the recorder knows of the sandbox

	mu      sync.Mutex
	callers map[string]*caller // by id
}

// A caller is one command that reaches hosts.
type caller struct {
	id      string
	request *Request
	owner   sandbox.Owner
	sandbox string
	credits *egress.Caller
	way     *way
	leave   func() // ends what the recorder knows of the command

	mu   sync.Mutex
	once map[string]bool // hosts that were permitted to it alone
}

// reach gives the command of req its way out of l: it sets the variables that
// lead there, and returns what is to be ended with the command. It is nil
// where the rules allow nothing and nobody can be asked.
func (m *Manager) reach(ctx context.Context, l *live, req *Request) (*caller, error) {
	rules := l.egress
	rules.Ask = req.Ask
	if l.ways == nil || !opens(rules) {
		return nil, nil
	}
	w, err := l.ways.get(req.Ask, func() (*way, error) { return m.openWay(ctx, l, rules) })
	if err != nil {
		return nil, err
	}
	c := &caller{id: newID(), request: req, owner: l.spec.Owner, sandbox: l.name(), way: w, once: map[string]bool{}}
	c.leave = w.record.Command(c.sandbox, c.id, m.recordedAs(l, *req))
	c.credits = w.Caller(c.id)
	w.mu.Lock()
	w.callers[c.id] = c
	w.mu.Unlock()
	env := c.credits.Env()
	maps.Copy(env, req.Command.Env)
	req.Command.Env = env
	return c, nil
}

// opens reports whether the rules lead anywhere.
func opens(r sandbox.EgressRules) bool {
	return r.Ask || r.AllowPublic || len(r.AllowedDomains) > 0
}

// end takes the way out from a command that has ended, and returns what it was
// refused. A nil caller had none.
func (c *caller) end() []egress.Event {
	if c == nil {
		return nil
	}
	c.way.mu.Lock()
	delete(c.way.callers, c.id)
	c.way.mu.Unlock()
	refused := c.credits.End()
	c.leave()
	return refused
}

// recordedAs says whose the connections of a request are.
func (m *Manager) recordedAs(l *live, req Request) record.Who {
	return record.Who{
		Tenant: l.spec.Owner.Tenant, Agent: req.Who.Agent, Session: req.Who.Session,
		Program: req.program(), Line: cmp.Or(req.line, strings.Join(req.Command.Args, " ")), Require: l.want.res.RequireEvidence,
	}
}

// get returns the open way, which it opens when there is none or it has ended.
func (w *ways) get(asking bool, open func() (*way, error)) (*way, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "open the way out", Message: "the sandbox was let go of meanwhile", Retryable: true}
	}
	if got := w.open[asking]; got != nil {
		select {
		case <-got.Done():
			got.close()
		default:
			return got, nil
		}
	}
	n, err := open()
	if err != nil {
		return nil, err
	}
	if w.open == nil {
		w.open = map[bool]*way{}
	}
	w.open[asking] = n
	return n, nil
}

// close ends every way. Nothing gets out after it has returned.
func (w *ways) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, n := range w.open {
		n.close()
	}
	clear(w.open)
}

// close ends the way and everything that passes through it.
func (w *way) close() {
	w.Way.Close()
	w.leave()
	if w.secrets != nil {
		w.secrets.Close()
	}
}

// openWay puts a proxy with the rules behind a listener inside.
func (m *Manager) openWay(ctx context.Context, l *live, rules sandbox.EgressRules) (*way, error) {
	hosts, err := network.New(network.Options{
		Allowed: rules.AllowedDomains, Denied: rules.DeniedDomains, AllowPublic: rules.AllowPublic, AllowPrivate: rules.AllowPrivate,
		Ask: rules.Ask, AllowLocalBinding: rules.AllowLocalBinding,
	})
	if err != nil {
		return nil, err
	}
	inside, ok := l.Sandbox.(sandbox.Listener)
	if !ok || m.out == nil {
		return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "open the way out", Field: "network.allowedDomains", Resource: l.name(),
			Message: "no host can be reached from sandboxes of the provider " + l.provider.Name(), Hint: "leave the hosts out, or use another provider"}
	}
	out, err := m.out()
	if err != nil {
		return nil, err
	}
	o := egress.WayOptions{Sandbox: l.name(), Policy: hosts, Limits: limitsOf(l.want.res.Network.Limits)}
	if o.Secrets, err = m.secrets(ctx, l); err == nil && o.Secrets != nil {
		o.Authority, err = out.Authority()
	}
	if err != nil {
		return nil, err
	}
	w := &way{m: m, record: out.Recorder, secrets: o.Secrets, callers: map[string]*caller{}}
	w.leave = out.Recorder.Sandbox(l.name(), record.Who{
		Tenant: l.spec.Owner.Tenant, Agent: l.spec.Owner.Agent, Session: l.spec.Owner.Session, Require: l.want.res.RequireEvidence,
	})
	o.Ask = w.ask
	if w.Way, err = m.openPlane(ctx, l, out.Plane, inside, rules.HTTPProxyPort, o); err != nil {
		w.leave()
		if o.Secrets != nil {
			o.Secrets.Close()
		}
		return nil, err
	}
	return w, nil
}

func (m *Manager) openPlane(ctx context.Context, l *live, plane *egress.Plane, inside sandbox.Listener, port int, o egress.WayOptions) (*egress.Way, error) {
	listener, err := m.listenInside(ctx, l, inside, port)
	if err != nil {
		return nil, err
	}
	return plane.Open(listener, o)
}

func limitsOf(l config.NetworkLimits) meter.Limits {
	return meter.Limits{
		Connections: int(l.Connections), BytesIn: int64(l.BytesIn), BytesOut: int64(l.BytesOut),
		RequestBytes: int64(l.RequestBytes), Idle: time.Duration(l.Idle), Total: time.Duration(l.Total),
	}
}

// secrets reads those of the call that the sandbox was made for: it trusts our
// authority only when it was made with some, and only hosts that its Spec names
// are read. It is nil when there are none.
func (m *Manager) secrets(ctx context.Context, l *live) (*secret.Set, error) {
	bound, err := l.want.res.BoundSecrets(m.host.Home, m.host.Env)
	if err != nil {
		return nil, err
	}
	var bindings []secret.Binding
	for _, b := range bound {
		made := slices.ContainsFunc(l.spec.Egress.Secrets, func(r sandbox.SecretRef) bool { return r.Name == b.Name && slices.Equal(r.Hosts, b.Hosts) })
		if !made {
			return nil, &sandbox.Error{Code: sandbox.CodeBusy, Op: "bind secrets", Field: "network.secrets." + b.Name, Resource: l.name(),
				Message: "the sandbox was made before the secret was bound, so it does not trust what the proxy needs for it", Hint: lifecycle.RecreateCommand(l.spec.Owner)}
		}
		bindings = append(bindings, secret.Binding{Name: b.Name, Hosts: b.Hosts, From: secret.Source{Env: b.From.Env, File: b.From.File, Command: b.From.Command}})
	}
	if len(bindings) == 0 {
		return nil, nil
	}
	exposed, err := m.exposedBy(l)
	if err != nil {
		return nil, err
	}
	return secret.NewSet(ctx, bindings, secret.Deps{Home: m.host.Home, Exposed: exposed, LookupEnv: func(name string) (string, bool) { v, ok := m.host.Env[name]; return v, ok }})
}

// listenInside opens the listener inside, at the port of the settings where
// that is free. Variables tell commands the port, so another one serves those
// that heed them.
func (m *Manager) listenInside(ctx context.Context, l *live, inside sandbox.Listener, port int) (net.Listener, error) {
	at := func(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
	listener, err := inside.Listen(ctx, "tcp", at(port))
	if err == nil || port == 0 || sandbox.CodeOf(err) != sandbox.CodeExecution {
		return listener, err
	}
	m.log.WithError(err).WithField("sandbox", l.name()).Warnf("port %d of network.httpProxyPort is taken inside: the proxy has another one, which only programs that heed HTTP_PROXY find", port)
	return inside.Listen(ctx, "tcp", at(0))
}

// same reports whether two sets of rules for hosts are one for the handle's ways.
func same(a, b sandbox.EgressRules) bool {
	a.Ask, b.Ask = false, false
	return reflect.DeepEqual(a, b)
}
