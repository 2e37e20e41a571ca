// This file holds the resource for checkpoints: kept states of sandboxes, to
// which a sandbox goes back and with which others begin.

package resource

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/tenant/token"
	"github.com/bulkhead-dev/sandbox/workspace/checkpoint"
)

// A checkpointFinder finds a checkpoint; *manager.Manager is one.
type checkpointFinder interface {
	Name(who config.Who, flags *config.SandboxSettings) (string, error)
	FindCheckpoint(ctx context.Context, tenant, ref string) (checkpoint.Record, error)
}

// A CheckpointKeeper keeps checkpoints; *manager.Manager is one.
type CheckpointKeeper interface {
	Finder
	checkpointFinder
	Checkpoint(ctx context.Context, req manager.Request, o manager.CheckpointOptions) (checkpoint.Record, error)
	Checkpoints(ctx context.Context, f manager.CheckpointFilter) ([]checkpoint.Record, error)
	RemoveCheckpoint(ctx context.Context, tenant, ref string) error
	ExportCheckpoint(ctx context.Context, tenant, ref string, w io.Writer) error
	ImportCheckpoint(ctx context.Context, who config.Who, name string, r io.Reader) (checkpoint.Record, error)
	Rollback(ctx context.Context, req manager.Request, ref string) (manager.RolledBack, error)
	Fork(ctx context.Context, req manager.Request, o manager.ForkOptions) ([]manager.Forked, error)
	ForkSessions(ctx context.Context, who config.Who, flags *config.SandboxSettings, count int) ([]string, error)
}

// CheckpointOptions configure the resource.
type CheckpointOptions struct {
	Manager CheckpointKeeper
	// MaxImport returns the most bytes of an archive that is imported; nil is
	// what holds without settings.
	MaxImport func() int64
}

// A checkpointsResource has the routes.
type checkpointsResource struct {
	m         CheckpointKeeper
	maxImport func() int64
}

// NewCheckpoints returns the resource.
func NewCheckpoints(o CheckpointOptions) *checkpointsResource {
	if o.MaxImport == nil {
		o.MaxImport = func() int64 { return config.DaemonOf(nil).MaxImport }
	}
	return &checkpointsResource{m: o.Manager, maxImport: o.MaxImport}
}

// checkpointTool is the tool of an agent that makes checkpoints and goes back to
// them.
const checkpointTool = "checkpoint"

// Routes implements [Resource].
func (x *checkpointsResource) Routes() []Route {
	const tag, all, each = "checkpoints", api.Prefix + "/checkpoints", api.Prefix + "/checkpoints/{ref}"
	paging := []Param{
		{Name: "limit", Type: Integer, Min: 1, Max: 1000, Doc: "How many at most; 100 without"},
		{Name: "cursor", Length: 512, Doc: "next of the page before. Checkpoints that come and go meanwhile move no other"},
	}
	return []Route{
		{
			ID: "createCheckpoint", Settings: true, Method: "POST", Path: one + "/checkpoints", Tag: tag, Role: token.Session, Timeout: startWithin,
			Summary: "Keep the state of a sandbox", Doc: "Its workspace, its home and the folders of checkpoint.folders, and the working folder, variables and functions of its persistent shells. Commands go on.",
			Request: api.CreateCheckpoint{}, Response: api.Checkpoint{}, Status: http.StatusCreated, Errors: []int{403, 404, 409, 429, 501, 503, 504}, Do: x.create,
		},
		{
			ID: "listSandboxCheckpoints", Settings: true, Method: "GET", Path: one + "/checkpoints", Tag: tag, Role: token.Session,
			Summary: "List the checkpoints of a sandbox, the oldest first", Query: paging, Response: api.CheckpointPage{}, Errors: []int{404, 503}, Do: x.ofSandbox,
		},
		{
			ID: "listCheckpoints", Method: "GET", Path: all, Tag: tag, Role: token.Session,
			Summary: "List checkpoints, the oldest first", Response: api.CheckpointPage{}, Errors: []int{503},
			Query: append(slices.Clone(paging), Param{Name: "agent", Length: 64}, Param{Name: "session", Length: 256}, Param{Name: "sandbox", Length: 128, Doc: "That they were made of"}), Do: x.list,
		},
		{
			ID: "importCheckpoint", Method: "POST", Path: all, Tag: tag, Role: token.Session, Body: Endless, Timeout: transferTime,
			Summary: "Keep a checkpoint that was exported, here or on another machine", Doc: "It belongs to the session of the request. daemon.maxImport bounds the body.",
			Query: []Param{{Name: "name", Length: 128, Doc: "No two checkpoints of a tenant have the same name"}}, RequestContent: api.ContentCheckpoint,
			Response: api.Checkpoint{}, Status: http.StatusCreated, Errors: []int{403, 409, 413, 429, 501, 503, 504}, Do: x.imported,
		},
		{ID: "getCheckpoint", Method: "GET", Path: each, Tag: tag, Role: token.Session, Summary: "Get a checkpoint by its id or name", Response: api.Checkpoint{}, Errors: []int{404, 503}, Do: x.get},
		{
			ID: "deleteCheckpoint", Method: "DELETE", Path: each, Tag: tag, Role: token.Session, Timeout: changeTime,
			Summary: "Remove a checkpoint", Doc: "Sandboxes that began with it keep their files.", Errors: []int{404, 409, 503}, Do: x.remove,
		},
		{
			ID: "exportCheckpoint", Method: "GET", Path: each + "/archive", Tag: tag, Role: token.Session, Timeout: transferTime,
			Summary: "Export a checkpoint as one file", Doc: "A tar archive with digests, compressed with zstd, which importCheckpoint takes.",
			ResponseContent: []string{api.ContentCheckpoint}, Errors: []int{404, 429, 503, 504}, Do: x.exported,
		},
		{
			ID: "rollbackSandbox", Settings: true, Method: "POST", Path: one + "/rollback", Tag: tag, Role: token.Session, Timeout: startWithin,
			Summary: "Give a sandbox the state of a checkpoint", Doc: "What runs in it is ended, and what it holds now is given up: keep it with createCheckpoint first.",
			Request: api.Rollback{}, Response: api.RolledBack{}, Errors: []int{403, 404, 409, 429, 501, 503, 504}, Do: x.rollback,
		},
		{
			ID: "forkSandbox", Settings: true, Method: "POST", Path: one + "/fork", Tag: tag, Role: token.Session, Timeout: startWithin,
			Summary: "Make sandboxes that begin with the state of a sandbox, or of a checkpoint",
			Doc:     "Each belongs to a session of its own, which the token must be for, and has secrets, tokens and evidence of its own. The sandbox goes on. Each fork counts against the quota as a sandbox does.",
			Request: api.Fork{}, Response: api.ForkList{}, Errors: []int{403, 404, 409, 429, 501, 503, 504}, Do: x.fork,
		},
	}
}

// findCheckpoint returns the checkpoint with that id or name, if the caller may
// use it: one of a session that it may name, or of the sandbox in which its own
// session runs. The error for another one is that for one that there is not.
func findCheckpoint(c *Call, m checkpointFinder, tenant, ref string) (checkpoint.Record, error) {
	r, err := m.FindCheckpoint(c.Context(), tenant, ref)
	switch {
	case err == nil && mayUse(c, m, tenant, r):
		return r, nil
	case err == nil, sandbox.IsNotFound(err), sandbox.CodeOf(err) == sandbox.CodeValidation: // of the form of a name
		return checkpoint.Record{}, Hide("checkpoint", ref)
	}
	return checkpoint.Record{}, err
}

func mayUse(c *Call, m checkpointFinder, tenant string, r checkpoint.Record) bool {
	if r.Tenant != tenant {
		return false
	}
	if Allowed(c, r.Tenant, r.Agent, r.Session, sandbox.ScopeSession) {
		return true
	}
	own, err := m.Name(c.Who, nil)
	return err == nil && tenant == c.Who.Tenant && own != "" && r.Sandbox == own
}

// fromCheckpoint returns the id of the checkpoint that a request names to begin
// with, or "" where it names none.
func fromCheckpoint(c *Call, m checkpointFinder, tenant, ref string) (string, error) {
	if ref == "" {
		return "", nil
	}
	r, err := findCheckpoint(c, m, tenant, ref)
	return r.ID, err
}

// agent returns an error where the caller is an agent whose settings deny it the
// tool checkpoint.
func (x *checkpointsResource) agent(c *Call, at lookupSandbox) error {
	if tool := c.Tool(checkpointTool); tool != "" {
		return at.Usable.Tool(tool).Err()
	}
	return nil
}

// request returns the request to the manager for a sandbox that the caller may
// use.
func (x *checkpointsResource) request(c *Call, at lookupSandbox) manager.Request {
	return manager.Request{Who: at.Who, Flags: c.Settings, Tool: c.Tool(checkpointTool), MustExist: true}
}

func (x *checkpointsResource) create(c *Call) (any, error) {
	in, err := Body[api.CreateCheckpoint](c)
	if err != nil {
		return nil, err
	}
	at, err := Sandboxed(c, x.m)
	if err == nil {
		err = x.agent(c, at)
	}
	if err != nil {
		return nil, err
	}
	r, err := x.m.Checkpoint(c.Context(), x.request(c, at), manager.CheckpointOptions{Name: in.Name})
	if err != nil {
		return nil, err
	}
	return kept(r), nil
}

// kept returns the answer that a checkpoint was made.
func kept(r checkpoint.Record) Reply {
	return Reply{Status: http.StatusCreated, Header: http.Header{"Location": {api.Prefix + "/checkpoints/" + r.ID}}, Body: api.CheckpointOf(r)}
}

func (x *checkpointsResource) ofSandbox(c *Call) (any, error) {
	at, err := Find(c, x.m)
	if err != nil {
		return nil, err
	}
	return x.page(c, manager.CheckpointFilter{Tenant: at.Who.Tenant, Sandbox: at.Name})
}

func (x *checkpointsResource) list(c *Call) (any, error) {
	return x.page(c, manager.CheckpointFilter{Tenant: c.Who.Tenant, Agent: c.Text("agent"), Session: c.Text("session"), Sandbox: c.Text("sandbox")})
}

// page returns one page of what f selects: the checkpoints after the cursor, which
// is the place of the last one of the page before, so that it stays valid when
// checkpoints are made and removed.
func (x *checkpointsResource) page(c *Call, f manager.CheckpointFilter) (any, error) {
	after, err := readCheckpointCursor(c.Text("cursor"))
	if err != nil {
		return nil, err
	}
	all, err := x.m.Checkpoints(c.Context(), f)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(r checkpoint.Record) bool {
		return placeOf(r).compare(after) <= 0 || !mayUse(c, x.m, f.Tenant, r)
	})
	slices.SortFunc(all, func(a, b checkpoint.Record) int { return placeOf(a).compare(placeOf(b)) })
	out := api.CheckpointPage{Items: []api.Checkpoint{}}
	limit := int(c.Number("limit", usualPage))
	if len(all) > limit {
		all = all[:limit]
		out.Next = placeOf(all[limit-1]).cursor()
	}
	for _, r := range all {
		out.Items = append(out.Items, api.CheckpointOf(r))
	}
	return out, nil
}

// A checkpointPlace is where a checkpoint stands in lists: by time, and then by
// id.
type checkpointPlace struct {
	at int64 // nanoseconds
	id string
}

func placeOf(r checkpoint.Record) checkpointPlace {
	return checkpointPlace{r.CreatedAt.UnixNano(), r.ID}
}

func (p checkpointPlace) compare(q checkpointPlace) int {
	return cmp.Or(cmp.Compare(p.at, q.at), cmp.Compare(p.id, q.id))
}

// checkpointCursorMark begins every cursor, so that another format can follow
// later.
const checkpointCursorMark = "c:"

func (p checkpointPlace) cursor() string {
	return base64.RawURLEncoding.EncodeToString([]byte(checkpointCursorMark + strconv.FormatInt(p.at, 10) + ":" + p.id))
}

// readCheckpointCursor returns the place of a cursor, which is before all others
// for none.
func readCheckpointCursor(s string) (checkpointPlace, error) {
	first := checkpointPlace{at: -1 << 63}
	if s == "" {
		return first, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(s)
	text, ok := strings.CutPrefix(string(data), checkpointCursorMark)
	at, id, two := strings.Cut(text, ":")
	n, bad := strconv.ParseInt(at, 10, 64)
	if err != nil || !ok || !two || bad != nil {
		return first, Invalid("cursor", "is none that was given by a page before")
	}
	return checkpointPlace{n, id}, nil
}

// named returns the checkpoint of the path.
func (x *checkpointsResource) named(c *Call) (checkpoint.Record, error) {
	return findCheckpoint(c, x.m, c.Who.Tenant, c.Path("ref"))
}

func (x *checkpointsResource) get(c *Call) (any, error) {
	r, err := x.named(c)
	if err != nil {
		return nil, err
	}
	return api.CheckpointOf(r), nil
}

func (x *checkpointsResource) remove(c *Call) (any, error) {
	r, err := x.named(c)
	if err != nil {
		return nil, err
	}
	if !Allowed(c, r.Tenant, r.Agent, r.Session, sandbox.ScopeSession) {
		return nil, &sandbox.Error{
			Code: sandbox.CodePermissionDeny, Op: "remove checkpoint", Resource: r.ID, Message: "another session that shares the sandbox has made this checkpoint",
			Hint: "this needs a token for all who share the sandbox",
		}
	}
	return nil, x.m.RemoveCheckpoint(c.Context(), r.Tenant, r.ID)
}

func (x *checkpointsResource) exported(c *Call) (any, error) {
	r, err := x.named(c)
	if err != nil {
		return nil, err
	}
	h := c.Writer.Header()
	h.Set("Content-Type", api.ContentCheckpoint)
	h.Set("Content-Disposition", `attachment; filename="`+r.ID+`.tar.zst"`)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if c.Request.Method == http.MethodHead {
		c.Writer.WriteHeader(http.StatusOK)
		return Sent{}, nil
	}
	out := &started{w: c.Writer}
	err = x.m.ExportCheckpoint(c.Context(), r.Tenant, r.ID, out)
	switch {
	case err != nil && out.any():
		err = fmt.Errorf("%w: %w", errCut, err)
	case err != nil:
		h.Del("Content-Disposition") // what follows is a problem
	}
	return Sent{}, err
}

func (x *checkpointsResource) imported(c *Call) (any, error) {
	if c.Request.ContentLength == 0 {
		return nil, Invalid("body", "there is no archive")
	}
	if most := x.maxImport(); c.Request.ContentLength > most {
		return nil, TooLarge(most)
	}
	in := &importedBody{from: http.MaxBytesReader(c.Writer, c.Request.Body, x.maxImport())}
	r, err := x.m.ImportCheckpoint(c.Context(), c.Who, c.Text("name"), in)
	switch {
	case in.err != nil: // which err follows from
		return nil, BodyErr(in.err)
	case err != nil:
		return nil, err
	}
	return kept(r), nil
}

// An importedBody records why the body could not be read, which is not the
// archive's fault.
type importedBody struct {
	from io.Reader
	err  error
}

// Read implements io.Reader.
func (b *importedBody) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

func (x *checkpointsResource) rollback(c *Call) (any, error) {
	in, err := Body[api.Rollback](c)
	if err != nil {
		return nil, err
	}
	at, err := Sandboxed(c, x.m)
	if err == nil {
		err = Unshared(c, config.Who{Tenant: at.Record.Tenant, Agent: at.Record.Agent, Session: at.Record.Session}, at.Record.Scope, at.Name)
	}
	if err == nil {
		err = x.agent(c, at)
	}
	if err != nil {
		return nil, err
	}
	to, err := findCheckpoint(c, x.m, at.Who.Tenant, in.Checkpoint)
	if err != nil {
		return nil, err
	}
	out, err := x.m.Rollback(c.Context(), x.request(c, at), to.ID)
	if err != nil {
		return nil, err
	}
	return api.RolledBack{Checkpoint: api.CheckpointOf(out.Checkpoint), Ended: api.CheckpointProgramsOf(out.Ended), Recreated: out.Recreated}, nil
}

func (x *checkpointsResource) fork(c *Call) (any, error) {
	in, err := Body[api.Fork](c)
	if err != nil {
		return nil, err
	}
	at, err := Sandboxed(c, x.m)
	if err != nil {
		return nil, err
	}
	if in.Count > 0 && len(in.Sessions) > 0 {
		return nil, Invalid("sessions", "excludes count: there is one fork for each of them")
	}
	from, err := fromCheckpoint(c, x.m, at.Who.Tenant, in.From)
	if err != nil {
		return nil, err
	}
	o := manager.ForkOptions{From: from, Sessions: in.Sessions}
	if len(o.Sessions) == 0 {
		if o.Sessions, err = x.m.ForkSessions(c.Context(), at.Who, c.Settings, int(max(1, in.Count))); err != nil {
			return nil, err
		}
	}
	seen := map[string]bool{}
	for _, session := range o.Sessions {
		if seen[session] {
			return nil, Invalid("sessions", "names one session twice")
		}
		seen[session] = true
		if err := c.Caller.Speaks(config.Who{Tenant: at.Who.Tenant, Agent: cmp.Or(at.Who.Agent, config.DefaultAgent), Session: session}); err != nil {
			return nil, err
		}
	}
	req := x.request(c, at)
	req.Tool = ""
	made, err := x.m.Fork(c.Context(), req, o)
	if err != nil {
		return nil, err
	}
	out := api.ForkList{Items: []api.Forked{}}
	for _, f := range made {
		item := api.Forked{Session: f.Session, Name: f.Name, Checkpoint: f.Checkpoint}
		if f.Err != nil {
			p := c.Problem(c.Why(f.Err))
			item.Name, item.Problem = "", &p
		}
		out.Items = append(out.Items, item)
	}
	return out, nil
}
