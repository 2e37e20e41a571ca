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
	"github.com/bulkhead-dev/sandbox/egress/proxy"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// egressSessions are the egress sessions of the commands of one handle: one for commands
// with an approver, and one for the others. The first command that needs one
// opens it, and it ends with the handle.
type egressSessions struct {
	mu     sync.Mutex
	open   map[bool]*egressSession
	owned  map[*egressSession]bool // those with one owner, such as a browser
	closed bool
	later  []sandbox.EgressRules // to which they were narrowed
}

// maxLater bounds how often egress sessions are narrowed before they are closed.
const maxLater = 16

// An egressSession is an egress session of the sandbox, with the commands that use it.
type egressSession struct {
	proxy.Session
	m *Manager

	mu      sync.Mutex
	callers map[string]*caller // by id
	hosts   string             // the file that is /etc/hosts inside, or empty
	names   map[string][]netip.Addr
	unname  func() // takes names out of hosts; nil while they are not in it
}

// A caller is one command that reaches hosts.
type caller struct {
	proxy.Caller
	id      string
	request atomic.Pointer[Request] // of a shell that of its last line
	span    atomic.Pointer[sandbox.Span]
	owner   sandbox.Owner
	sandbox string
	session *egressSession
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
	if l.egressSessions == nil || !opens(rules) || req.service {
		return nil, nil
	}
	if err := unset(l.want.res, req.Command.Env); err != nil {
		return nil, err
	}
	options, err := x.javaOptions(ctx, l, req.Command.Env)
	if err != nil {
		return nil, err
	}
	w, err := l.egressSessions.get(req.Ask, func() (*egressSession, error) { return x.openEgress(ctx, l, rules) })
	if err != nil {
		return nil, err
	}
	c := &caller{id: newID(), owner: l.spec.Owner, sandbox: l.name(), session: w, once: map[string]bool{}}
	c.request.Store(req)
	c.span.Store(sandbox.SpanOf(ctx))
	c.Caller = w.Command(c.id, proxy.Command{
		Tenant: c.owner.Tenant, Agent: req.Who.Agent, Session: req.Who.Session,
		Program: req.program(), Line: cmp.Or(req.line, strings.Join(req.Command.Args, " ")), Span: c.span.Load,
	})
	w.enter(c)
	env := c.Env()
	java := env[config.JavaVariable]
	maps.Copy(env, req.Command.Env)
	env[config.JavaVariable] = appended(options, java)
	for _, s := range req.Services { // whose names lead to the loopback interface
		env["NO_PROXY"] += "," + s.Name
		env["no_proxy"] += "," + s.Name
	}
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
	c.session.exit(c)
	return c.End()
}

// waited implements departure.
func (c *caller) waited() *sandbox.Waited {
	if c == nil {
		return nil
	}
	return c.Waited()
}

// enter adds a command to those that use the session. While there is one, the names
// of hosts resolve inside: a command with other rules is not led to this session
// by a name.
func (s *egressSession) enter(c *caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callers[c.id] = c
	if s.unname != nil || len(s.names) == 0 {
		return
	}
	var err error
	if s.unname, err = statedir.AddHosts(s.hosts, s.names); err != nil {
		s.m.log.WithError(err).WithField("sandbox", c.sandbox).Warn("no name of a host resolves inside: only programs that heed HTTP_PROXY reach hosts")
	}
}

// exit takes a command away.
func (s *egressSession) exit(c *caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.callers, c.id); len(s.callers) == 0 {
		s.forget()
	}
}

// forget takes the names out of the sandbox. Precondition: mu is held.
func (s *egressSession) forget() {
	if s.unname != nil {
		s.unname()
		s.unname = nil
	}
}

// Close implements [proxy.Session].
func (s *egressSession) Close() error {
	s.mu.Lock()
	s.forget()
	s.mu.Unlock()
	err := s.Session.Close()
	s.m.traffic.leave(s)
	return err
}

// get returns the open session, which it opens when there is none or it has ended.
func (s *egressSessions) get(asking bool, open func() (*egressSession, error)) (*egressSession, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "open the way out", Message: "the sandbox was let go of meanwhile", Retryable: true}
	}
	if got := s.open[asking]; got != nil {
		select {
		case <-got.Done():
			got.Close()
		default:
			return got, nil
		}
	}
	n, err := open()
	if err == nil {
		n, err = s.narrowed(n)
	}
	if err != nil {
		return nil, err
	}
	if s.open == nil {
		s.open = map[bool]*egressSession{}
	}
	s.open[asking] = n
	return n, nil
}

// own opens a session that the caller alone has, until it disowns it or all end.
func (s *egressSessions) own(open func() (*egressSession, error)) (*egressSession, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "open the way out", Message: "the sandbox was let go of meanwhile", Retryable: true}
	}
	n, err := open()
	if err == nil {
		n, err = s.narrowed(n)
	}
	if err != nil {
		return nil, err
	}
	if s.owned == nil {
		s.owned = map[*egressSession]bool{}
	}
	s.owned[n] = true
	return n, nil
}

// disown ends an egress session that had one owner.
func (s *egressSessions) disown(n *egressSession) {
	s.mu.Lock()
	delete(s.owned, n)
	s.mu.Unlock()
	n.Close()
}

// narrow has rules hold beside those of every session, and of those that are opened
// yet. It reports whether that could be done.
func (s *egressSessions) narrow(rules sandbox.EgressRules) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || slices.ContainsFunc(s.later, func(r sandbox.EgressRules) bool { return same(r, rules) }) {
		return true
	}
	if len(s.later) == maxLater {
		return false
	}
	s.later = append(s.later, rules)
	for _, n := range s.open {
		if n.Narrow(rules) != nil {
			return false
		}
	}
	for n := range s.owned {
		if n.Narrow(rules) != nil {
			return false
		}
	}
	return true
}

// narrowed returns a session that was opened just now with what came later.
// Precondition: mu is held.
func (s *egressSessions) narrowed(n *egressSession) (*egressSession, error) {
	for _, rules := range s.later {
		if err := n.Narrow(rules); err != nil {
			n.Close()
			return nil, err
		}
	}
	return n, nil
}

// close ends every session. Nothing gets out after it has returned.
func (s *egressSessions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, n := range s.open {
		n.Close()
	}
	for n := range s.owned {
		n.Close()
	}
	clear(s.open)
	clear(s.owned)
}

// openEgress opens an egress session of l by the rules.
func (x *executor) openEgress(ctx context.Context, l *acquired, rules sandbox.EgressRules) (*egressSession, error) {
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
	w := &egressSession{m: x.m, callers: map[string]*caller{}, hosts: hostsFile(l.spec)}
	w.Session, err = out.Open(ctx, inside, proxy.Options{
		Sandbox: l.name(), Owner: l.spec.Owner, Rules: rules, Limits: res.Network.Limits, Secrets: secrets, CA: ca, Exposed: exposed, Require: res.RequireEvidence, Fixed: l.spec.Kind == sandbox.KindBrowser,
		Ask: w.ask, Permitted: w.permitted,
		Resolve: w.resolve(),
		Warn:    func(err error, text string) { x.m.log.WithError(err).WithField("sandbox", l.name()).Warn(text) },
	})
	if err != nil {
		return nil, err
	}
	x.m.traffic.enter(w, trafficKey(l.provider.Name(), l.name()))
	return w, nil
}

// resolve returns who keeps the names, or nil where /etc/hosts is not ours.
func (s *egressSession) resolve() func(map[string][]netip.Addr) {
	if s.hosts == "" {
		return nil
	}
	return func(names map[string][]netip.Addr) { s.names = names }
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

// same reports whether two sets of rules for hosts are one for the handle's egress sessions.
func same(a, b sandbox.EgressRules) bool {
	a.Ask, b.Ask = false, false
	return reflect.DeepEqual(a, b)
}
