package docker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/provider"
)

// Open implements [sandbox.Provider].
func (p *Provider) Open(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	release, err := p.turns.Enter(ctx, s.Name)
	if err != nil {
		return nil, err
	}
	defer release()
	info, err := p.engine.Inspect(ctx, s.Name)
	if err != nil {
		return nil, err
	}
	if info.Format == "" {
		return nil, notOurs("open", s.Name)
	}
	if _, err := info.CheckFormat("open"); err != nil {
		return nil, err
	}
	if !info.Owner.Same(s.Owner) {
		return nil, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "open", Resource: s.Name, Message: "the sandbox of that name belongs to another tenant or scope"}
	}
	info, c, err := p.reach(ctx, info, s)
	if err != nil {
		return nil, err
	}
	err = checkMounted(info, s)
	if err == nil {
		err = provider.MakeReady(ctx, c, s)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return &handle{info: info, spec: s, engine: p.engine, guest: c, p: p}, nil
}

// noticeWithin bounds how long the engine may take to notice that a container
// has ended: some milliseconds at rest, and a second on a busy machine. The
// error for a container that runs and does not serve comes that much later.
// When the container's first process has ended, the engine has until
// Options.Ready expires.
const noticeWithin = 4 * time.Second

// reach makes the container run and connects to its guest. A container that
// has just fallen is still running in the eyes of the engine for a moment;
// one that turns out to have ended is started like any other that is
// stopped, once.
func (p *Provider) reach(ctx context.Context, info sandbox.Info, s sandbox.Spec) (sandbox.Info, *client.Client, error) {
	seen := info.Status
	info, err := p.makeRun(ctx, info, s)
	if err != nil {
		return info, nil, err
	}
	c, err := p.connect(ctx, info, s)
	if err == nil || seen != sandbox.StatusRunning {
		return info, c, err
	}
	now, ended := p.awaitEnd(ctx, info)
	if !ended {
		return info, nil, err
	}
	if info, err = p.makeRun(ctx, now, s); err != nil {
		return info, nil, err
	}
	c, err = p.connect(ctx, info, s)
	return info, c, err
}

// awaitEnd waits until the engine has noticed the end of the container, whose
// guest does not answer, and reports whether it ended. Another client may have
// started it again since.
func (p *Provider) awaitEnd(ctx context.Context, info sandbox.Info) (sandbox.Info, bool) {
	began := time.Now()
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		within := noticeWithin
		if hasEnded(info.PID) {
			within = max(within, p.opts.Ready)
		}
		last := time.Since(began) > within // who answers late was asked in time
		now, err := p.engine.Inspect(ctx, info.ID)
		if err != nil || now.Status != sandbox.StatusRunning {
			return now, err == nil && now.Status == sandbox.StatusStopped
		}
		if now.PID != info.PID {
			return now, true
		}
		if last {
			return now, false
		}
		select {
		case <-ctx.Done():
			return now, false
		case <-time.After(wait):
		}
	}
}

// hasEnded reports whether the process pid has ended, also when its parent does
// not know of that yet: then it has no memory, and so no command line, any more.
// Of an engine whose processes are not those of this machine it means nothing.
func hasEnded(pid int) bool {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return len(line) == 0
}

// makeRun starts a stopped container and thaws a paused one.
func (p *Provider) makeRun(ctx context.Context, info sandbox.Info, s sandbox.Spec) (sandbox.Info, error) {
	switch info.Status {
	case sandbox.StatusRunning:
		return info, nil
	case sandbox.StatusPaused:
		if err := p.Unpause(ctx, info.ID); err != nil { // another client may be unpausing it
			return info, err
		}
	default:
		if err := p.checkNetwork(ctx, info, s); err != nil {
			return info, err
		}
		if err := p.start(ctx, info.ID, s); err != nil {
			return info, err
		}
	}
	return p.engine.Inspect(ctx, info.ID)
}

// start starts the container, with the guest's socket folder open to it. The
// engine resolves the sources of mounts anew at each start, so they are
// judged anew.
func (p *Provider) start(ctx context.Context, id string, s sandbox.Spec) error {
	if err := p.check(s); err != nil {
		return err
	}
	if err := p.openSockets(s); err != nil {
		return err
	}
	if err := p.placeImageFolders(ctx, s); err != nil {
		return err
	}
	if err := p.again(ctx, s.Name); err != nil {
		return err
	}
	return explainStart(p.engine.Start(ctx, id), s)
}

// openSockets makes the folder of the guest's socket, or opens the one that
// is there to the guest.
func (p *Provider) openSockets(s sandbox.Spec) error {
	if p.opts.Sockets == nil || socketDir(s) == "" {
		return nil
	}
	_, err := p.opts.Sockets.SocketDir(s.Name, s.UID, s.GID)
	return err
}

func notOurs(op, name string) error {
	return &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: op, Resource: name, Message: "a container of that name exists that is not ours", Hint: "remove or rename it: docker rename " + name + " other-name"}
}

// unlessRemoved returns err, with which the start of a container failed that
// was just made, unless the engine was removing it by then: nothing is busy to
// which a caller could turn. The words are the only thing by which an engine
// tells that conflict from others.
func unlessRemoved(err error, s sandbox.Spec) error {
	if sandbox.CodeOf(err) != sandbox.CodeBusy || !strings.Contains(err.Error(), "marked for removal") {
		return err
	}
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "create", Resource: s.Name, Retryable: true,
		Message: "the container was removed while it was made", Hint: "create it again", Err: err,
	}
}

// explainStart adds what commonly stands behind a container that does not start.
func explainStart(err error, s sandbox.Spec) error {
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Err == nil || e.Hint != "" {
		return err
	}
	out := *e
	switch text := e.Err.Error(); {
	case strings.Contains(text, "bind source path does not exist"), strings.Contains(text, "no such file or directory") && strings.Contains(text, "mount"):
		out.Message, out.Hint = "a mounted folder is missing", "restore it, or remove the sandbox with: sandbox prune"
	case strings.Contains(text, "network") && strings.Contains(text, "not found"):
		return networkGone(s)
	case strings.Contains(text, "network") && strings.Contains(text, "is ambiguous"):
		out.Code, out.Field, out.Retryable = sandbox.CodeBusy, networkField(s), true
		out.Message = "two networks bear the name"
	case s.Runtime != "" && strings.Contains(text, s.Runtime):
		out.Field, out.Hint = "docker.runtime", "check that the runtime "+s.Runtime+" works on this host: sandbox doctor"
	}
	return &out
}
