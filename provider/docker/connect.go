package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// connect opens a session with the guest of the running container info. A
// guest that does not listen yet is waited for until Options.Ready is over; one
// that is there and refuses is not.
func (p *Provider) connect(ctx context.Context, info sandbox.Info, s sandbox.Spec) (*client.Client, error) {
	ctx, done := context.WithTimeout(ctx, p.opts.Ready)
	defer done()
	c, err := p.bothWays(ctx, info, s)
	for isEarly(err) && p.stillRuns(ctx, info) && pause(ctx, betweenTries) {
		c, err = p.bothWays(ctx, info, s)
	}
	if err != nil {
		return nil, p.noGuest(ctx, info, err)
	}
	if socketDir(s) != "" {
		if err := p.seal(s.Name); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// bothWays tries the socket, where there is one, and then the relay.
func (p *Provider) bothWays(ctx context.Context, info sandbox.Info, s sandbox.Spec) (*client.Client, error) {
	var socketErr error
	if dir := socketDir(s); dir != "" {
		c, err := p.overSocket(ctx, info, s, dir)
		if err == nil || ctx.Err() != nil || sandbox.CodeOf(err) == sandbox.CodeBusy {
			return c, err
		}
		socketErr = err
	}
	c, err := p.overRelay(ctx, info)
	if err != nil {
		return nil, errors.Join(socketErr, err)
	}
	return c, nil
}

// betweenTries is the least time between two tries of a guest that does not
// listen yet. A relay waits for some seconds itself.
const betweenTries = 100 * time.Millisecond

// pause waits for d and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// stillRuns reports whether the container runs as it did when info was taken.
func (p *Provider) stillRuns(ctx context.Context, info sandbox.Info) bool {
	now, err := p.engine.Inspect(ctx, info.ID)
	return err == nil && now.Status == sandbox.StatusRunning && now.PID == info.PID
}

// nobodyListens is in what a relay says that has waited for the guest and given
// up because nothing listened there.
const nobodyListens = "connect to the guest: connection refused"

// early is the error of a relay that found no listener.
type early struct{ error }

func (e early) Unwrap() error { return e.error }

func isEarly(err error) bool {
	_, is := errors.AsType[early](err)
	return is
}

// sealedBefore reports whether the folder was last sealed before t. The
// folder's change time is that of the seal: code inside can change nothing
// of a sealed folder.
func sealedBefore(dir string, t time.Time) bool {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return false
	}
	sealed := time.Unix(st.Ctim.Unix())
	return st.Uid == 0 && t.After(sealed)
}

// socketDir is the host folder in which the guest makes its socket, or "" when
// sockets cannot cross the sandbox's boundary.
func socketDir(s sandbox.Spec) string {
	for _, m := range s.Mounts {
		if m.Role == sandbox.RoleSocket {
			return m.Source
		}
	}
	return ""
}

// overSocket dials until the guest answers. The peer must be the
// container's first process: code inside may have put a socket of its own
// in the guest's place, or have removed that one; it can do neither to the
// relay, which is tried next.
func (p *Provider) overSocket(ctx context.Context, info sandbox.Info, s sandbox.Spec, dir string) (*client.Client, error) {
	ctx, done := context.WithTimeout(ctx, p.opts.SocketPatience)
	defer done()
	wait, opened := time.Millisecond, false
	for {
		c, err := dialGuest(ctx, dir, info)
		if err == nil || sandbox.CodeOf(err) == sandbox.CodeUnsupported {
			return c, err
		}
		if !opened && sealedBefore(dir, info.StartedAt) {
			// The guest was restarted behind our back and can listen only
			// while the folder is open to it. No code of a user runs in
			// there yet. At any other time an open folder would let such
			// code fill the host's disk, so it is not opened because a
			// dial fails: the relay is tried instead.
			if err := p.openSockets(s); err != nil {
				return nil, err
			}
			opened = true
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(wait):
			wait = min(2*wait, 50*time.Millisecond)
		}
	}
}

// seal closes the socket's folder to code inside. Without root that cannot
// be done, and the folder is as unbounded as the workspace then is.
func (p *Provider) seal(name string) error {
	if p.opts.Sockets == nil {
		return nil
	}
	err := p.opts.Sockets.SealSocketDir(name)
	if sandbox.CodeOf(err) == sandbox.CodeUnsupported {
		return nil
	}
	return err
}

func dialGuest(ctx context.Context, dir string, info sandbox.Info) (*client.Client, error) {
	conn, pid, err := client.Dial(ctx, dir, "guest.sock")
	if err != nil {
		return nil, err
	}
	if pid != info.PID {
		conn.Close()
		return nil, fmt.Errorf("process %d answers at the guest's socket instead of %d", pid, info.PID)
	}
	return newClient(ctx, conn, client.Options{Name: info.Name, Offer: true})
}

func (p *Provider) overRelay(ctx context.Context, info sandbox.Info) (*client.Client, error) {
	stream, err := p.engine.Exec(ctx, info.ID, []string{sandbox.GuestDir + "/bin/sandbox-guest", "relay"})
	if err != nil {
		return nil, err
	}
	c, err := newClient(ctx, stream, client.Options{Name: info.Name})
	if err != nil {
		if text := stream.Stderr(); text != "" {
			err = fmt.Errorf("%w: relay: %s", err, termsafe.Line(text))
			if strings.Contains(text, nobodyListens) {
				err = early{err}
			}
		}
		return nil, err
	}
	return c, nil
}

func newClient(ctx context.Context, conn io.ReadWriteCloser, o client.Options) (*client.Client, error) {
	c, err := client.New(ctx, conn, o)
	if err != nil {
		conn.Close()
	}
	return c, err
}

// noGuest says why a container that should serve does not, from what the
// engine knows of it now.
func (p *Provider) noGuest(ctx context.Context, info sandbox.Info, cause error) error {
	e := &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "connect to guest", Resource: info.Name, Retryable: true, Err: cause,
		Message: "the guest does not answer", Hint: "start afresh with: sandbox recreate"}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
	defer done()
	now, err := p.engine.Inspect(ctx, info.ID)
	switch {
	case sandbox.IsNotFound(err):
		e.Code, e.Message, e.Hint = sandbox.CodeNotFound, "the container was removed meanwhile", ""
	case err == nil && now.Status == sandbox.StatusStopped:
		e.Message = "the container ended instead of serving"
	case err == nil && now.Status == sandbox.StatusPaused:
		e.Message = "the container was paused meanwhile"
	}
	return e
}
