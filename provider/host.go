//go:build linux

package provider

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// readyWithin bounds how long a guest may take to answer.
const readyWithin = 10 * time.Second

// A Provider starts guests on the host. Nothing of it outlives a handle, so
// there is nothing to create, list or remove.
type Host struct {
	environ []string
}

// New returns a provider whose commands get what is harmless and needed of
// environ, as of os.Environ: no other variable of ours reaches them.
func NewHost(environ []string) *Host { return &Host{environ: allowed(environ)} }

var _ sandbox.Provider = (*Host)(nil)

// Name implements [sandbox.Provider].
func (*Host) Name() string { return Name }

// Features implements [sandbox.Provider].
func (*Host) Features() sandbox.Features { return sandbox.Features{TTY: true, Shells: true} }

// Inspect implements [sandbox.Provider]: nothing exists between uses.
func (*Host) Inspect(_ context.Context, name string) (sandbox.Info, error) {
	return sandbox.Info{}, &sandbox.Error{Code: sandbox.CodeNotFound, Op: "inspect", Resource: name, Message: "a command on the host has no sandbox"}
}

// Create implements [sandbox.Provider]: it refuses.
func (*Host) Create(_ context.Context, s sandbox.Spec) (sandbox.Info, error) {
	return sandbox.Info{}, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "create", Resource: s.Name, Message: "commands on the host have nothing to create"}
}

// List implements [sandbox.Provider].
func (*Host) List(context.Context, sandbox.Filter) ([]sandbox.Info, error) { return nil, nil }

// Remove implements [sandbox.Provider].
func (*Host) Remove(context.Context, string) error { return nil }

// Open starts a guest that works in the workspace of s. Unlike other providers
// it needs no Create before.
func (p *Host) Open(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	fail := func(message string, err error) error {
		return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "open", Resource: s.Name, Message: message, Err: err}
	}
	ours, theirs, err := pair()
	if err != nil {
		return nil, fail("no connection to a guest can be made", err)
	}
	defer theirs.Close()
	cmd := exec.Command(filepath.Join(s.Guest.Dir, "sandbox-guest"), "init", "--fd=3")
	cmd.Env, cmd.Dir, cmd.ExtraFiles = p.environ, "/", []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		ours.Close()
		return nil, fail("the guest cannot be started", err)
	}
	h := &hostHandle{spec: s, ended: make(chan struct{}), info: sandbox.Info{
		Name: s.Name, Kind: s.Kind, Provider: Name, Owner: s.Owner, Status: sandbox.StatusRunning, PID: cmd.Process.Pid, StartedAt: time.Now(),
	}}
	go func() {
		_ = cmd.Wait() // the connection reports how it ended
		close(h.ended)
	}()
	ready, done := context.WithTimeout(ctx, readyWithin)
	defer done()
	h.guest, err = client.New(ready, ours, client.Options{Name: s.Name})
	if err != nil {
		ours.Close()
		_ = cmd.Process.Kill()
		<-h.ended
		return nil, fail("the guest does not answer", err)
	}
	return h, nil
}

// pair returns the two ends of a connection; theirs is for a child.
func pair() (ours net.Conn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	own := os.NewFile(uintptr(fds[0]), "guest")
	theirs = os.NewFile(uintptr(fds[1]), "client")
	ours, err = net.FileConn(own)
	if err = errors.Join(err, own.Close()); err != nil {
		theirs.Close()
	}
	return ours, theirs, err
}

// allowed keeps the variables that say who and where we are.
func allowed(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return !slices.Contains([]string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR"}, name) && !strings.HasPrefix(name, "LC_")
	})
}

// command is c with what s says for every command, as the host has it.
func command(c sandbox.Command, s sandbox.Spec) (sandbox.Command, error) {
	s.Env = maps.Clone(s.Env)
	if s.Env["HOME"] == sandbox.HomeDir {
		delete(s.Env, "HOME") // there is none here; the user's own holds
	}
	c = Command(c, s)
	var err error
	c.Dir, err = onHost(c.Dir, s)
	return c, err
}

// onHost returns the folder of the host that dir means: what a sandbox would
// mount at or above it, else the folder of that name.
func onHost(dir string, s sandbox.Spec) (string, error) {
	best := sandbox.Mount{}
	for _, m := range s.Mounts {
		visible := m.Role == sandbox.RoleWorkspace || m.Role == sandbox.RoleAgent || m.Role == sandbox.RoleBind
		if visible && (dir == m.Target || strings.HasPrefix(dir, m.Target+"/")) && len(m.Target) > len(best.Target) {
			best = m
		}
	}
	switch {
	case best.Target != "":
		return path.Join(best.Source, strings.TrimPrefix(dir, best.Target)), nil
	case dir == sandbox.WorkspaceDir || strings.HasPrefix(dir, sandbox.WorkspaceDir+"/"):
		return "", &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "start", Resource: dir, Message: "there is no workspace to run in"}
	}
	return dir, nil
}
