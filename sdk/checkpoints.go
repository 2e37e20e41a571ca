package sdk

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// A Checkpoint is a kept state of a sandbox: its workspace, its home and the
// folders that the setting checkpoint.folders names, with the working folder,
// variables and functions of its persistent shells. What ran is named in it, and
// not kept.
type Checkpoint = api.Checkpoint

// A RolledBack says what [Sandbox.Rollback] came to.
type RolledBack = api.RolledBack

// A Forked is one fork, or says in Problem why there is none.
type Forked = api.Forked

// CheckpointOptions select checkpoints; empty fields select everything.
type CheckpointOptions struct {
	Agent, Session string
	Sandbox        string // name of the sandbox that they were made of
	Limit          int    // of one page; 0 leaves it to the daemon
	Cursor         string // api.CheckpointPage.Next of the page before
}

const checkpointsPath = api.Prefix + "/checkpoints"

// checkpointPath is the path of a checkpoint and what is below it.
func checkpointPath(ref, below string) string {
	return checkpointsPath + "/" + url.PathEscape(ref) + below
}

// CreateCheckpoint keeps the state of a sandbox.
func (c *API) CreateCheckpoint(ctx context.Context, name string, r api.CreateCheckpoint) (api.Checkpoint, error) {
	return post[api.Checkpoint](ctx, c, "create checkpoint", one(name, "/checkpoints"), r)
}

// ListCheckpoints returns one page, the oldest first.
func (c *API) ListCheckpoints(ctx context.Context, o CheckpointOptions) (api.CheckpointPage, error) {
	q := values("agent", o.Agent, "session", o.Session, "sandbox", o.Sandbox, "cursor", o.Cursor)
	if o.Limit > 0 {
		q.Set("limit", strconv.Itoa(o.Limit))
	}
	return get[api.CheckpointPage](ctx, c, "list checkpoints", checkpointsPath, q)
}

// ListSandboxCheckpoints returns one page of those of a sandbox; of o only Limit
// and Cursor count.
func (c *API) ListSandboxCheckpoints(ctx context.Context, name string, o CheckpointOptions) (api.CheckpointPage, error) {
	q := values("cursor", o.Cursor)
	if o.Limit > 0 {
		q.Set("limit", strconv.Itoa(o.Limit))
	}
	return get[api.CheckpointPage](ctx, c, "list checkpoints", one(name, "/checkpoints"), q)
}

// Checkpoints returns all that o selects, page by page, the oldest first. An
// error is the last.
func (c *API) Checkpoints(ctx context.Context, o CheckpointOptions) iter.Seq2[api.Checkpoint, error] {
	return pagesOfCheckpoints(o, func(o CheckpointOptions) (api.CheckpointPage, error) { return c.ListCheckpoints(ctx, o) })
}

func pagesOfCheckpoints(o CheckpointOptions, page func(CheckpointOptions) (api.CheckpointPage, error)) iter.Seq2[api.Checkpoint, error] {
	return func(yield func(api.Checkpoint, error) bool) {
		for {
			p, err := page(o)
			if err == nil && p.Next != "" && (p.Next == o.Cursor || len(p.Items) == 0) {
				err = &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "list checkpoints", Message: "the daemon answers with pages without end"}
			}
			if err != nil {
				yield(api.Checkpoint{}, err)
				return
			}
			for _, one := range p.Items {
				if !yield(one, nil) {
					return
				}
			}
			if o.Cursor = p.Next; o.Cursor == "" {
				return
			}
		}
	}
}

// collect returns all of a sequence, or its error.
func collect[T any](all iter.Seq2[T, error]) ([]T, error) {
	out := []T{}
	for one, err := range all {
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// Checkpoint returns the checkpoint with that id or name.
func (c *API) Checkpoint(ctx context.Context, ref string) (api.Checkpoint, error) {
	return get[api.Checkpoint](ctx, c, "get checkpoint", checkpointPath(ref, ""), nil)
}

// DeleteCheckpoint removes a checkpoint. Sandboxes that began with it keep their
// files.
func (c *API) DeleteCheckpoint(ctx context.Context, ref string) error {
	return c.Call(ctx, Request{Op: "remove checkpoint", Method: http.MethodDelete, Path: checkpointPath(ref, "")}, nil)
}

// ExportCheckpoint returns a checkpoint as one file, a tar archive that is
// compressed with zstd, which is to be closed. It is complete when it ends with
// io.EOF; one that was cut off is another error of Read. ctx has to last until
// then.
func (c *API) ExportCheckpoint(ctx context.Context, ref string) (io.ReadCloser, error) {
	a, err := c.Do(ctx, Request{Op: "export checkpoint", Method: http.MethodGet, Path: checkpointPath(ref, "/archive"), Again: true})
	if err != nil {
		return nil, err
	}
	return a.Body, nil
}

// ImportCheckpoint keeps what ExportCheckpoint has returned, here or on another
// machine, as a checkpoint of the client's session. name may be empty.
func (c *API) ImportCheckpoint(ctx context.Context, name string, archive io.Reader) (api.Checkpoint, error) {
	var out api.Checkpoint
	err := c.read(ctx, Request{
		Op: "import checkpoint", Method: http.MethodPost, Path: checkpointsPath, Query: values("name", name),
		Header: http.Header{"Content-Type": {api.ContentCheckpoint}}, Body: archive,
	}, &out)
	return out, err
}

// RollbackSandbox gives a sandbox the state of a checkpoint.
func (c *API) RollbackSandbox(ctx context.Context, name string, r api.Rollback) (api.RolledBack, error) {
	return post[api.RolledBack](ctx, c, "roll back", one(name, "/rollback"), r)
}

// ForkSandbox makes sandboxes that begin with the state of a sandbox, or of a
// checkpoint.
func (c *API) ForkSandbox(ctx context.Context, name string, r api.Fork) (api.ForkList, error) {
	return post[api.ForkList](ctx, c, "fork", one(name, "/fork"), r)
}

// From has the sandbox begin with the checkpoint of that id or name. A session
// that has a sandbox is refused with CodeBusy.
func From(ref string) SandboxOption { return func(o *sandboxOptions) { o.from = ref } }

// Checkpoint keeps the state of the sandbox, to go back to with
// [Sandbox.Rollback], and for others to begin with: [Sandbox.Fork] and [From].
// name may be empty; no two checkpoints of a tenant have the same name. What runs
// goes on.
func (s *Sandbox) Checkpoint(ctx context.Context, name string) (Checkpoint, error) {
	return s.api.CreateCheckpoint(ctx, s.name, api.CreateCheckpoint{Name: name})
}

// Checkpoints returns the checkpoints of the sandbox, the oldest first.
func (s *Sandbox) Checkpoints(ctx context.Context) ([]Checkpoint, error) {
	return collect(pagesOfCheckpoints(CheckpointOptions{}, func(o CheckpointOptions) (api.CheckpointPage, error) {
		return s.api.ListSandboxCheckpoints(ctx, s.name, o)
	}))
}

// Rollback gives the sandbox the state of the checkpoint with that id or name.
// What runs in it is ended, and what it holds is given up.
func (s *Sandbox) Rollback(ctx context.Context, ref string) (RolledBack, error) {
	return s.api.RollbackSandbox(ctx, s.name, api.Rollback{Checkpoint: ref})
}

// ForkOptions say what [Sandbox.Fork] makes.
type ForkOptions struct {
	Count    int      // how many; 1 without, unless Sessions are named
	From     string   // id or name of the checkpoint that they begin with; empty makes one of the sandbox
	Sessions []string // of the forks, instead of Count; none of them may have a sandbox
}

// Fork makes sandboxes that begin with the state of this one, which goes on
// undisturbed. Without Sessions they belong to the sessions SESSION-fork-1 and so
// on. Each has secrets, tokens and evidence of its own. A fork that cannot be made
// says so in its Problem, and the others are made; [Client.Sandbox] returns one by
// its session.
func (s *Sandbox) Fork(ctx context.Context, o ForkOptions) ([]Forked, error) {
	l, err := s.api.ForkSandbox(ctx, s.name, api.Fork{Count: int64(o.Count), From: o.From, Sessions: o.Sessions})
	return l.Items, err
}

// Checkpoints returns those that o selects of the client's tenant, the oldest
// first.
func (c *Client) Checkpoints(ctx context.Context, o CheckpointOptions) ([]Checkpoint, error) {
	return collect(c.api.Checkpoints(ctx, o))
}

// Checkpoint returns the checkpoint with that id or name.
func (c *Client) Checkpoint(ctx context.Context, ref string) (Checkpoint, error) {
	return c.api.Checkpoint(ctx, ref)
}

// RemoveCheckpoint removes a checkpoint. Sandboxes that began with it keep their
// files.
func (c *Client) RemoveCheckpoint(ctx context.Context, ref string) error {
	return c.api.DeleteCheckpoint(ctx, ref)
}

// ExportCheckpoint writes a checkpoint to w as one file, which ImportCheckpoint
// reads here or on another machine. After an error the file is not complete.
func (c *Client) ExportCheckpoint(ctx context.Context, ref string, w io.Writer) error {
	return exportTo(ctx, c.api, ref, w)
}

func exportTo(ctx context.Context, a *API, ref string, w io.Writer) error {
	const op = "export checkpoint"
	r, err := a.ExportCheckpoint(ctx, ref)
	if err != nil {
		return err
	}
	defer r.Close()
	return copyAnswer(ctx, op, ref, w, r)
}

// copyAnswer copies an answer to w.
func copyAnswer(ctx context.Context, op, resource string, w io.Writer, r io.Reader) error {
	in := &readFailure{from: r}
	_, err := io.Copy(w, in)
	switch {
	case err == nil:
		return nil
	case in.err != nil:
		return broken(ctx, op, in.err)
	}
	return &sandbox.Error{Code: sandbox.CodeExecution, Op: op, Resource: resource, Message: "the file cannot be written", Err: err}
}

// A readFailure records why from could not be read.
type readFailure struct {
	from io.Reader
	err  error
}

// Read implements io.Reader.
func (r *readFailure) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// ImportCheckpoint keeps what ExportCheckpoint has written as a checkpoint of the
// session, which may be empty for the default one. name may be empty.
func (c *Client) ImportCheckpoint(ctx context.Context, session, name string, archive io.Reader) (Checkpoint, error) {
	return c.api.For(c.api.o.Tenant, c.api.o.Agent, session).ImportCheckpoint(ctx, name, archive)
}

// A managerCheckpoints keeps checkpoints of sandboxes behind a daemon, with the
// methods that the command line uses.
type managerCheckpoints struct{ d *Manager }

// Checkpoints returns the checkpoints.
func (d *Manager) Checkpoints() managerCheckpoints { return managerCheckpoints{d} }

// at returns the client for a request, and the name of the sandbox of its
// session.
func (k managerCheckpoints) at(ctx context.Context, r manager.Request) (c *API, name string, err error) {
	if c, err = k.d.as(r.Who).WithSettings(r.Flags); err != nil {
		return nil, "", err
	}
	name, err = k.d.ownSandbox(ctx, r.Who, "checkpoint")
	return c, name, err
}

// Create keeps the state of the sandbox of a session.
func (k managerCheckpoints) Create(ctx context.Context, r manager.Request, name string, _ func(entries, bytes int64)) (api.Checkpoint, error) {
	c, box, err := k.at(ctx, r)
	if err != nil {
		return api.Checkpoint{}, err
	}
	return c.CreateCheckpoint(ctx, box, api.CreateCheckpoint{Name: name})
}

// List returns what f selects, the oldest first.
func (k managerCheckpoints) List(ctx context.Context, f manager.CheckpointFilter) ([]api.Checkpoint, error) {
	return collect(k.d.c.For(f.Tenant, "", "").Checkpoints(ctx, CheckpointOptions{Agent: f.Agent, Session: f.Session, Sandbox: f.Sandbox}))
}

// Get returns the checkpoint of who's tenant with that id or name.
func (k managerCheckpoints) Get(ctx context.Context, who config.Who, ref string) (api.Checkpoint, error) {
	return k.d.as(who).Checkpoint(ctx, ref)
}

// Remove removes a checkpoint.
func (k managerCheckpoints) Remove(ctx context.Context, who config.Who, ref string) error {
	return k.d.as(who).DeleteCheckpoint(ctx, ref)
}

// Export writes a checkpoint to w.
func (k managerCheckpoints) Export(ctx context.Context, who config.Who, ref string, w io.Writer) error {
	return exportTo(ctx, k.d.as(who), ref, w)
}

// Import keeps what Export has written.
func (k managerCheckpoints) Import(ctx context.Context, who config.Who, name string, r io.Reader) (api.Checkpoint, error) {
	return k.d.as(who).ImportCheckpoint(ctx, name, r)
}

// Rollback gives the sandbox of a session the state of a checkpoint.
func (k managerCheckpoints) Rollback(ctx context.Context, r manager.Request, ref string) (api.RolledBack, error) {
	c, box, err := k.at(ctx, r)
	if err != nil {
		return api.RolledBack{}, err
	}
	return c.RollbackSandbox(ctx, box, api.Rollback{Checkpoint: ref})
}

// Fork makes forks of the sandbox of a session.
func (k managerCheckpoints) Fork(ctx context.Context, r manager.Request, f api.Fork) ([]api.Forked, error) {
	c, box, err := k.at(ctx, r)
	if err != nil {
		return nil, err
	}
	l, err := c.ForkSandbox(ctx, box, f)
	return l.Items, err
}
