package sdk

import (
	"context"
	"net/http"
	"path"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/stream"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// Files brings the sandbox of a request up and hands its files to fn. Paths
// are those inside; those of the daemon's machine mean nothing here.
func (d *Manager) Files(ctx context.Context, r manager.Request, fn func(manager.Share) error) error {
	flags, err := api.FlagsOf(r.Flags)
	if err != nil {
		return sandbox.Errorf(sandbox.CodeInternal, "files", "the flags cannot be written: %w", err)
	}
	c := d.as(r.Who)
	conn, _, err := c.Socket(ctx, "files", "/v1/lend", nil)
	if err != nil {
		return err
	}
	t := stream.NewTalk(conn, d.o.Stream)
	defer t.End(false)
	var m api.Handle
	if err = t.Send(api.HandleRequest{MustExist: r.MustExist, Flags: flags}); err == nil {
		err = t.Receive(ctx, &m)
	}
	if err == nil && m.Error != nil {
		err = m.Error.Err()
	}
	if err != nil {
		return managerEnded(ctx, err)
	}
	borrowed, lost := context.WithCancel(ctx)
	defer lost()
	go func() { // the daemon says nothing more; what comes is its end
		defer lost()
		var none api.Handle
		_ = t.Receive(context.Background(), &none)
	}()
	share, err := shareOf(borrowed, c, m)
	if err != nil {
		return managerEnded(ctx, err)
	}
	return fn(share)
}

// StageFor copies files of the daemon's machine, and of machines that its settings
// name, into the workspace of a session, whose sandbox is made for it when it is
// missing. Flags of the call are not carried over, and are refused.
func (d *Manager) StageFor(ctx context.Context, r manager.Request, refs []string) ([]workspace.Staged, error) {
	if r.Flags != nil {
		return nil, elsewhere("stage media", "staging media with flags for the sandbox")
	}
	c := d.as(r.Who)
	made, err := c.CreateSandbox(ctx, api.CreateSandbox{})
	if err != nil {
		return nil, err
	}
	staged, err := c.StageMedia(ctx, made.Name, api.StageMedia{Refs: refs})
	if err != nil {
		return nil, err
	}
	out := []workspace.Staged{}
	for _, s := range staged.Items {
		out = append(out, workspace.Staged{Ref: s.Ref, Original: path.Base(s.Ref), Path: s.Path, Size: s.Size, SHA256: s.SHA256, MIME: s.MIME})
	}
	return out, nil
}

func managerEnded(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil && sandbox.CodeOf(err) == sandbox.CodeUnavailable {
		return &sandbox.Error{Code: sandbox.CodeTimeout, Op: "files", Message: "the call ended before there was an answer", Retryable: true, Err: cause}
	}
	return err
}

func shareOf(ctx context.Context, c *API, m api.Handle) (manager.Share, error) {
	var mounts []sandbox.Mount
	for _, r := range m.Roots {
		mounts = append(mounts, sandbox.Mount{Target: r.Target, ReadOnly: r.ReadOnly, Role: sandbox.RoleBind})
	}
	table, err := fsbridge.NewMountTable(mounts, nil)
	if err != nil {
		return manager.Share{}, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "files", Message: "the daemon serves folders that no sandbox has", Err: err}
	}
	files, err := openFiles(ctx, managerCaller{ctx, c}, api.HandlesPath+"/"+m.Ticket+"/files")
	if err != nil {
		return manager.Share{}, err
	}
	exposed := m.Exposed
	if exposed == nil {
		// The daemon does not report which folders of its machine code inside can write; this may be
		// that machine, so none is trusted.
		exposed = []string{"/"}
	}
	return manager.Share{Bridge: fsbridge.New(table, files, m.Transport), Name: m.Name, Exposed: exposed}, nil
}

// A caller makes requests about files as long as the handle is open.
type managerCaller struct {
	open context.Context
	c    *API
}

// Call makes a request and decodes its answer into out.
func (f managerCaller) Call(ctx context.Context, q Request, out any) error {
	ctx, done := f.within(ctx)
	defer done()
	return f.c.Call(ctx, q, out)
}

// Do makes a request whose answer the caller reads; the caller calls the function after that.
func (f managerCaller) Do(ctx context.Context, q Request) (*http.Response, func(), error) {
	ctx, done := f.within(ctx)
	a, err := f.c.Do(ctx, q)
	if err != nil {
		done()
		return nil, nil, err
	}
	return a, done, nil
}

func (f managerCaller) within(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(f.open, cancel)
	return ctx, func() { stop(); cancel() }
}
