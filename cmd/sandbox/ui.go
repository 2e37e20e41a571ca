//go:build !sandbox_front && !sandbox_engine

package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/orchestrator"
	"github.com/bulkhead-dev/sandbox/sdk"
	"github.com/bulkhead-dev/sandbox/server/console"
)

// Console implements cli.Backend.
func (backend) Console(o cli.Options) (cli.ConsoleStore, func(), error) {
	h := o.Host
	if !h.Remote() {
		socket, err := daemonSocket(o)
		if err != nil {
			return nil, nil, err
		}
		h.Address = "unix:" + socket
	}
	c, err := sdk.NewAPI(h.Address, sdk.APIOptions{Token: h.Token})
	if err != nil {
		return nil, nil, err
	}
	return consoles{c, h.Address}, func() { c.Close() }, nil
}

// daemonSocket returns the socket of the daemon of the state folder.
func daemonSocket(o cli.Options) (string, error) {
	state, err := orchestrator.OpenState(o.StateDir)
	if err != nil {
		return "", err
	}
	paths, err := state.Listening()
	if err != nil {
		return "", err
	}
	for _, path := range append(paths, filepath.Join(state.Path(), socketName)) {
		if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
			return path, nil
		}
	}
	return "", &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "ui", Field: "server", Message: "no daemon listens at a socket of the state folder", Hint: "start one (sandbox serve), or name one with --server",
	}
}

// consoles makes links to the console of the daemon at an address.
type consoles struct {
	c       *sdk.API
	address string
}

// Open implements cli.ConsoleStore.
func (s consoles) Open(ctx context.Context, readOnly bool, port int) (cli.ConsoleAccess, error) {
	kind, rest, _ := strings.Cut(s.address, ":")
	base := s.address
	var at cli.ConsoleAccess
	switch kind {
	case "unix":
		socket := strings.TrimPrefix(rest, "//")
		relay, err := console.NewRelay(ctx, port, func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		})
		if err != nil {
			return at, err
		}
		base, at.Serve = "http://"+relay.Address(), relay.Serve
	case "tcp":
		base = "http://" + strings.TrimPrefix(rest, "//")
	}
	link, err := s.c.CreateConsoleLink(ctx, readOnly)
	if err != nil {
		return cli.ConsoleAccess{}, err
	}
	at.URL, at.Expires = strings.TrimSuffix(base, "/")+link.Path, link.Expires
	return at, nil
}
