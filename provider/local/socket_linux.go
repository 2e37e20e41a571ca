package local

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/server"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider/local/hostscan"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

const (
	// maxRelayed bounds the connections to sockets of the host that one instance
	// has at once; further ones wait inside.
	maxRelayed = 64
	// reachWithin bounds how long a socket of the host may take to answer.
	reachWithin = 10 * time.Second
)

// A relay brings connections that are made inside an instance to sockets of the
// host that settings list. The guest listens inside at the socket's path;
// nothing of the host's file system is shown for it, and descriptors and
// credentials do not cross: the service sees us as its peer.
type relay struct {
	c     *client.Client
	name  string // of the sandbox
	warn  func(name, warning string)
	world func() hardening.World
	slots chan struct{} // holds a token for each connection
	stop  context.Context
	over  context.CancelFunc
	wg    sync.WaitGroup
}

// relaySockets has the guest listen at the sockets of the plan.
func (w *instance) relaySockets(ctx context.Context, spec sandbox.Spec) error {
	if len(w.sockets) == 0 {
		return nil
	}
	c, err := w.Connect(ctx, client.Options{Name: spec.Name})
	if err != nil {
		return err
	}
	r := &relay{c: c, name: spec.Name, warn: w.site.p.o.Warn, world: w.site.p.o.World, slots: make(chan struct{}, maxRelayed)}
	r.stop, r.over = context.WithCancel(context.Background())
	for _, s := range w.sockets {
		l, err := c.Listen(ctx, "unix", s)
		if err != nil {
			r.close()
			e := sandbox.Errorf(sandbox.CodeUnavailable, "start", "the guest cannot listen in the place of a socket: %w", err)
			e.Field, e.Resource = "filesystem.allowUnixSockets", s
			return e
		}
		r.wg.Go(func() { r.serve(l, s) })
	}
	w.relay = r
	return nil
}

// close ends every connection and returns when that is done.
func (r *relay) close() {
	if r == nil {
		return
	}
	r.over()
	r.c.Close()
	r.wg.Wait()
}

// serve brings what connects to l to the socket at path.
func (r *relay) serve(l net.Listener, path string) {
	var reported sync.Once
	for {
		select {
		case r.slots <- struct{}{}:
		case <-r.stop.Done():
			return
		}
		inside, err := l.Accept()
		if err != nil {
			<-r.slots
			return // the instance has ended, or we have
		}
		r.wg.Go(func() {
			defer func() { <-r.slots }()
			defer inside.Close()
			outside, err := reachSocket(r.stop, path, r.world().Listening)
			if err != nil {
				reported.Do(func() { r.warn(r.name, "cannot reach the socket "+strconv.Quote(path)+": "+err.Error()) })
				return
			}
			defer outside.Close()
			defer context.AfterFunc(r.stop, func() { outside.Close(); inside.Close() })()
			join(inside, outside)
		})
	}
}

// join copies between two connections until both directions have ended.
func join(a, b net.Conn) {
	var wg sync.WaitGroup
	oneWay := func(to, from net.Conn) {
		if _, err := io.Copy(to, from); err != nil {
			// Half of a broken connection is of no use to anybody.
			to.Close()
			from.Close()
			return
		}
		if w, ok := to.(interface{ CloseWrite() error }); ok {
			_ = w.CloseWrite() // it has ended already where that fails
		}
	}
	wg.Go(func() { oneWay(a, b) })
	wg.Go(func() { oneWay(b, a) })
	wg.Wait()
}

// reachSocket connects to the socket at path, to which no part of path leads
// by a link.
func reachSocket(ctx context.Context, path string, closed []string) (net.Conn, error) {
	fd, err := openSocket(path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := notOurs(fd, closed); err != nil {
		return nil, err
	}
	ctx, done := context.WithTimeout(ctx, reachWithin)
	defer done()
	var d net.Dialer
	return d.DialContext(ctx, "unix", "/proc/self/fd/"+strconv.Itoa(fd))
}

// notOurs refuses the socket of fd where it is one of those at which a daemon
// listens, by whatever name: whoever connects from here is its administrator.
func notOurs(fd int, closed []string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	for _, p := range closed {
		var of unix.Stat_t
		err := unix.Stat(p, &of)
		if err == nil && of.Dev == st.Dev && of.Ino == st.Ino {
			return errors.New("the daemon listens there")
		}
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}

// socketNotes say what has become of the listed sockets.
func socketNotes(listed, there []string) []string {
	var out []string
	for _, s := range listed {
		note := "filesystem.allowUnixSockets: " + strconv.Quote(s) + " is not there, so commands cannot reach it"
		if slices.Contains(there, s) {
			note = "filesystem.allowUnixSockets: " + strconv.Quote(s) + " is reached through the guest; its service sees the user that runs us"
		}
		out = append(out, note)
	}
	return out
}

// errNoSocket says that there is something else at the path.
var errNoSocket = errors.New("it is no socket")

// openSocket returns a descriptor of the socket at p that only names it.
func openSocket(p string) (int, error) {
	dir, err := hostpath.Folder(path.Dir(p), hostpath.PathOnly)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	fd := -1
	err = hostpath.Retry(func() (err error) {
		fd, err = unix.Openat(dir, path.Base(p), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		err = errNoSocket
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			err = syscall.ELOOP
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// standing returns those of the listed sockets that are there now. What is
// not there, and what we may not look at, is left out; anything but a socket
// is an error, and so is one that a link leads to.
func standing(listed []string) ([]string, error) {
	var out []string
	for _, p := range listed {
		fd, err := openSocket(p)
		switch {
		case err == nil:
			unix.Close(fd)
			out = append(out, p)
		case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		default:
			message := "it cannot be reached: " + err.Error()
			switch {
			case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENOTDIR):
				message = "a link leads to it, or something on its way is no folder"
			case errors.Is(err, errNoSocket):
				message = "it is no socket"
			}
			return nil, &sandbox.Error{
				Code: sandbox.CodeCapabilityBlocked, Op: "plan", Field: "filesystem.allowUnixSockets", Resource: p, Message: message,
				Hint: "list the path of the socket itself, without links", Err: err,
			}
		}
	}
	return out, nil
}

// ownSockets reports whether commands get Unix sockets of their own, of which
// the guest makes each connection, to those of the sandbox alone. Where settings
// list sockets of the host commands get sockets without that, and masks close
// all others.
func ownSockets(spec sandbox.Spec, set settings) bool {
	return set.observe && !set.withoutSeccomp && len(spec.Filesystem.AllowUnixSockets) == 0 && canJudgeSockets()
}

// canJudgeSockets reports whether this kernel lets the guest take a socket out
// of a process of its user, and says at which file a Unix socket listens.
func canJudgeSockets() bool {
	if b, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); err == nil && len(b) > 0 && b[0] >= '2' {
		return false
	}
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return false
	}
	defer unix.Close(self)
	fd, err := unix.PidfdGetfd(self, self, 0)
	if err != nil {
		return false
	}
	unix.Close(fd)
	_, err = server.Listens(0, 0)
	return err == nil
}

// connects reports whether there is a socket of the host that commands may
// connect to, so that they get Unix sockets of their own.
func (p planned) connects() bool {
	return len(p.sockets) > 0 || slices.ContainsFunc(p.world.Views, func(v plan.View) bool {
		return v.Socket && p.world.Kinds[v.Source] == plan.Socket
	})
}

// searchSockets finds which of the listed sockets are there. Where there are
// any, commands can make Unix sockets, and so every other one that the instance
// shows has to be closed.
func (p *planner) searchSockets(ctx context.Context, now *seen) (err error) {
	if len(p.spec.Filesystem.AllowUnixSockets) == 0 {
		return nil
	}
	if now.sockets, err = standing(p.picture.Sockets); err != nil {
		return err
	}
	now.system, err = p.site.sockets.Scan(ctx, hostscan.Request{Roots: hostscan.SocketRoots(p.picture.World.Views)})
	return err
}

// closedNow are the denies of what was found. A socket that settings name is
// none; a rule that closes it counts all the same. Neither is one that only
// holds the place of what protection closes, nor is any where each connection
// is judged: it would close the sandbox's own.
func closedNow(found hostscan.Result, s sandbox.Spec, protection []plan.Deny, judged bool) []plan.Deny {
	ours := func(p string) bool {
		return slices.ContainsFunc(protection, func(d plan.Deny) bool { return d.Socket && d.Path == p })
	}
	return slices.DeleteFunc(hostscan.Viewed(s, found.Denies()), func(d plan.Deny) bool {
		return d.Rule == hostscan.RuleSocket && (judged || slices.Contains(s.Filesystem.AllowUnixSockets, d.Path) || ours(d.Path))
	})
}
