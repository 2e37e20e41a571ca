// This file holds the resource that makes, describes and removes sandboxes.

package resource

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// A sandboxesKeeper keeps sandboxes; *manager.Manager is one.
type sandboxesKeeper interface {
	Finder
	checkpointFinder
	Ready(ctx context.Context, req manager.Request) (manager.Prepared, error)
	Create(ctx context.Context, req manager.Request, c config.Creation) (manager.Prepared, error)
	CheckCreation(who config.Who, flags *config.SandboxSettings, c config.Creation) error
	SetNetwork(ctx context.Context, row manager.Row, n *config.NetworkRules) error
	SetTimeout(ctx context.Context, row manager.Row, after time.Duration) error
	Hold(ctx context.Context, row manager.Row) error
	Find(ctx context.Context, tenant, name, provider string) (manager.Row, error)
	List(ctx context.Context, o manager.ListOptions) (manager.Listing, error)
	Remove(ctx context.Context, row manager.Row, o manager.RemoveOptions) error
	Pause(ctx context.Context, row manager.Row) error
	Resume(ctx context.Context, row manager.Row) error
	Extend(ctx context.Context, tenant, name, provider string, until time.Time) error
	Stats(ctx context.Context, tenant string) ([]manager.Stat, error)
	Measure(ctx context.Context, row manager.Row) manager.Stat
}

// Options configure the resource.
type Options struct {
	Manager sandboxesKeeper
	Answers *Answers // of idempotency keys
	Log     logrus.FieldLogger
}

// A sandboxesResource has the routes. It is safe for concurrent use.
type sandboxesResource struct {
	o Options

	mu       sync.Mutex
	closed   bool
	reported map[string]reported          // failures that the log has had lately, by tenant
	coming   map[string]map[string]*ahead // sandboxes that start without a waiting request, by tenant and name
	all      sync.WaitGroup               // of them
	life     context.Context
	stop     func()
}

// startWithin bounds how long a sandbox may take to start: images are built.
const startWithin = 15 * time.Minute

// NewSandboxes returns the resource.
func NewSandboxes(o Options) *sandboxesResource {
	s := &sandboxesResource{o: o, coming: map[string]map[string]*ahead{}}
	s.life, s.stop = context.WithCancel(context.Background())
	return s
}

// Close cancels the sandboxes that start without a waiting request.
func (s *sandboxesResource) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.all.Wait()
}

const one = "/v1/sandboxes/{name}"

// whichProvider is the parameter by which [Find] distinguishes sandboxes of one
// name. Routes that run something have none: the settings say where commands
// run.
var whichProvider = Param{
	Name: "provider", Doc: "Of two sandboxes of this name with different providers, the one with this; without, the one of the provider that the settings name", Length: 64,
}

// Routes implements [Resource].
func (s *sandboxesResource) Routes() []Route {
	const tag = "sandboxes"
	missing, busy := []int{http.StatusNotFound}, []int{http.StatusNotFound, http.StatusConflict}
	return []Route{
		{
			ID: "createSandbox", Method: "POST", Path: "/v1/sandboxes", Tag: tag, Role: token.Session, Timeout: startWithin,
			Summary: "Make or start the sandbox of a session", Request: api.CreateSandbox{}, Response: api.Sandbox{},
			Doc:    "Answers 201 where it was made for this request, 200 where it was there, and 202 where the caller does not wait for it. Not found is the checkpoint that from names.",
			Status: http.StatusCreated, Also: []int{http.StatusOK, http.StatusAccepted}, Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusNotImplemented, http.StatusGatewayTimeout},
			Header: []Param{{Name: api.HeaderIdempotency, Doc: "The same key with the same request has the same answer for 24 hours", Length: 128}},
			Do:     s.create, Settings: true,
		},
		{
			ID: "listSandboxes", Method: "GET", Path: "/v1/sandboxes", Tag: tag, Role: token.Session,
			Summary: "List sandboxes, in order of their names", Response: api.SandboxPage{}, Query: listParams(), Do: s.list,
		},
		{ID: "getSandbox", Settings: true, Method: "GET", Path: one, Tag: tag, Role: token.Session, Summary: "Get a sandbox", Query: []Param{whichProvider}, Response: api.Sandbox{}, Errors: missing, Do: s.get},
		{
			ID: "deleteSandbox", Settings: true, Method: "DELETE", Path: one, Tag: tag, Role: token.Session, Summary: "Remove a sandbox",
			Query: []Param{
				whichProvider,
				{Name: "force", Type: Boolean, Doc: "End what runs in it; without, a sandbox in use is refused"},
				{Name: "workspace", Type: Boolean, Doc: "Remove its scratch workspace too"},
			},
			Errors: busy, Do: s.remove,
		},
		{
			ID: "recreateSandbox", Settings: true, Method: "POST", Path: one + "/recreate", Tag: tag, Role: token.Session, Timeout: startWithin,
			Summary: "Remove a sandbox and make it anew; its workspace stays", Request: api.Recreate{}, Response: api.Sandbox{}, Errors: busy, Do: s.recreate,
		},
		{ID: "pauseSandbox", Settings: true, Method: "POST", Path: one + "/pause", Tag: tag, Role: token.Session, Summary: "Freeze a sandbox until its next use, or until it is resumed", Doc: "It is resumed alone where it was created with autoResume false.", Query: []Param{whichProvider, {Name: "force", Type: Boolean, Doc: "Freeze what runs in it as well; without, a sandbox in use is refused"}}, Response: api.Sandbox{}, Errors: append(busy, http.StatusNotImplemented), Do: s.pause},
		{ID: "resumeSandbox", Settings: true, Method: "POST", Path: one + "/resume", Tag: tag, Role: token.Session, Summary: "Thaw a sandbox", Query: []Param{whichProvider}, Response: api.Sandbox{}, Errors: append(busy, http.StatusNotImplemented), Do: s.resume},
		{ID: "extendSandbox", Settings: true, Method: "POST", Path: one + "/extend", Tag: tag, Role: token.Session, Summary: "Set how long a sandbox is kept from now on", Query: []Param{whichProvider}, Request: api.Extend{}, Response: api.Sandbox{}, Errors: missing, Do: s.extend},
		{ID: "setSandboxTimeout", Settings: true, Method: "POST", Path: one + "/timeout", Tag: tag, Role: token.Session, Summary: "Set after how long a sandbox ends, whatever runs in it", Query: []Param{whichProvider}, Request: api.SetTimeout{}, Response: api.Sandbox{}, Errors: missing, Do: s.timeout},
		{
			ID: "setSandboxNetwork", Settings: true, Method: "PUT", Path: one + "/network", Tag: tag, Role: token.Session, Summary: "Replace the network rules that a sandbox was created with",
			Doc:   "Running commands lose what is taken away within about a second; what is added holds for commands that begin afterwards. Rules are within what the settings and daemon.create.allowedDomains allow.",
			Query: []Param{whichProvider}, Request: config.NetworkRules{}, Response: api.Sandbox{}, Errors: append(missing, http.StatusNotImplemented), Do: s.network,
		},
		{ID: "sandboxUsage", Settings: true, Method: "GET", Path: one + "/usage", Tag: tag, Role: token.Session, Summary: "Report what a sandbox uses", Query: []Param{whichProvider}, Response: api.Usage{}, Errors: missing, Do: s.usage},
		{ID: "listUsage", Method: "GET", Path: "/v1/usage", Tag: tag, Role: token.Session, Summary: "Report what the caller's sandboxes use", Response: api.UsageList{}, Do: s.usages},
	}
}

func (s *sandboxesResource) get(c *Call) (any, error) {
	row, err := s.row(c)
	if err != nil {
		return nil, err
	}
	return shown(c, row), nil
}

// row returns the sandbox of the path, as the provider describes it.
func (s *sandboxesResource) row(c *Call) (manager.Row, error) { return s.found(c, Find) }

// own is row for a sandbox that the caller may change.
func (s *sandboxesResource) own(c *Call) (manager.Row, error) { return s.found(c, Own) }

func (s *sandboxesResource) found(c *Call, find func(*Call, Finder) (lookupSandbox, error)) (manager.Row, error) {
	at, err := find(c, s.o.Manager)
	if err != nil {
		return manager.Row{}, err
	}
	return s.o.Manager.Find(c.Context(), at.Who.Tenant, at.Name, at.Record.Provider)
}

func (s *sandboxesResource) remove(c *Call) (any, error) {
	row, err := s.own(c)
	if err != nil {
		return nil, err
	}
	if err := s.o.Manager.Remove(c.Context(), row, manager.RemoveOptions{Force: c.True("force"), Workspace: c.True("workspace")}); err != nil {
		return nil, err
	}
	return nil, nil
}

func (s *sandboxesResource) pause(c *Call) (any, error) {
	if c.True("force") {
		return s.change(c, s.o.Manager.Hold)
	}
	return s.change(c, s.o.Manager.Pause)
}

func (s *sandboxesResource) timeout(c *Call) (any, error) {
	in, err := Body[api.SetTimeout](c)
	if err != nil {
		return nil, err
	}
	return s.change(c, func(ctx context.Context, row manager.Row) error {
		return s.o.Manager.SetTimeout(ctx, row, time.Duration(in.Timeout)*time.Second)
	})
}

func (s *sandboxesResource) network(c *Call) (any, error) {
	in, err := Body[config.NetworkRules](c)
	if err != nil {
		return nil, err
	}
	return s.change(c, func(ctx context.Context, row manager.Row) error {
		return s.o.Manager.SetNetwork(ctx, row, &in)
	})
}

func (s *sandboxesResource) resume(c *Call) (any, error) { return s.change(c, s.o.Manager.Resume) }

// change calls do with the sandbox of the path and returns its state afterwards.
func (s *sandboxesResource) change(c *Call, do func(context.Context, manager.Row) error) (any, error) {
	row, err := s.own(c)
	if err != nil {
		return nil, err
	}
	if err := do(c.Context(), row); err != nil {
		return nil, err
	}
	return s.get(c)
}

func (s *sandboxesResource) extend(c *Call) (any, error) {
	in, err := Body[api.Extend](c)
	if err != nil {
		return nil, err
	}
	return s.change(c, func(ctx context.Context, row manager.Row) error {
		return s.keep(ctx, row.Tenant, row.Name, row.Provider, in.TTLSeconds)
	})
}

func (s *sandboxesResource) usage(c *Call) (any, error) {
	row, err := s.row(c)
	if err != nil {
		return nil, err
	}
	return cost(c, s.o.Manager.Measure(c.Context(), row)), nil
}

func (s *sandboxesResource) usages(c *Call) (any, error) {
	rows, err := s.rows(c, c.Who.Tenant)
	if err != nil {
		return nil, err
	}
	mine := map[string]bool{}
	for _, r := range rows {
		mine[r.Name] = true
	}
	stats, err := s.o.Manager.Stats(c.Context(), c.Who.Tenant)
	if err != nil {
		return nil, err
	}
	out := api.UsageList{Items: []api.Usage{}}
	for _, st := range stats {
		if mine[st.Name] {
			out.Items = append(out.Items, cost(c, st))
		}
	}
	return out, nil
}
