package manager

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/grant/operation"
)

// needsSandbox reports whether operations of a domain are carried out in the
// sandbox. Requests and pages are not: they leave through the egress proxy, from
// here or from the browser's own container.
func needsSandbox(d grant.Domain) bool {
	return d == grant.DomainFS || d == grant.DomainProc || d == grant.DomainTmp
}

// carry has the operation carried out by the executor of its domain.
func (o *order) carry(ctx context.Context, c *operation.Call) (operation.Output, error) {
	switch o.vetted.Domain {
	case grant.DomainNet:
		return o.fetch(ctx, c)
	case grant.DomainBrowser:
		e, err := o.browse(ctx)
		if err != nil {
			return operation.Output{}, err
		}
		return e.Execute(ctx, c, o.vetted)
	}
	var out operation.Output
	err := o.steps.use(ctx, func(l *acquired) error {
		if l.want.gate.Place != Sandboxed {
			return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "operate", Field: l.want.gate.Field,
				Message: "operations under grants are carried out in sandboxes alone: " + l.want.gate.Reason, Hint: "have the settings put the session into a sandbox"}
		}
		e, err := o.inside(ctx, l, c)
		if err == nil {
			out, err = e.Execute(ctx, c, o.vetted)
		}
		return err
	})
	return out, err
}

// inside makes the executor of an operation in the sandbox.
func (o *order) inside(ctx context.Context, l *acquired, c *operation.Call) (operation.Executor, error) {
	bridge, err := o.m.filesUnderGrant(ctx, l)
	if err != nil {
		return nil, err
	}
	plain, err := bridge.WithoutLinks()
	if err != nil {
		return nil, err
	}
	spaces, err := o.spaces(plain)
	if err != nil {
		return nil, err
	}
	c.Space = spaces
	switch o.vetted.Domain {
	case grant.DomainFS:
		return operation.NewFilesExecutor(plain), nil
	case grant.DomainTmp:
		if _, err := operation.Sweep(ctx, plain, o.guard.Profile().Mappings.Tmp, o.m.now()); err != nil {
			o.m.log.WithError(err).WithField("sandbox", l.name()).Warn("temporary space of calls that have ended may be left")
		}
		return spaces, nil
	}
	return operation.NewProgramExecutor(l.Sandbox, environment(l.spec)), nil
}

// environment is that of a program under a grant: where programs, the home and
// temporary files are, and the language. Nothing else of the sandbox's own is
// handed on.
func environment(s sandbox.Spec) map[string]string {
	env := map[string]string{"PATH": programPath, "HOME": sandbox.HomeDir}
	for _, name := range []string{"PATH", "HOME", "LANG", "TMPDIR"} {
		if v, ok := s.Env[name]; ok {
			env[name] = v
		}
	}
	return env
}

// programPath is where programs are looked for when the settings name no PATH.
const programPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// meterable refuses a budget that the Manager cannot enforce: it does not learn
// what a program uses of a GPU, and a program can use the GPU of a sandbox that
// has one.
func (o *order) meterable() error {
	_, bound := o.call.payer()
	if o.payer.Source != nil {
		bound = budget.Min(bound, o.payer.Bound)
	}
	if o.vetted.Domain == grant.DomainProc && o.steps.res.Docker.GPUs != "" && bound.GPUMs != budget.Unlimited {
		return budget.Unmetered(budget.GPUMs)
	}
	return nil
}

// fetch carries a request out. It leaves by the rules and addresses, and onto
// the record, of what the sandbox's own commands reach.
func (o *order) fetch(ctx context.Context, c *operation.Call) (operation.Output, error) {
	m, res, r := o.m, o.steps.res, o.steps.ruling
	if m.out == nil || o.c.Fetch == nil {
		return operation.Output{}, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "operate", Field: "network.allowedDomains", Message: "this program reaches no hosts", Hint: "give the manager a way out"}
	}
	if err := m.approvals.consent(ctx, r, false); err != nil {
		return operation.Output{}, err
	}
	e, end, err := o.c.Fetch(func(inside sandbox.Listener) (proxy.Session, error) {
		out, err := m.out()
		if err != nil {
			return nil, err
		}
		return out.Open(ctx, inside, proxy.Options{
			Sandbox: r.sandbox, Owner: r.owner, Rules: forRules(res), Limits: res.Network.Limits, Require: res.RequireEvidence,
			Warn: func(err error, text string) { m.log.WithError(err).WithField("sandbox", r.sandbox).Warn(text) },
		})
	})
	if err != nil {
		return operation.Output{}, err
	}
	defer end()
	return e.Execute(ctx, c, o.vetted)
}

// browse returns what drives the browser for the call, in a session that ends
// with the grant.
func (o *order) browse(ctx context.Context) (operation.Executor, error) {
	if o.c.Browse == nil {
		return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "operate", Field: "browser", Message: "this program drives no browser", Hint: "give the Control a Browse"}
	}
	if err := o.m.approvals.consent(ctx, o.steps.ruling, false); err != nil {
		return nil, err
	}
	c := o.call
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil, errCallEnded(c)
	}
	if c.held.browser == nil {
		c.held.browser = o.c.Browse(o.m.calls.watch(o.c, c), o.who)
	}
	return c.held.browser, nil
}
