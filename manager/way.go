package manager

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/egress/outlet"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// ways are the egress sessions of the commands of one handle: one for commands
// with an approver, and one for the others. The first command that needs one
// opens it, and it ends with the handle.
type ways struct {
	mu     sync.Mutex
	open   map[bool]*way
	owned  map[*way]bool // those with one owner, such as a browser
	closed bool
	later  []sandbox.EgressRules // to which they were narrowed
}

// maxLater bounds how often ways are narrowed before they are closed.
const maxLater = 16

// A way is an egress session of the sandbox, with the commands that use it.
type way struct {
	outlet.Way
	m *Manager

	mu      sync.Mutex
	callers map[string]*caller // by id
	hosts   string             // the file that is /etc/hosts inside, or empty
	names   map[string][]netip.Addr
	unname  func() // takes names out of hosts; nil while they are not in it
}

// A caller is one command that reaches hosts.
type caller struct {
	outlet.Caller
	id      string
	request atomic.Pointer[Request] // of a shell that of its last line
	span    atomic.Pointer[sandbox.Span]
	owner   sandbox.Owner
	sandbox string
	way     *way
	unwatch func() // the rules

	mu      sync.Mutex
	once    map[string]bool // hosts that were permitted to it alone
	answers []Answer        // to what was asked about hosts, in that order
}

// reach gives the command of req its egress session from l: it sets the
// variables that lead there, and returns what has to end with the command. It
// returns nil where the rules allow nothing and there is no approver.
func (x *executor) reach(ctx context.Context, l *acquired, req *Request) (*caller, error) {
	rules := l.egress
	rules.Ask = false
	_, able := l.Sandbox.(sandbox.Listener)
	if able && x.m.out != nil {
		rules.Ask = req.Ask // without an egress proxy there is nothing to permit
	}
	req.Command.Env = withJavaTrust(l.spec.Env, req.Command.Env)
	if l.ways == nil || !opens(rules) {
		return nil, nil
	}
	if err := unset(l.want.res, req.Command.Env); err != nil {
		return nil, err
	}
	options, err := x.javaOptions(ctx, l, req.Command.Env)
	if err != nil {
		return nil, err
	}
	w, err := l.ways.get(req.Ask, func() (*way, error) { return x.openWay(ctx, l, rules) })
	if err != nil {
		return nil, err
	}
	c := &caller{id: newID(), owner: l.spec.Owner, sandbox: l.name(), way: w, once: map[string]bool{}}
	c.request.Store(req)
	c.span.Store(sandbox.SpanOf(ctx))
	c.Caller = w.Command(c.id, outlet.Command{
		Tenant: c.owner.Tenant, Agent: req.Who.Agent, Session: req.Who.Session,
		Program: req.program(), Line: cmp.Or(req.line, strings.Join(req.Command.Args, " ")), Span: c.span.Load,
	})
	w.enter(c)
	env := c.Env()
	java := env[config.JavaVariable]
	maps.Copy(env, req.Command.Env)
	env[config.JavaVariable] = appended(options, java)
	req.Command.Env = env
	c.unwatch = x.watchRules(l, req)
	return c, nil
}

// javaOptions returns the options for Java virtual machines that hold in l without
// ours: those of the call, else of the sandbox, else of its image.
func (x *executor) javaOptions(ctx context.Context, l *acquired, call map[string]string) (string, error) {
	for _, env := range []map[string]string{call, l.spec.Env} {
		if options, set := env[config.JavaVariable]; set {
			return options, nil
		}
	}
	return x.m.describer.javaOf(ctx, l.want.provider, l.spec.ImageID)
}

// appended puts the options that lead a Java virtual machine to the proxy behind
// what a call, the settings or the image set.
func appended(options, more string) string { return strings.TrimSpace(options + " " + more) }

// withJavaTrust returns the variables of a call with the options by which its
// sandbox, whose variables are inside, trusts docker.caFile among those of Java
// that the call sets: the variable takes the place of the sandbox's.
func withJavaTrust(inside, call map[string]string) map[string]string {
	options, set := call[config.JavaVariable]
	if !set {
		return call
	}
	trust := ""
	for word := range strings.FieldsSeq(inside[config.JavaVariable]) {
		if strings.HasPrefix(word, "-Djavax.net.ssl.trustStore") {
			trust = appended(trust, word)
		}
	}
	call = maps.Clone(call)
	call[config.JavaVariable] = config.WithJavaTrust(options, trust)
	return call
}

// unset refuses a call that sets a variable which holds a secret's stand-in:
// one of the two would be lost without notice to the caller.
func unset(res config.Resolved, env map[string]string) error {
	for name := range res.Network.Secrets {
		if _, set := env[name]; set {
			return &sandbox.Error{Code: sandbox.CodeValidation, Op: "run", Field: "command.env." + name,
				Message: "the call sets the variable " + name + ", to which network.secrets binds a secret", Hint: "leave one of the two out"}
		}
	}
	return nil
}

// opens reports whether the rules lead anywhere.
func opens(r sandbox.EgressRules) bool {
	return r.Ask || r.AllowPublic || len(r.AllowedDomains) > 0
}

// end takes the egress session from a command that has ended, and returns what it was
// refused. A nil caller had none.
func (c *caller) end() []sandbox.Violation {
	if c == nil {
		return nil
	}
	c.unwatch()
	c.way.exit(c)
	return c.End()
}

// waited implements departure.
func (c *caller) waited() *sandbox.Waited {
	if c == nil {
		return nil
	}
	return c.Waited()
}

// enter adds a command to those that use the way. While there is one, the names
// of hosts resolve inside: a command with other rules is not led to this way by
// a name.
func (w *way) enter(c *caller) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.callers[c.id] = c
	if w.unname != nil || len(w.names) == 0 {
		return
	}
	var err error
	if w.unname, err = statedir.AddHosts(w.hosts, w.names); err != nil {
		w.m.log.WithError(err).WithField("sandbox", c.sandbox).Warn("no name of a host resolves inside: only programs that heed HTTP_PROXY reach hosts")
	}
}

// exit takes a command away.
func (w *way) exit(c *caller) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.callers, c.id); len(w.callers) == 0 {
		w.forget()
	}
}

// forget takes the names out of the sandbox. Precondition: mu is held.
func (w *way) forget() {
	if w.unname != nil {
		w.unname()
		w.unname = nil
	}
}

// Close implements [outlet.Way].
func (w *way) Close() error {
	w.mu.Lock()
	w.forget()
	w.mu.Unlock()
	return w.Way.Close()
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
			got.Close()
		default:
			return got, nil
		}
	}
	n, err := open()
	if err == nil {
		n, err = w.narrowed(n)
	}
	if err != nil {
		return nil, err
	}
	if w.open == nil {
		w.open = map[bool]*way{}
	}
	w.open[asking] = n
	return n, nil
}

// own opens a way that the caller alone has, until it disowns it or all end.
func (w *ways) own(open func() (*way, error)) (*way, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "open the way out", Message: "the sandbox was let go of meanwhile", Retryable: true}
	}
	n, err := open()
	if err == nil {
		n, err = w.narrowed(n)
	}
	if err != nil {
		return nil, err
	}
	if w.owned == nil {
		w.owned = map[*way]bool{}
	}
	w.owned[n] = true
	return n, nil
}

// disown ends an egress session that had one owner.
func (w *ways) disown(n *way) {
	w.mu.Lock()
	delete(w.owned, n)
	w.mu.Unlock()
	n.Close()
}

// narrow has rules hold beside those of every way, and of those that are opened
// yet. It reports whether that could be done.
func (w *ways) narrow(rules sandbox.EgressRules) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || slices.ContainsFunc(w.later, func(r sandbox.EgressRules) bool { return same(r, rules) }) {
		return true
	}
	if len(w.later) == maxLater {
		return false
	}
	w.later = append(w.later, rules)
	for _, n := range w.open {
		if n.Narrow(rules) != nil {
			return false
		}
	}
	for n := range w.owned {
		if n.Narrow(rules) != nil {
			return false
		}
	}
	return true
}

// narrowed returns a way that was opened just now with what came later.
// Precondition: mu is held.
func (w *ways) narrowed(n *way) (*way, error) {
	for _, rules := range w.later {
		if err := n.Narrow(rules); err != nil {
			n.Close()
			return nil, err
		}
	}
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
	for n := range w.owned {
		n.Close()
	}
	clear(w.open)
	clear(w.owned)
}

// openWay opens an egress session of l by the rules.
func (x *executor) openWay(ctx context.Context, l *acquired, rules sandbox.EgressRules) (*way, error) {
	inside, ok := l.Sandbox.(sandbox.Listener)
	if !ok || x.m.out == nil {
		return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "open the way out", Field: "network.allowedDomains", Resource: l.name(),
			Message: "no host can be reached from sandboxes of the provider " + l.provider.Name(), Hint: "leave the hosts out, or use another provider"}
	}
	out, err := x.m.out()
	if err != nil {
		return nil, err
	}
	res := l.want.res
	secrets, err := x.secrets(l)
	if err != nil {
		return nil, err
	}
	var exposed []string
	var ca []byte
	if len(secrets) > 0 { // else the proxy reads no TLS
		if exposed, err = x.m.exposedBy(l); err != nil {
			return nil, err
		}
		if ca, err = x.m.describer.authorities(res, exposed); err != nil {
			return nil, err
		}
	}
	w := &way{m: x.m, callers: map[string]*caller{}, hosts: hostsFile(l.spec)}
	w.Way, err = out.Open(ctx, inside, outlet.Options{
		Sandbox: l.name(), Owner: l.spec.Owner, Rules: rules, Limits: res.Network.Limits, Secrets: secrets, CA: ca, Exposed: exposed, Require: res.RequireEvidence, Fixed: l.spec.Kind == sandbox.KindBrowser,
		Ask: w.ask, Permitted: w.permitted,
		Resolve: w.resolve(),
		Warn:    func(err error, text string) { x.m.log.WithError(err).WithField("sandbox", l.name()).Warn(text) },
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// resolve returns who keeps the names, or nil where /etc/hosts is not ours.
func (w *way) resolve() func(map[string][]netip.Addr) {
	if w.hosts == "" {
		return nil
	}
	return func(names map[string][]netip.Addr) { w.names = names }
}

// hostsFile returns the file that the sandbox has as /etc/hosts, or nothing.
func hostsFile(s sandbox.Spec) string {
	for _, m := range s.Mounts {
		if m.Role == sandbox.RoleIdentity && m.Target == sandbox.HostsFile {
			return m.Source
		}
	}
	return ""
}

// secrets returns those of the call. They need the folder of certificates
// inside, which sandboxes that an older program made may lack.
func (x *executor) secrets(l *acquired) ([]config.BoundSecret, error) {
	bound, err := l.want.res.BoundSecrets(x.m.host.Home, x.m.host.Env)
	if err != nil {
		return nil, err
	}
	trusts := slices.ContainsFunc(l.spec.Mounts, func(m sandbox.Mount) bool { return m.Role == sandbox.RoleTrust })
	for _, b := range bound {
		if !trusts {
			return nil, &sandbox.Error{Code: sandbox.CodeBusy, Op: "bind secrets", Field: "network.secrets." + b.Name, Resource: l.name(),
				Message: "the sandbox was made without the folder of certificates that the proxy needs for a secret", Hint: recreateCommand(x.m.commandFlags, l.spec.Owner, l.spec.Kind)}
		}
	}
	return bound, nil
}

// same reports whether two sets of rules for hosts are one for the handle's ways.
func same(a, b sandbox.EgressRules) bool {
	a.Ask, b.Ask = false, false
	return reflect.DeepEqual(a, b)
}
