//go:build !sandbox_front && !sandbox_engine

package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/orchestrator"
	servers "github.com/bulkhead-dev/sandbox/server"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// What the daemon has in the state folder: its socket, and the lock that makes it
// the only one.
const (
	socketName = "daemon.sock"
	lockName   = "daemon.lock"
)

// daemonGCPercent is the usual one, where gcPercent is much more: the daemon
// lives long and waits most of the time, and what it holds counts for each sandbox.
const daemonGCPercent = 100

// Serve implements cli.Backend.
func (b backend) Serve(ctx context.Context, o cli.Options, s cli.Serving) error {
	if l, ok := o.Log.(*logrus.Logger); ok {
		l.SetLevel(max(l.GetLevel(), logrus.InfoLevel)) // a daemon's log is read afterwards
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(daemonGCPercent)
	}
	state, err := orchestrator.OpenState(o.StateDir)
	if err != nil {
		return err
	}
	if s.Until != nil {
		return b.serveEmbedded(ctx, o, s, state)
	}
	unlock, err := servers.Lock(filepath.Join(state.Path(), lockName))
	if err != nil {
		return err
	}
	defer unlock()
	// What an embedded daemon has left behind says that one is ending.
	if err := os.Remove(filepath.Join(state.Path(), leaseName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return statedir.Unavailable("remove the pipe of programs that share a daemon", filepath.Join(state.Path(), leaseName), err)
	}
	return b.serveLocked(ctx, o, s, state)
}

// serveLocked serves while the caller has the lock of the state folder.
func (backend) serveLocked(ctx context.Context, o cli.Options, s cli.Serving, state *statedir.Dir) error {
	d, err := newDaemon(o, s.Version)
	if err != nil {
		return err
	}
	defer d.close()
	for _, file := range s.AdminTokens {
		if err := d.adopt(file); err != nil {
			return err
		}
	}
	listeners, err := d.listen(ctx, state, s.Listen)
	defer func() {
		if err := state.SetListening(nil); err != nil { // a path at which nothing is counts for nothing
			o.Log.WithError(err).Warn("the record of listen addresses stays")
		}
	}()
	if err != nil {
		return err
	}
	defer servers.Close(listeners)
	addresses := []string{}
	for _, l := range listeners {
		at := l.Addr().Network() + ":" + l.Addr().String()
		if !servers.Loopback(l) {
			o.Log.WithField("address", at).Warn("other machines can reach this, and nothing on the way is encrypted: put a proxy with TLS before it")
		}
		addresses = append(addresses, at)
	}
	if err := d.admission.Reconcile(ctx, d.manager); err != nil {
		o.Log.WithError(err).Warn("not every sandbox that there is can be counted; it is tried again each minute")
	}
	s.Ready(addresses)
	return servers.Run(ctx, servers.ServiceOptions{
		Server: d.server, Listeners: listeners, Grace: d.grace, Log: o.Log,
		Hangups: s.Hangups, Reload: d.reload, Loops: d.loops(),
	})
}

// maxTokenFile bounds a file with a token, in bytes.
const maxTokenFile = 1 << 10

// adopt makes the token in a file an admin's, without an end: whoever has given it to
// the daemon takes it back there.
func (d *daemonParts) adopt(file string) error {
	bad := &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "adopt token", Field: "--admin-token", Resource: file, Message: "the file cannot be read"}
	f, err := os.Open(file)
	if err != nil {
		bad.Err = err
		return bad
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxTokenFile))
	if err != nil {
		bad.Err = err
		return bad
	}
	if _, err := d.tokens.Adopt(strings.TrimSpace(string(data)), token.Claims{Role: token.Admin, Note: "of " + filepath.Base(file)}); err != nil {
		bad.Code, bad.Message, bad.Err = sandbox.CodeOf(err), "it holds no token", err
		return bad
	}
	return nil
}

// listen opens the addresses, or else what systemd hands over, or else the
// socket in the state folder. The paths of unix sockets are checked against what
// sandboxes show and recorded before any of them is opened, so that no program
// lets a sandbox have one.
func (d *daemonParts) listen(ctx context.Context, state *statedir.Dir, addresses []string) (all []net.Listener, err error) {
	handed, err := servers.Handed()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			servers.Close(handed)
		}
	}()
	if len(handed) == 0 && len(addresses) == 0 {
		addresses = []string{"unix:" + filepath.Join(state.Path(), socketName)}
	}
	paths, err := servers.Paths(handed, addresses)
	if err != nil {
		return nil, err
	}
	for i, p := range paths {
		if paths[i], err = hostpath.Canonical(p); err != nil {
			return nil, err
		}
		if err := d.manager.CheckListen(ctx, paths[i]); err != nil {
			return nil, err
		}
	}
	if err := state.SetListening(paths); err != nil {
		return nil, err
	}
	opened, err := servers.Open(addresses)
	if err != nil {
		return nil, err
	}
	return append(handed, opened...), nil
}

// settings are those in force, the last good ones where the file cannot be
// taken.
func (d *daemonParts) settings() *config.Settings {
	s, _ := d.orch.Settings() // which the manager tells of
	return s
}

func (d *daemonParts) reload() error {
	_, err := d.orch.Settings()
	return err
}
