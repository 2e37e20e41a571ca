// This file opens what the daemon listens on: unix sockets that only their user
// can use, TCP, and sockets that systemd passes.

package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
)

const op = "listen"

// maxPath is the longest path of a unix socket that the kernel accepts.
const maxPath = 107

// Lock lets one daemon at a time use a state folder. The kernel releases the
// lock when the process ends. Where another process has it the error is
// [sandbox.CodeBusy].
func Lock(file string) (release func() error, err error) {
	l := flock.New(file, flock.SetPermissions(0o600))
	got, err := l.TryLock()
	switch {
	case err != nil:
		return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Resource: file, Message: "the lock of the daemon cannot be taken", Err: err}
	case !got:
		return nil, &sandbox.Error{Code: sandbox.CodeBusy, Op: op, Resource: filepath.Dir(file), Message: "another daemon serves this state folder", Hint: "end that one first, or name another folder with --state-dir"}
	}
	return l.Unlock, nil
}

// Handed returns the sockets that systemd passed to this process, or none.
func Handed() ([]net.Listener, error) {
	all, err := activation.Listeners()
	if err != nil {
		return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Message: "the sockets that were handed over cannot be used", Err: err}
	}
	var out []net.Listener
	for i, l := range all {
		if l == nil {
			Close(out)
			return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Message: fmt.Sprintf("socket %d of those that were handed over is no stream to listen on", i)}
		}
		out = append(out, l)
	}
	return out, nil
}

// Open listens at the addresses, unix:PATH or tcp:HOST:PORT. When it returns an
// error it has closed all listeners.
func Open(addresses []string) (out []net.Listener, err error) {
	defer func() {
		if err != nil {
			Close(out)
			out = nil
		}
	}()
	for _, a := range addresses {
		network, address, err := parseSocket(a)
		if err != nil {
			return out, err
		}
		var l net.Listener
		if network == "unix" {
			l, err = listenUnix(address)
		} else if l, err = net.Listen(network, address); err != nil {
			err = unavailable(a, err)
		}
		if err != nil {
			return out, err
		}
		out = append(out, l)
	}
	return out, nil
}

// Paths returns the paths of the unix sockets among listeners and addresses.
func Paths(ls []net.Listener, addresses []string) ([]string, error) {
	var out []string
	for _, l := range ls {
		if at := l.Addr().String(); l.Addr().Network() == "unix" && filepath.IsAbs(at) { // else it has no place in the file system
			out = append(out, filepath.Clean(at))
		}
	}
	for _, a := range addresses {
		network, address, err := parseSocket(a)
		if err != nil {
			return nil, err
		}
		if network == "unix" {
			out = append(out, address)
		}
	}
	return out, nil
}

// Close closes listeners, and removes unix sockets.
func Close(ls []net.Listener) {
	for _, l := range ls {
		_ = l.Close() // the error is of no use to any caller
	}
}

// parseSocket parses an address of the command line.
func parseSocket(s string) (network, address string, err error) {
	network, address, ok := strings.Cut(s, ":")
	bad := func(message string) error {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: "listen", Resource: s, Message: message, Hint: "write it like unix:/run/sandbox.sock or tcp:127.0.0.1:8421"}
	}
	switch {
	case !ok || address == "":
		return "", "", bad(strconv.Quote(s) + " is no address")
	case network == "unix" && (!filepath.IsAbs(address) || filepath.Clean(address) != address):
		return "", "", bad("the path is not absolute, or not in its shortest form")
	case network == "unix" && len(address) > maxPath:
		return "", "", bad(fmt.Sprintf("the path has more than %d bytes, which is the most that a socket can have", maxPath))
	case network == "unix":
		return network, address, nil
	case network != "tcp":
		return "", "", bad(strconv.Quote(s) + " begins neither with unix: nor with tcp:")
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" || host == "" {
		return "", "", bad(strconv.Quote(s) + " needs a host and a port")
	}
	return network, address, nil
}

// Loopback reports whether a listener can be reached from this machine alone.
func Loopback(l net.Listener) bool {
	if l.Addr().Network() != "tcp" {
		return true
	}
	at, err := netip.ParseAddrPort(l.Addr().String())
	return err == nil && at.Addr().Unmap().IsLoopback()
}

func unavailable(address string, err error) error {
	e := &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Resource: address, Message: "no program can listen at " + address, Err: err, Hint: "name another address with --listen"}
	if errors.Is(err, unix.EADDRINUSE) {
		e.Code, e.Message = sandbox.CodeBusy, "another program listens at "+address
		e.Hint = "end that program first, or name another address with --listen"
	}
	return e
}

// listenUnix listens at a path that only our user can connect to. It replaces an
// existing socket at which no process listens; any other existing file stays,
// and is an error.
func listenUnix(path string) (net.Listener, error) {
	if err := makeWay(path); err != nil {
		return nil, err
	}
	l, err := bind(path)
	if err != nil {
		return nil, unavailable("unix:"+path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close() // with the error that says why
		return nil, unavailable("unix:"+path, err)
	}
	return l, nil
}

// bind makes the socket under a random name, restricts it to our user and then
// renames it, so that other users can never connect to it.
func bind(path string) (net.Listener, error) {
	fd, err := newSocket()
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	// The mode of a socket's file is that of its descriptor, less the umask.
	if err := unix.Fchmod(fd, 0o600); err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, err
	}
	if err := unix.Listen(fd, unix.SOMAXCONN); err != nil {
		_ = os.Remove(path) // no client has connected to it
		return nil, err
	}
	l, err := net.FileListener(f)
	if err != nil {
		_ = os.Remove(path) // as above
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(true)
	return l, nil
}

// makeWay removes a socket at which no process listens.
func makeWay(path string) error {
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return unavailable("unix:"+path, err)
	case fi.Mode().Type() != fs.ModeSocket:
		return &sandbox.Error{Code: sandbox.CodeBusy, Op: op, Resource: path, Message: "there is something at " + path + ", and it is no socket", Hint: "remove it, or name another path"}
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
		return &sandbox.Error{Code: sandbox.CodeBusy, Op: op, Resource: path, Message: "a program answers at the socket " + path, Hint: "end that program first, or name another path"}
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return unavailable("unix:"+path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unavailable("unix:"+path, err)
	}
	return nil
}
