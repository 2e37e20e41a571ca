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
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	servers "github.com/bulkhead-dev/sandbox/server"
)

const (
	// leaseName is the named pipe in the state folder that each process of
	// `sandbox serve --embedded` which has joined a daemon holds open for writing.
	leaseName = "daemon.lease"

	joinWithin = 20 * time.Second // how long a daemon that has the lock may take to answer
	joinEvery  = 100 * time.Millisecond
)

// A guestDaemon is the daemon of a program that has started it and whose life it
// shares: it ends when the program closes its standard input, as the kernel does
// when the program is killed. Programs with one state folder share one daemon. It
// ends when the last of them has, since each of the others holds the named pipe
// open, whose reader the daemon is.
type guestDaemon struct {
	folder string
	state  *statedir.Dir
	ended  chan struct{} // closed when the standard input has ended
}

func newGuestDaemon(state *statedir.Dir, input io.Reader) *guestDaemon {
	g := &guestDaemon{folder: state.Path(), state: state, ended: make(chan struct{})}
	go func() {
		defer close(g.ended)
		_, _ = io.Copy(io.Discard, input) // an input that cannot be read has ended
	}()
	return g
}

// lock returns when this process has the lock of the state folder and has to serve.
// While another process has it, that one's daemon is reported to ready as soon as
// it answers. The release function is nil when ctx or the input has ended first.
func (g *guestDaemon) lock(ctx context.Context, file string, ready func([]string)) (release func() error, err error) {
	var lease *os.File
	defer func() {
		if lease != nil {
			lease.Close()
		}
	}()
	joined := ""
	began := time.Now()
	tick := time.NewTicker(joinEvery)
	defer tick.Stop()
	for {
		release, err := servers.Lock(file)
		if sandbox.CodeOf(err) != sandbox.CodeBusy {
			return release, err
		}
		if lease != nil && !isRead(lease) {
			lease.Close()
			lease, joined = nil, ""
		}
		lasts := true // a daemon that is not embedded has no pipe, and lasts without
		if lease == nil {
			lease, err = os.OpenFile(g.pipe(), os.O_WRONLY|syscall.O_NONBLOCK, 0)
			lasts = err == nil || errors.Is(err, fs.ErrNotExist)
		}
		at := ""
		if lasts {
			at = g.answering()
		}
		if lease != nil && !isRead(lease) {
			at = "" // it was ending when the pipe was opened
		}
		switch {
		case at != "" && at != joined:
			joined = at
			ready([]string{"unix:" + at})
		case at != "":
			began = time.Now()
		case time.Since(began) > joinWithin:
			return nil, err
		}
		select {
		case <-tick.C:
		case <-g.ended:
			return nil, nil
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// isRead reports whether a process has the other end of a pipe open.
func isRead(pipe *os.File) bool {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return false
	}
	read := false
	err = raw.Control(func(fd uintptr) {
		events := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		_, failed := unix.Poll(events, 0)
		read = failed == nil && events[0].Revents&(unix.POLLERR|unix.POLLHUP) == 0
	})
	return err == nil && read
}

// answering returns the path of a socket at which the daemon of the state folder
// accepts connections, or nothing.
func (g *guestDaemon) answering() string {
	paths, err := g.state.Listening()
	if err != nil {
		return "" // the daemon is replacing the record, or it is damaged, which the lock reports in the end
	}
	for _, p := range paths {
		if c, err := net.DialTimeout("unix", p, time.Second); err == nil {
			c.Close()
			return p
		}
	}
	return ""
}

func (g *guestDaemon) pipe() string { return filepath.Join(g.folder, leaseName) }

// bind returns a context that ends when the standard input has ended and no other
// process holds the pipe. The process has the lock.
func (g *guestDaemon) bind(ctx context.Context) (context.Context, func(), error) {
	if err := syscall.Mkfifo(g.pipe(), 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, nil, statedir.Unavailable("make the pipe of programs that share a daemon", g.pipe(), err)
	}
	leases, err := os.OpenFile(g.pipe(), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, statedir.Unavailable("open the pipe of programs that share a daemon", g.pipe(), err)
	}
	if fi, err := leases.Stat(); err != nil || fi.Mode().Type() != fs.ModeNamedPipe {
		leases.Close()
		return nil, nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "serve", Resource: g.pipe(), Message: "it is no named pipe", Err: err, Hint: "remove it"}
	}
	ctx, end := context.WithCancel(ctx)
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-g.ended:
		}
		_, _ = io.Copy(io.Discard, leases) // ends when no process has it open, or with Close
		leases.Close()                     // first, so that no process joins a daemon that ends
		end()
	}()
	return ctx, func() { end(); leases.Close() }, nil
}

// serveEmbedded serves until s.Until and the inputs of all others that share the
// daemon have ended.
func (b backend) serveEmbedded(ctx context.Context, o cli.Options, s cli.Serving, state *statedir.Dir) error {
	g := newGuestDaemon(state, s.Until)
	unlock, err := g.lock(ctx, filepath.Join(state.Path(), lockName), s.Ready)
	if err != nil || unlock == nil {
		return err
	}
	defer unlock()
	ctx, release, err := g.bind(ctx)
	if err != nil {
		return err
	}
	defer release()
	return b.serveLocked(ctx, o, s, state)
}
