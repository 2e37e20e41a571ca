//go:build linux

package manager_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// held is a host that begins an answer and never ends it.
const held = "held.test"

// A fort is an outward rig that can be attacked from all sides.
type fort struct {
	*outward
	rig  *rig   // nil without an engine
	kind string // docker, relay or local
	name string // of the sandbox, which exists

	mu     sync.Mutex
	active int // answers that held has under way
	polls  int // pollers that there were
	came   int // the latest try of the last of them that a server has seen
}

// onForts runs a test on both kinds of sandboxes, and with "make test-all" on
// containers that are reached through a relay. TestClosedFromOutside and
// TestEgressBelongsToItsSandbox reach them so in every run.
func onForts(t *testing.T, test func(*fort), prepare ...func(*fort, *statedir.Dir)) {
	for _, kind := range []string{"docker", "relay", "local"} {
		t.Run(kind, func(t *testing.T) {
			if kind == "relay" && !slices.Contains([]string{"TestClosedFromOutside", "TestEgressBelongsToItsSandbox"}, testOf(t)) {
				testenv.Exhaustive(t, "another way to the guest of a container")
			}
			test(newFort(t, kind, prepare...))
		})
	}
}

// testOf returns the name of the test that t is a subtest of.
func testOf(t *testing.T) string {
	name, _, _ := strings.Cut(t.Name(), "/")
	return name
}

func newFort(t *testing.T, kind string, prepare ...func(*fort, *statedir.Dir)) *fort {
	f := emptyFort(t, kind, prepare...)
	f.begin()
	return f
}

// part runs a part of the test in the same sandbox, out of which no part leaves a
// way. Where nothing runs beside the test, before is the load when there was none.
func (f *fort) part(name string, before *load, test func()) {
	outer := f.t
	passed := outer.Run(name, func(t *testing.T) {
		f.t = t
		defer func() { f.t = outer }()
		f.reload(testenv.Files, held)
		test()
		f.nothingUnderWay()
		f.CloseEgress()
		if before != nil {
			f.left(*before)
		}
	})
	if !passed {
		outer.FailNow() // the next part would begin with what this one has left
	}
}

// emptyFort is newFort without a sandbox.
func emptyFort(t *testing.T, kind string, prepare ...func(*fort, *statedir.Dir)) *fort {
	f := &fort{kind: kind, outward: &outward{t: t, net: testenv.NewInternet(t), who: who("s")}}
	f.net.Handle(held, http.HandlerFunc(f.hold))
	f.net.Watch(f.see)
	open := func(opts *manager.Options, state *statedir.Dir) {
		for _, p := range prepare {
			p(f, state)
		}
		f.open(opts, state)
	}
	if kind == "local" {
		f.Manager = newSandboxed(t, open).Manager
		return f
	}
	f.rig = newRig(t)
	if kind == "relay" {
		// Code inside cannot do this; it is how an engine elsewhere looks.
		m := f.rig.manager("")
		_, o := mustRun(t, m, "s", "true")
		must(t, m.Close())
		must(t, os.Remove(filepath.Join(f.rig.state.SocketPath(o.Name), "guest.sock")))
		f.rig.socket = 50 * time.Millisecond // nothing will listen there, and each command would wait for it
	}
	if kind == "docker" {
		// A relay in its place would pass no listener. A guest that was restarted
		// behind our back never listens, and is waited for so long.
		f.rig.socket = 15 * time.Second
	}
	f.rig.change = func(opts *manager.Options) { open(opts, f.rig.state) }
	f.Manager = f.rig.manager("")
	return f
}

// begin makes the sandbox, which may reach the usual host and the one that
// holds what it answers.
func (f *fort) begin() {
	f.reload(testenv.Files, held)
	f.withSandbox(func(sb sandbox.Sandbox) { f.name = sb.Info().Name })
}

// withSandbox hands the sandbox to fn.
func (f *fort) withSandbox(fn func(sandbox.Sandbox)) {
	f.t.Helper()
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	must(f.t, f.WithSandbox(ctx, manager.Request{Who: f.who}, func(sb sandbox.Sandbox, _ sandbox.Spec) error {
		fn(sb)
		return nil
	}))
}

func (f *fort) hold(w http.ResponseWriter, r *http.Request) {
	f.add(1)
	defer f.add(-1)
	w.WriteHeader(http.StatusOK)
	http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// see notes which try of the last poller a request is of.
func (f *fort) see(r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := r.URL.Query()
	if n, err := strconv.Atoi(q.Get("try")); err == nil && q.Get("poll") == strconv.Itoa(f.polls) {
		f.came = max(f.came, n)
	}
}

// latest returns the latest try of the last poller that a server has seen.
func (f *fort) latest() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.came
}

func (f *fort) add(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active += n
}

// held returns how many answers are under way that never end by themselves.
func (f *fort) heldNow() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.active
}

// reload puts settings in force that let the names be reached.
func (f *fort) reload(names ...string) {
	f.t.Helper()
	f.reloadWith(func(s *config.SandboxSettings) { s.Network = f.allowing(names...).Network })
}

func (f *fort) reloadWith(change func(*config.SandboxSettings)) {
	f.t.Helper()
	provider := "docker"
	if f.kind == "local" {
		provider = "local"
	}
	s := config.SandboxSettings{Provider: &provider}
	change(&s)
	f.Reload(&config.Settings{Agents: &config.Agents{Defaults: &config.AgentDefaults{Sandbox: &s}}})
}

// A poller is a command that fetches a file again and again, with an answer
// of held beside it, and tells the status of each try; 000 is none. Tries have
// numbers, which begin with one. A fort has one poller at a time.
type poller struct {
	f    *fort
	stop context.CancelFunc
	done chan struct{}
	err  error // of Run, after done

	mu    sync.Mutex
	part  []byte
	codes []string
}

// poll starts a poller of files.test, and waits until it gets through.
func (f *fort) poll() *poller { return f.pollWith("-w '%{http_code}\\n'") }

// pollTunnels is poll with a CONNECT for each try, whose status counts.
func (f *fort) pollTunnels() *poller { return f.pollWith("-p -w '%{http_connect}\\n'") }

func (f *fort) pollWith(options string) *poller {
	f.t.Helper()
	f.mu.Lock()
	f.polls, f.came = f.polls+1, 0
	poll := f.polls
	f.mu.Unlock()
	url := "'" + f.net.URL("http", testenv.Files, fmt.Sprintf("/greeting.txt?poll=%d&try=", poll)) + "'$i"
	line := `echo "$HTTP_PROXY" > proxy; ` + "curl -sN -o /dev/null --max-time 300 '" + f.net.URL("http", held, "/") + `' & i=0
while [ $i -lt 20000 ]; do i=$((i+1)); curl -s -o /dev/null --max-time 30 ` + options + " " + url + `; done`
	p, before := &poller{f: f, done: make(chan struct{})}, f.listeners()
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Minute)
	p.stop = stop
	req := manager.Request{Who: f.who, Command: sandbox.Command{Args: []string{"sh", "-c", line}, Stdout: p}}
	go func() {
		defer close(p.done)
		defer stop()
		_, p.err = f.Run(ctx, req)
	}()
	f.t.Cleanup(p.end)
	p.next(3, "200")
	f.within("a server sees the tries", func() bool { return f.latest() > 0 })
	f.within("an answer is under way", func() bool { return f.heldNow() > 0 })
	// Others that run beside this may close theirs.
	passed := slices.ContainsFunc(f.listeners(), func(l string) bool { return !slices.Contains(before, l) })
	if passed != (f.kind != "relay") {
		f.t.Fatalf("the listener inside is a socket of ours: %v", passed)
	}
	return p
}

// Write implements io.Writer.
func (p *poller) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.part = append(p.part, b...)
	for {
		line, rest, ok := bytes.Cut(p.part, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		p.codes, p.part = append(p.codes, string(line)), rest
	}
}

func (p *poller) tries() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.codes[:len(p.codes):len(p.codes)]
}

// next waits until the last n tries, all from now on, had the status.
func (p *poller) next(n int, code string) {
	p.f.t.Helper()
	from := len(p.tries())
	p.f.within(strconv.Itoa(n)+" tries with "+code, func() bool {
		c := p.tries()
		if len(c) < from+n {
			select {
			case <-p.done:
				p.f.t.Fatalf("the command has ended: %v", p.err)
			default:
			}
			return false
		}
		for _, got := range c[len(c)-n:] {
			if got != code {
				return false
			}
		}
		return true
	})
}

// end ends the command and waits for that.
func (p *poller) end() {
	p.stop()
	<-p.done
}

// ended waits for the end of the command.
func (p *poller) ended() {
	p.f.t.Helper()
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		p.f.t.Fatal("the command does not end")
	}
}

// shut holds that nothing passes any more: ten tries have the status, no
// server has seen any of them, and what was under way is over.
func (p *poller) shut(code string) {
	p.f.t.Helper()
	p.refused(10, code)
	p.f.nothingUnderWay()
}

// refused waits until the last n tries had the status, and checks that no
// server has seen the last n-1 of them, which began after the status had
// changed. The result of a try that was under way before may arrive late.
func (p *poller) refused(n int, code string) {
	p.f.t.Helper()
	p.next(2, code)
	from := len(p.tries())
	p.next(n-2, code)
	if came := p.f.latest(); came >= from {
		p.f.t.Errorf("the try %d came through; there was no way out from %d on", came, from)
	}
}

func (f *fort) nothingUnderWay() {
	f.t.Helper()
	f.within("what was under way ends", func() bool { return f.heldNow() == 0 })
}

// within waits for what has to come.
func (f *fort) within(what string, ok func() bool) {
	f.t.Helper()
	testenv.Until(f.t, what, ok)
}

// A load is what this process has open for ways out.
type load struct{ listeners, goroutines int }

// listeners names the listening sockets of this process, of whatever network.
func (f *fort) listeners() (names []string) {
	f.t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(f.t, err)
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		must(f.t, err)
		if on, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || on == 0 {
			continue
		}
		if name, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil { // else it is closed by now
			names = append(names, name)
		}
	}
	return names
}

// load counts the listening sockets of this process and the goroutines that
// serve a way out.
func (f *fort) load() (l load) {
	f.t.Helper()
	l.listeners = len(f.listeners())
	stacks := make([]byte, 8<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for _, g := range strings.Split(string(stacks), "\n\n") {
		for _, of := range []string{"egress.(*", "egress.pump", "egress.dial"} {
			if strings.Contains(g, "sandbox/"+of) {
				l.goroutines++
				break
			}
		}
	}
	return l
}

// left holds that nothing is left of a way out beyond what there was before.
func (f *fort) left(before load) {
	f.t.Helper()
	testenv.Success(f.t, func() error {
		if now := f.load(); now.listeners > before.listeners || now.goroutines > before.goroutines {
			stacks := make([]byte, 1<<20)
			return fmt.Errorf("left %+v, there was %+v\n%s", now, before, stacks[:runtime.Stack(stacks, true)])
		}
		return nil
	})
}

// again holds that the next command reaches what it may, and nothing else.
func (f *fort) again() {
	f.t.Helper()
	if got := f.fetch(nil, testenv.Files, "/greeting.txt"); !strings.HasPrefix(got, "HTTP/1.1 200") {
		f.t.Errorf("afterwards: %s", got)
	}
	before := f.net.Hits(testenv.Other)
	if got := f.fetch(nil, testenv.Other, "/greeting.txt"); !strings.HasPrefix(got, "HTTP/1.1 403") || f.net.Hits(testenv.Other) != before {
		f.t.Errorf("afterwards, another host: %s", got)
	}
}

// refusesToRun holds that the next command does not even start.
func (f *fort) refusesToRun(code sandbox.Code) {
	f.t.Helper()
	r, err := f.try(nil, "echo ran")
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != code || len(r.Stdout) > 0 {
		f.t.Errorf("afterwards: %s, %v", r.Stdout, err)
	}
}
