package manager

import (
	"context"
	"maps"
	"net"
	"reflect"
	"strconv"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// Loopback is the address inside at which the proxy is found.
const loopback = "127.0.0.1"

// ways are the ways out that the commands of one handle have: one for those
// of whom somebody can be asked, and one for the others. They are opened when
// the first command needs them, and end with the handle.
type ways struct {
	mu     sync.Mutex
	open   map[bool]*way
	closed bool
}

// A way is a proxy for the sandbox, with the commands that use it.
type way struct {
	*egress.Way
	m *Manager

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
	return c.credits.End()
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
		n.Close()
	}
	clear(w.open)
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
	plane, err := m.out()
	if err != nil {
		return nil, err
	}
	listener, err := m.listenInside(ctx, l, inside, rules.HTTPProxyPort)
	if err != nil {
		return nil, err
	}
	w := &way{m: m, callers: map[string]*caller{}}
	if w.Way, err = plane.Open(listener, egress.WayOptions{Sandbox: l.name(), Policy: hosts, Ask: w.ask}); err != nil {
		listener.Close()
		return nil, err
	}
	return w, nil
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
