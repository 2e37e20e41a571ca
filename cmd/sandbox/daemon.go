//go:build !sandbox_front && !sandbox_engine

package main

import (
	"context"
	"net/http"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant/ledger"
	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/orchestrator"
	servers "github.com/bulkhead-dev/sandbox/server"
	"github.com/bulkhead-dev/sandbox/server/admission"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/auth"
	agentsapi "github.com/bulkhead-dev/sandbox/server/compat/agents"
	"github.com/bulkhead-dev/sandbox/server/compat/codex"
	"github.com/bulkhead-dev/sandbox/server/compat/e2b"
	"github.com/bulkhead-dev/sandbox/server/compat/swerex"
	"github.com/bulkhead-dev/sandbox/server/console"
	"github.com/bulkhead-dev/sandbox/server/mcp"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/server/stream"
	"github.com/bulkhead-dev/sandbox/tenant"
	"github.com/bulkhead-dev/sandbox/tenant/token"
	"github.com/bulkhead-dev/sandbox/tools"
)

// daemonParts are what the daemon is made of.
type daemonParts struct {
	orch       *orchestrator.Orchestrator
	manager    *manager.Manager
	admission  *admission.Admission
	tokens     *token.Store
	answers    *resource.Answers
	server     *servers.Server
	figures    *prometheus.Registry
	useManager *resource.Sessions
	ports      *resource.Ports
	asker      *mcp.Asker
	telemetry  *telemetry
	console    *console.Console
	live       *resource.Live
	ends       []func() // of what was made, in that order
}

// newDaemon makes the parts.
func newDaemon(o cli.Options, version string) (d *daemonParts, err error) {
	d = &daemonParts{figures: prometheus.NewRegistry()}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.telemetry, err = newTelemetry(o.Log, version, d.figures, d.figures); err != nil {
		return d, err
	}
	d.ends = append(d.ends, func() { d.telemetry.close(o.Log) }) // first, so that it is the last to end
	ho := optionsOf(o)
	d.asker = mcp.NewAsker(true) // and questions wait for an answer, see /v1/approvals
	ho.Approver = d.asker
	d.live = resource.NewLive()
	ho.Violations, ho.Evidence = d.live.Violations, d.live.Evidence
	ho.Accounting = func() (manager.Accounting, error) { return d.admission, nil }
	if ho.Observe, err = servers.NewMetrics(d.figures, servers.MetricsOptions{}); err != nil {
		return d, err
	}
	if d.orch, err = orchestrator.Open(ho); err != nil {
		return d, err
	}
	d.ends = append(d.ends, d.orch.Close)
	accounts, err := ledger.Open(d.orch.State().Budget(), ledger.Options{})
	if err != nil {
		return d, err
	}
	rules := admission.Rules(d.settings)
	d.admission, err = admission.New(admission.Options{
		Keeper: tenant.New(time.Now), Rules: rules, Turns: d.turns, Log: o.Log,
		Dir: filepath.Join(d.orch.State().Path(), "admission"), Ledger: accounts,
	})
	if err != nil {
		return d, err
	}
	if d.manager, err = d.orch.Manager(); err != nil {
		return d, err
	}
	state := d.orch.State()
	if d.tokens, err = token.Open(state.Tokens(), token.AtMost(func(tenant string) int64 { return rules(tenant).Tokens })); err != nil {
		return d, err
	}
	if d.answers, err = resource.Open(filepath.Join(state.Path(), "answers")); err != nil {
		return d, err
	}
	if len(config.DaemonOf(d.settings()).Instances) > 0 {
		o.Log.Warn("daemon.instances has no effect, because the paths below /v1/walls are gone; remove it: the next version refuses it")
	}
	return d, d.serve(o, version)
}

// serve makes the server.
func (d *daemonParts) serve(o cli.Options, version string) error {
	kit := agentTools(o, d.manager, d.orch.Browsers, nil)
	d.ends = append(d.ends, kit.end)
	resources, err := d.resources(o, kit)
	if err != nil {
		return err
	}
	if d.console, err = console.New(console.Options{
		Tokens: d.tokens, Log: o.Log, Version: version, Hosts: d.hosts, Named: func(host string) bool { _, _, ok := d.ports.Named(host); return ok },
		Record: d.record,
	}); err != nil {
		return err
	}
	resources = append(resources, d.console)
	requests, err := servers.NewRequests(d.figures)
	if err != nil {
		return err
	}
	if err := servers.ObserveQueue(d.figures, d.admission.Load); err != nil {
		return err
	}
	d.figures.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mounts, err := d.mounts(o, kit, version)
	if err != nil {
		return err
	}
	key, err := e2b.LoadKey(filepath.Join(d.orch.State().Path(), "e2b.key"))
	if err != nil {
		return err
	}
	translator, err := e2b.New(e2b.Options{
		Log: o.Log, Key: key,
		Enabled: func() bool { return config.DaemonOf(d.settings()).E2B },
		Domains: func() []string { return config.DaemonOf(d.settings()).Hosts }, PortDomain: config.DaemonOf(d.settings()).PortDomain,
	})
	if err != nil {
		return err
	}
	d.ends = append(d.ends, translator.Close)
	d.server, err = servers.New(servers.Options{
		Translators: []servers.Translator{
			d.console, translator,
			agentsapi.New(agentsapi.Options{Enabled: func() bool { return config.DaemonOf(d.settings()).Agents }}),
			codex.New(codex.Options{Enabled: func() bool { return config.DaemonOf(d.settings()).Codex }}),
			swerex.New(swerex.Options{Enabled: func() bool { return config.DaemonOf(d.settings()).SWERex }}),
		},
		Log: o.Log, Resources: resources, Mounts: mounts,
		Identify:  d.identify,
		Hosts:     d.hosts,
		Admission: d.admission, Observer: requests, Metrics: promhttp.HandlerFor(d.figures, promhttp.HandlerOpts{}),
		Checks: d.checks(), Private: d.private(),
		Bounds: d.bounds, Ports: d.ports, Tracer: d.telemetry.tracer,
	})
	return err
}

// hosts are the names of the daemon beside those of this machine.
func (d *daemonParts) hosts() []string { return config.DaemonOf(d.settings()).Hosts }

// identify returns the caller of a request: that of a login of the console, or of a
// token, or a user of this machine.
func (d *daemonParts) identify(r *http.Request) (auth.Caller, error) {
	if who, ok, err := d.console.Identify(r); ok || err != nil {
		return who, err
	}
	return auth.Identify(d.tokens, r)
}

// record keeps the record of something that no sandbox has done.
func (d *daemonParts) record(r violation.Record) error {
	store, err := d.orch.Violations()
	if err != nil {
		return err
	}
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	return store.Append(ctx, r)
}

// resources are all that is served below /v1.
func (d *daemonParts) resources(o cli.Options, kit agentKit) ([]resource.Resource, error) {
	m := d.manager
	d.ports = resource.NewPorts(m, resource.PortOptions{
		File: filepath.Join(d.orch.State().Path(), "ports.json"), Tokens: d.tokens, Domain: config.DaemonOf(d.settings()).PortDomain,
	})
	boxes := resource.NewSandboxes(resource.Options{Manager: m, Answers: d.answers, Log: o.Log})
	keeper, err := d.orch.Browsers()
	if err != nil {
		return nil, err
	}
	pages := resource.NewBrowsers(keeper, m, o.Log)
	d.useManager = resource.NewSessions(m, stream.Options{})
	d.ends = append(d.ends, boxes.Close, d.live.Close, func() {
		ctx, done := context.WithTimeout(context.Background(), mcpDrain)
		defer done()
		if err := pages.Close(ctx); err != nil {
			o.Log.WithError(err).Warn("a page of a browser has not ended in order")
		}
	})
	violations, err := d.orch.Violations()
	if err != nil {
		return nil, err
	}
	evidence, err := d.orch.Evidence()
	if err != nil {
		return nil, err
	}
	return []resource.Resource{
		boxes, resource.NewCommands(m), resource.NewToolCalls(m, kit.tools), resource.NewShells(m, kit.orch, stream.Options{}),
		resource.NewFilesResource(m, resource.Limits{}), resource.NewWatchResource(m, resource.WatchOptions{}),
		resource.NewApprovals(d.orch.Approvals()), resource.NewViolations(violations), resource.NewEvidence(evidence),
		resource.NewGrants(m, d.registrar), resource.NewTokens(d.tokens), resource.NewMedia(m), d.ports, resource.NewCode(m, kit.orch), pages, d.useManager,
		resource.NewCheckpoints(resource.CheckpointOptions{Manager: m, MaxImport: func() int64 { return config.DaemonOf(d.settings()).MaxImport }}),
		resource.NewChanges(m), d.live.Resource(resource.LiveOptions{Manager: m, Approvals: d.orch.Approvals(), Log: o.Log}),
		resource.NewTenants(resource.TenantOptions{Accounts: d.admission, Tokens: d.tokens, Settings: d.settings, Manager: m}),
	}, nil
}

// mounts are the handlers that speak protocols of their own.
func (d *daemonParts) mounts(o cli.Options, kit agentKit, version string) ([]servers.Mount, error) {
	agents := mcp.New(mcp.Options{Manager: d.manager, Tools: kit.tools, Asker: d.asker, Version: version, Log: o.Log, Private: d.private()}).Handler(d.bind)
	d.ends = append(d.ends, func() {
		if err := agents.Close(); err != nil {
			o.Log.WithError(err).Warn("something that was served has not ended in order")
		}
	})
	return []servers.Mount{
		{Pattern: "/mcp", Whole: true, Handler: agents, Follows: func(r *http.Request) bool { return r.Method == http.MethodGet }},
		{Pattern: api.HandlesPath + "/", Handler: d.useManager.Handles()},
		{Pattern: resource.PortsPattern, Handler: d.ports.Handler()},
	}, nil
}

// private returns the paths that no remote caller may learn.
func (d *daemonParts) private() []string {
	return []string{d.orch.State().Path(), d.orch.World().Home}
}

// bind says whose tools a session of the Model Context Protocol has.
func (d *daemonParts) bind(r *http.Request) (mcp.Binding, error) {
	t := servers.TicketOf(r.Context())
	if _, err := resource.Inside(d.manager, t.Who); err != nil {
		return mcp.Binding{}, err
	}
	b := mcp.Binding{Session: tools.Session{Who: t.Who, Ask: true}, Caller: t.Caller.ID(), Watch: t.Caller.Watch}
	// A token for one agent reaches none of the others.
	b.Tenant = t.Caller.Reaches(token.Tenant) && t.Caller.Agent == ""
	b.Owns = func(r manager.Row) bool { return resource.Owns(t.Caller, r.Tenant, r.Agent, r.Session, r.Scope) }
	// As at /v1/approvals: a token for one session is what its agent may hold.
	switch {
	case t.Caller.Reaches(token.Admin):
		b.Answers = mcp.AnswersForGood
	case t.Caller.Reaches(token.Tenant):
		b.Answers = mcp.AnswersForNow
	}
	return b, nil
}

// turns are how commands begin by the settings as they are now.
func (d *daemonParts) turns() admission.Turns {
	set := config.DaemonOf(d.settings())
	return admission.Turns{Slots: set.FairSlots, Waiting: set.FairWaiting, Hold: set.FairHold}
}

// bounds are those of requests by the settings as they are now.
func (d *daemonParts) bounds() servers.Bounds {
	set := config.DaemonOf(d.settings())
	return servers.Bounds{Timeout: set.RequestTimeout, Body: set.MaxBody}
}

// grace is how long requests may go on after the daemon was asked to end.
func (d *daemonParts) grace() time.Duration { return config.DaemonOf(d.settings()).DrainTimeout }

// close ends what there is, the last first.
func (d *daemonParts) close() {
	for i := len(d.ends) - 1; i >= 0; i-- {
		d.ends[i]()
	}
	d.ends = nil
}
