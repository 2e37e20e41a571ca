// This file holds the resource for programs that name a session instead of its
// sandbox, such as the command line of another machine: a command with its
// streams over a WebSocket, the files of a session for as long as a socket is
// open, and the manager's answers about sandboxes in full.
//
// Settings of a call override those of the daemon, so only admins may give them.
// Nothing here runs outside of a sandbox, for any caller.

package resource

import (
	"context"
	"net/http"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/stream"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// A sessionsManager prepares sandboxes and records what they do; *manager.Manager is
// one.
type sessionsManager interface {
	Finder
	checkpointFinder
	Run(ctx context.Context, r manager.Request) (manager.Outcome, error)
	Shell(ctx context.Context, r manager.Request) (manager.Outcome, error)
	Files(ctx context.Context, r manager.Request, fn func(manager.Share) error) error
	List(ctx context.Context, o manager.ListOptions) (manager.Listing, error)
	Select(ctx context.Context, tenant string, s manager.Selector, browsers bool) ([]manager.Row, error)
	Recreate(ctx context.Context, rows []manager.Row) manager.Recreated
	Prune(ctx context.Context, o manager.PruneOptions) (manager.Pruned, error)
	Explain(ctx context.Context, who config.Who, flags *config.SandboxSettings, q manager.Questions) (manager.Explanation, error)
	PoolStatus(ctx context.Context) (manager.PoolStatus, error)
}

// Sessions has the routes. It is safe for concurrent use.
type Sessions struct {
	m sessionsManager
	o stream.Options

	mux    *http.ServeMux // serves the files of open handles
	looks  keylock.Turns  // by sandbox: a folder listing is held in memory while it is sent
	mu     sync.Mutex
	handle map[string]*handle
}

// NewSessions returns the resource. The caller mounts [Sessions.Handles] beside its routes.
func NewSessions(m sessionsManager, o stream.Options) *Sessions {
	s := &Sessions{m: m, o: o, handle: map[string]*handle{}, looks: keylock.Turns{Most: maxHandleLooks}}
	s.mux = s.handlesMux()
	return s
}

// Routes implements [Resource].
func (s *Sessions) Routes() []Route {
	const tag = "sessions"
	missing := []int{http.StatusNotFound, http.StatusConflict}
	return []Route{
		{
			ID: "attachSession", Method: "GET", Path: "/v1/attach", Tag: tag, Role: token.Session, Socket: true, Timeout: Endless,
			Summary: "Run a command in the session's sandbox, which is made when missing, over a WebSocket", Errors: missing, Do: s.attach,
		},
		{
			ID: "lendFiles", Method: "GET", Path: "/v1/lend", Tag: tag, Role: token.Session, Socket: true, Timeout: Endless,
			Summary: "Serve the files of the session's sandbox while the WebSocket is open", Errors: missing, Do: s.openHandle,
		},
		{
			ID: "listing", Method: "GET", Path: "/v1/listing", Tag: tag, Role: token.Session, Summary: "List sandboxes and browsers as sandbox list does",
			Query: []Param{
				{Name: "all", Type: Boolean, Doc: "Every tenant's; for admins"},
				{Name: "label", Length: 400, Repeat: true, Doc: "NAME=VALUE that the sandbox was created with; of several, all"},
				{Name: "foreign", Type: Boolean, Doc: "Those of other instances; for admins"},
			}, Response: api.Listing{}, Do: s.listing,
		},
		{ID: "selectSandboxes", Method: "POST", Path: "/v1/select", Tag: tag, Role: token.Session, Summary: "List the sandboxes that a recreate would remove", Request: api.Selection{}, Response: api.Selected{}, Do: s.selected},
		{
			ID: "recreateSandboxes", Method: "POST", Path: "/v1/recreate", Tag: tag, Role: token.Session, Summary: "Remove sandboxes, so that their next use makes them anew",
			Request: api.RecreateForm{}, Response: api.ClearedForm{}, Timeout: longest, Do: s.recreate,
		},
		{ID: "prune", Method: "POST", Path: "/v1/prune", Tag: tag, Role: token.Admin, Summary: "Remove unused sandboxes", Request: api.Prune{}, Response: api.ClearedForm{}, Timeout: longest, Do: s.prune},
		{ID: "explain", Safe: true, Method: "POST", Path: "/v1/explain", Tag: tag, Role: token.Admin, Summary: "Explain what a session gets and why", Request: api.Explain{}, Response: manager.Explanation{}, Body: maxFlags, Do: s.explain},
		{ID: "pool", Method: "GET", Path: "/v1/pool", Tag: tag, Role: token.Admin, Summary: "Report which sandboxes are kept ready, and why others were made", Response: manager.PoolStatus{}, Do: s.pool},
	}
}

// reportedTo returns err as the caller may see it. For callers other than admins it
// removes the cause, which is text of other programs or private; of the cause it
// keeps only the errors that callers of file operations test for.
func reportedTo(c *Call, err error) error {
	if err == nil || c != nil && c.Admin() {
		return err
	}
	cause := api.Cause(err)
	if c == nil || c.Problem == nil {
		return &sandbox.Error{Code: sandbox.CodeOf(err), Op: "serve", Message: "it has failed", Err: cause}
	}
	e := c.Problem(err).Err("serve")
	e.Err = cause
	return e
}

// Layer reads the flags of a call, and refuses them from callers that may not
// give any.
func Layer(c *Call, f *api.Flags) (*config.SandboxSettings, error) {
	if f == nil {
		return nil, nil
	}
	if !c.Admin() {
		return nil, &sandbox.Error{
			Code: sandbox.CodePermissionDeny, Op: "serve", Field: "flags", Message: "flags that override settings are for admins",
			Hint: "leave out --provider, --image, --workspace, --allow-domain and the like, or have the settings of the daemon changed",
		}
	}
	return f.Layer()
}
