package manager

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/images/about"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// A Service is a program, such as a database, that runs beside a command. It has a
// sandbox of its own with the isolation of every other, no network, no folder of the
// host and no host that it reaches. Only the command's sandbox reaches it, and only
// at one port: connections to that port of the loopback interface there are passed
// on to the one in the service's sandbox. So no network joins the two, and neither
// has a route. The sandbox is removed when the command has ended.
type Service struct {
	Name    string            // host name by which the command reaches it: a label of DNS in lower case
	Image   string            // empty is the session's image, or the programs of the host with provider local
	Command []string          // empty is what the image runs
	Env     map[string]string // beside that of the image
	Port    int               // at which it listens; 0 is the one port that the image exposes
	Listen  int               // at which the command reaches it; 0 is Port
	Ready   []string          // command that succeeds in the service's sandbox when it is ready; empty is that of the image, or a connection to Port
	Within  time.Duration     // until it is ready; 0 is 2 minutes
}

const (
	opService = "start service"

	readyWithin    = 2 * time.Minute
	readyEvery     = 100 * time.Millisecond
	probeWithin    = 10 * time.Second
	serviceLongest = 30 * 24 * time.Hour // a time limit of the settings is for commands
	serviceTail    = 4 << 10             // bytes of a service's output that an error quotes
	maxServices    = 16
	maxRelayed     = 1024 // connections to one service at a time
)

// beside is between the session of a command and the name of a service in the
// session of the service.
const beside = " service "

// besideOf is the session whose service has the session s, or "".
func besideOf(s string) string {
	session, _, ok := strings.Cut(s, beside)
	if !ok {
		return ""
	}
	return session
}

// ImageProgram is what [Images] may implement too, to let services run what their
// image says.
type ImageProgram interface {
	// Program returns what a container of the image id runs.
	Program(ctx context.Context, id string) (about.Program, error)
}

// checkServices refuses services that cannot be distinguished from each other.
func checkServices(list []Service) error {
	invalid := func(field, message string) error {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: opService, Field: "services" + field, Message: message}
	}
	if len(list) > maxServices {
		return invalid("", fmt.Sprintf("there are %d services; %d are allowed", len(list), maxServices))
	}
	names := map[string]bool{}
	for i, s := range list {
		field := fmt.Sprintf("[%d].", i)
		switch {
		case !isLabel(s.Name) || s.Name == "localhost":
			return invalid(field+"name", strconv.Quote(s.Name)+" is no host name of one label, such as db")
		case names[s.Name]:
			return invalid(field+"name", "two services have the name "+s.Name)
		case s.Port < 0 || s.Port > 65535 || s.Listen < 0 || s.Listen > 65535:
			return invalid(field+"port", "a port is a number from 1 to 65535")
		}
		names[s.Name] = true
		if err := sandbox.CheckEnv(s.Env); err != nil {
			return err
		}
	}
	return nil
}

// isLabel reports whether s is a label of DNS in lower case.
func isLabel(s string) bool {
	return s != "" && len(s) <= 63 && s[0] != '-' && s[len(s)-1] != '-' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && strings.Trim(s, "0123456789") != ""
}

// forService returns the settings of a service's sandbox: those of the session
// without what is meant for its commands. Its egress session is never opened.
func forService(res config.Resolved) config.Resolved {
	res.Docker.Binds, res.Docker.Setup, res.Docker.OnStart, res.Docker.ExtraHosts = nil, nil, nil, nil
	res.Docker.Network = "none"
	return res
}

// A running is a service that was started.
type running struct {
	Service
	m      *Manager
	req    Request
	stop   context.CancelFunc
	box    sandbox.Sandbox // readable once up is closed
	up     chan struct{}   // closed when its sandbox is there
	ended  chan struct{}   // closed when it has ended, and its sandbox is released
	err    error           // why; readable once ended is closed
	output lastOutput
	locks  []*keylock.Lock
}

// startServices starts the services of req beside l and returns when all are ready.
// stop ends them and returns when they have ended.
func (m *Manager) startServices(ctx context.Context, l *acquired, req *Request) (stop func(), err error) {
	if len(req.Services) == 0 {
		return func() {}, nil
	}
	inside, ok := l.Sandbox.(sandbox.Listener)
	if !ok || l.handle == nil {
		return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: opService, Field: "services", Message: "the command runs in no sandbox that services can be reached from"}
	}
	var undo []func()
	endAll := func() {
		var wait sync.WaitGroup
		for _, f := range slices.Backward(undo) {
			wait.Go(f)
		}
		wait.Wait()
	}
	defer func() {
		if err != nil {
			endAll()
		}
	}()
	var all []*running
	for _, s := range req.Services {
		r, err := m.startService(ctx, l, *req, s)
		if err != nil {
			return nil, err
		}
		undo = append(undo, r.end)
		all = append(all, r)
	}
	names := map[string][]netip.Addr{}
	taken := map[int]string{}
	for _, r := range all {
		if err := r.awaitReady(ctx); err != nil {
			return nil, err
		}
		if other, twice := taken[r.Listen]; twice {
			return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: opService, Field: "services", Resource: r.Name,
				Message: fmt.Sprintf("the services %s and %s are both reached at port %d", other, r.Name, r.Listen), Hint: "give one another port, as in port=15432:5432"}
		}
		taken[r.Listen] = r.Name
		closeAll, err := r.listen(ctx, inside)
		if err != nil {
			return nil, err
		}
		undo = append(undo, closeAll)
		names[r.Name] = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	}
	if path := hostsFile(l.spec); path != "" {
		forget, err := statedir.AddHosts(path, names)
		if err != nil {
			return nil, err
		}
		undo = append(undo, forget)
	} else {
		m.log.WithField("sandbox", l.name()).Warn("the names of services do not resolve inside: reach them at 127.0.0.1")
	}
	return endAll, nil
}

// startService begins to make the sandbox of a service, and to run it there.
func (m *Manager) startService(ctx context.Context, l *acquired, main Request, s Service) (*running, error) {
	who := main.Who
	who.Session = cmpSession(l, who.Session) + beside + s.Name
	scope, access := sandbox.ScopeSession, sandbox.AccessNone
	layer := &config.SandboxSettings{Scope: &scope, WorkspaceAccess: &access, Docker: &config.DockerSettings{}}
	if main.Flags != nil {
		layer.Provider = main.Flags.Provider
		if main.Flags.Docker != nil {
			layer.Docker.Image = main.Flags.Docker.Image
		}
	}
	if s.Image != "" {
		layer.Docker.Image = &s.Image
	}
	r := &running{Service: s, m: m, up: make(chan struct{}), ended: make(chan struct{})}
	r.req = Request{
		Who: who, Flags: layer, Remove: true, Timeout: serviceLongest, service: true,
		Command: sandbox.Command{Args: s.Command, Env: s.Env, Grace: 10 * time.Second},
	}
	name, err := m.Name(who, layer)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(name))
	lock, err := m.leases.TryEnsure("service-" + hex.EncodeToString(sum[:16]))
	if sandbox.CodeOf(err) == sandbox.CodeBusy {
		return nil, &sandbox.Error{Code: sandbox.CodeBusy, Op: opService, Resource: s.Name, Message: "another command of the session has the service " + s.Name, Hint: "wait for its end, or use another --session"}
	}
	if err != nil {
		return nil, err
	}
	r.locks = append(r.locks, lock)
	if err := r.complete(ctx, l); err != nil {
		lock.Release()
		return nil, err
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stop = stop
	go r.run(life)
	return r, nil
}

// cmpSession is the session of l, which is that of the request unless it has none.
func cmpSession(l *acquired, session string) string {
	if session == "" {
		return l.spec.Owner.Session
	}
	return session
}

// complete fills in what the image says of the service.
func (r *running) complete(ctx context.Context, l *acquired) error {
	missing := func(field, what string) error {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: opService, Field: "services." + r.Name + "." + field, Resource: r.Name, Message: what}
	}
	if p := l.provider; p.Features().Images && r.Image != "" {
		source := r.m.imagesOf(p)
		id, err := source.Ensure(ctx, r.Image, nil)
		if err != nil {
			return err
		}
		able, ok := source.(ImageProgram)
		if !ok {
			return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: opService, Resource: r.Name, Message: "the provider " + p.Name() + " does not say what an image runs"}
		}
		program, err := able.Program(ctx, id)
		if err != nil {
			return err
		}
		env := program.Env
		maps.Copy(env, r.Env)
		r.req.Command.Env = env
		if len(r.Command) == 0 {
			r.req.Command.Args, r.req.Command.Dir = program.Args, program.Dir
			if len(r.Ready) == 0 {
				r.Ready = program.Health
			}
		}
		if r.Port == 0 && len(program.Ports) == 1 {
			r.Port = program.Ports[0]
		}
	}
	switch {
	case len(r.req.Command.Args) == 0:
		return missing("command", "the service "+r.Name+" has no command: the image says none")
	case r.Port == 0:
		return missing("port", "the service "+r.Name+" has no port: the image does not expose exactly one")
	}
	if r.Listen == 0 {
		r.Listen = r.Port
	}
	return nil
}

// run runs the service until life ends.
func (r *running) run(life context.Context) {
	defer close(r.ended)
	req := r.req
	req.Command.Stdout, req.Command.Stderr = &r.output, &r.output
	r.err = r.m.pipeline(req, callOf(req)).run(life, func(l *acquired) error {
		if l.handle == nil {
			return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: opService, Resource: r.Name, Message: "the settings give the service no sandbox"}
		}
		r.box = l.Sandbox
		close(r.up)
		out, err := r.m.executor.run(life, l, req)
		if err == nil && life.Err() == nil {
			err = &sandbox.Error{Code: sandbox.CodeExecution, Op: opService, Resource: r.Name, Message: fmt.Sprintf("the service %s has ended with status %d%s", r.Name, out.Exit.Code, r.output.quote())}
		}
		return err
	})
}

// end ends the service and waits for that.
func (r *running) end() {
	r.stop()
	<-r.ended
	for _, l := range r.locks {
		l.Release()
	}
	select {
	case <-r.up:
	default:
		return // why it did not begin is the error of the call
	}
	var e *sandbox.Error
	if r.err != nil && !(errors.As(r.err, &e) && e.Code == sandbox.CodeExecution) {
		r.m.log.WithError(r.err).WithField("service", r.Name).Warn("the service was not ended properly")
	}
}

// awaitReady returns when the service is ready, or an error.
func (r *running) awaitReady(ctx context.Context) error {
	within := r.Within
	if within <= 0 {
		within = readyWithin
	}
	ctx, done := context.WithTimeout(ctx, within)
	defer done()
	late := func() error {
		return &sandbox.Error{Code: sandbox.CodeTimeout, Op: opService, Resource: r.Name, Message: fmt.Sprintf("the service %s is not ready after %s%s", r.Name, within, r.output.quote())}
	}
	select {
	case <-r.up:
	case <-r.ended:
		return r.err
	case <-ctx.Done():
		return late()
	}
	for {
		if r.isReady(ctx) {
			return nil
		}
		select {
		case <-r.ended:
			return r.err
		case <-ctx.Done():
			return late()
		case <-time.After(readyEvery):
		}
	}
}

// isReady asks once.
func (r *running) isReady(ctx context.Context) bool {
	ctx, done := context.WithTimeout(ctx, probeWithin)
	defer done()
	conn, err := DialPortOf(ctx, r.box, r.Port)
	if err != nil {
		return false
	}
	conn.Close()
	if len(r.Ready) == 0 {
		return true
	}
	p, err := r.box.Start(ctx, sandbox.Command{Args: r.Ready, Env: r.req.Command.Env, Dir: r.req.Command.Dir, Stdout: io.Discard, Stderr: io.Discard})
	if err != nil {
		return false
	}
	exit, err := p.Wait()
	return err == nil && exit.Code == 0
}

// listen passes connections to the service's port inside the command's sandbox on to
// the service. closeAll ends them.
func (r *running) listen(ctx context.Context, inside sandbox.Listener) (closeAll func(), err error) {
	ln, err := inside.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(r.Listen)))
	if err != nil {
		return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: opService, Resource: r.Name, Err: err,
			Message: fmt.Sprintf("the service %s cannot be reached at port %d of the command's sandbox", r.Name, r.Listen), Hint: fmt.Sprintf("give it another port there, as in port=%d:%d", 10000+r.Listen%10000, r.Port)}
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	var open sync.WaitGroup
	room := make(chan struct{}, maxRelayed)
	open.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			select {
			case room <- struct{}{}:
			default:
				conn.Close()
				continue
			}
			open.Go(func() {
				defer func() { <-room }()
				r.relay(life, conn)
			})
		}
	})
	return func() {
		ln.Close()
		stop()
		open.Wait()
	}, nil
}

// relay connects conn with the service until one of them ends.
func (r *running) relay(life context.Context, conn net.Conn) {
	defer conn.Close()
	to, err := DialPortOf(life, r.box, r.Port)
	if err != nil {
		return
	}
	defer to.Close()
	defer context.AfterFunc(life, func() { conn.Close(); to.Close() })()
	var both sync.WaitGroup
	pass := func(dst, src net.Conn) {
		_, err := io.Copy(dst, src)
		half, able := dst.(interface{ CloseWrite() error })
		if err != nil || !able || half.CloseWrite() != nil {
			dst.Close()
			src.Close()
		}
	}
	both.Go(func() { pass(to, conn) })
	both.Go(func() { pass(conn, to) })
	both.Wait()
}

// A lastOutput keeps the end of what was written to it. It is safe for concurrent use.
type lastOutput struct {
	mu   sync.Mutex
	data []byte
}

// Write implements [io.Writer].
func (t *lastOutput) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p[max(0, len(p)-serviceTail):]...)
	if over := len(t.data) - serviceTail; over > 0 {
		t.data = append(t.data[:0], t.data[over:]...)
	}
	return len(p), nil
}

// quote returns the last lines for an error, or "".
func (t *lastOutput) quote() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for line := range strings.Lines(string(t.data)) {
		lines = append(lines, termsafe.Line(strings.TrimSuffix(line, "\n")))
	}
	if len(lines) == 0 {
		return ""
	}
	return ":\n" + strings.Join(lines[max(0, len(lines)-10):], "\n")
}
