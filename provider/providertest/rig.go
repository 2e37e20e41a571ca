package providertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// A rig is what one check works with. Its ctx belongs to the check as a test's
// own context does; it is kept here so that every call has a deadline.
type rig struct {
	testing.TB
	h     Harness
	p     sandbox.Provider
	ctx   context.Context
	check string

	common common // of the checks that share
}

// spec returns the Spec of this check's sandbox key and removes the sandbox
// of that name at the end.
func (r *rig) spec(key string) sandbox.Spec {
	r.Helper()
	s := r.h.Spec(r, r.check+"/"+key)
	r.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), r.h.Patience)
		defer cancel()
		if err := r.p.Remove(ctx, s.Name); err != nil {
			r.Errorf("cleaning up %s: %v", s.Name, err)
		}
	})
	return s
}

func (r *rig) create(s sandbox.Spec) sandbox.Info {
	r.Helper()
	info, err := r.p.Create(r.ctx, s)
	if err != nil {
		r.Fatalf("Create(%s): %v", s.Name, err)
	}
	return info
}

func (r *rig) open(s sandbox.Spec) sandbox.Sandbox { return r.openWith(r.p, s) }

func (r *rig) openWith(p sandbox.Provider, s sandbox.Spec) sandbox.Sandbox {
	r.Helper()
	sb, err := p.Open(r.ctx, s)
	if err != nil {
		r.Fatalf("Open(%s): %v", s.Name, err)
	}
	r.Cleanup(func() { sb.Close() })
	return sb
}

// tidy opens a sandbox that checks share, without what the one before has left in it.
func (r *rig) tidy(s *fileSpec) sandbox.Sandbox {
	r.Helper()
	sb := r.open(s.Spec)
	dirs := []string{"/tmp", s.Workdir}
	if s.small != "" {
		dirs = append(dirs, s.small)
	}
	r.output(sb, script(`for dir; do rm -rf "$dir"/*; done`, dirs...))
	return sb
}

// box creates and opens one sandbox, or opens the one that checks share.
func (r *rig) box(key string) (sandbox.Spec, sandbox.Sandbox) {
	r.Helper()
	if s := r.common.box; s != nil && key == "a" {
		return s.Spec, r.tidy(s)
	}
	s := r.spec(key)
	r.create(s)
	return s, r.open(s)
}

// status inspects name and returns what it is.
func (r *rig) status(name string) sandbox.Status {
	r.Helper()
	info, err := r.p.Inspect(r.ctx, name)
	if err != nil {
		r.Fatalf("Inspect(%s): %v", name, err)
	}
	return info.Status
}

// absent holds that the provider says for certain that there is no name, by
// Inspect as well as by List.
func (r *rig) absent(name string) {
	r.Helper()
	info, err := r.p.Inspect(r.ctx, name)
	if !sandbox.IsNotFound(err) {
		r.Errorf("Inspect(%s) = %+v, %v; want %s", name, info, err, sandbox.CodeNotFound)
	}
	list, err := r.p.List(r.ctx, sandbox.Filter{Name: name})
	if err != nil || len(list) != 0 {
		r.Errorf("List(%s) = %+v, %v; want nothing", name, list, err)
	}
}

// A running is a started command with what it has written so far.
type running struct {
	sandbox.Process
	stdout, stderr *gather
}

// start runs c under ctx and gathers what its Stdout and Stderr leave nil.
func (r *rig) start(ctx context.Context, sb sandbox.Sandbox, c sandbox.Command) running {
	r.Helper()
	out, err := gathered(c, func(c sandbox.Command) (sandbox.Process, error) { return sb.Start(ctx, c) })
	if err != nil {
		r.Fatalf("Start(%.80q): %v", c.Args, err)
	}
	return out
}

// gathered starts c and gathers what its Stdout and Stderr leave nil.
func gathered(c sandbox.Command, start func(sandbox.Command) (sandbox.Process, error)) (running, error) {
	out := running{stdout: newGather(), stderr: newGather()}
	if c.Stdout == nil {
		c.Stdout = out.stdout
	}
	if c.Stderr == nil {
		c.Stderr = out.stderr
	}
	var err error
	out.Process, err = start(c)
	return out, err
}

// intoDeadline starts what is to run into its deadline: one of a few seconds,
// and a later one as long as the start itself takes all of that.
func (r *rig) intoDeadline(start func(context.Context, sandbox.Command) (sandbox.Process, error), c sandbox.Command) (running, context.Context) {
	r.Helper()
	for within := 3 * time.Second; ; within *= 2 {
		ctx, cancel := context.WithTimeout(r.ctx, within)
		r.Cleanup(cancel)
		p, err := gathered(c, func(c sandbox.Command) (sandbox.Process, error) { return start(ctx, c) })
		if err == nil {
			return p, ctx
		}
		if ctx.Err() == nil || sandbox.CodeOf(err) != sandbox.CodeTimeout || within > r.h.Patience {
			r.Fatalf("started with a deadline %v away: %v", within, err)
		}
	}
}

// wait is Process.Wait that fails the check when it takes too long.
func (r *rig) wait(p sandbox.Process) (sandbox.Exit, error) {
	r.Helper()
	type answer struct {
		exit sandbox.Exit
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		exit, err := p.Wait()
		done <- answer{exit, err}
	}()
	select {
	case a := <-done:
		return a.exit, a.err
	case <-time.After(r.h.Patience):
		r.Fatalf("Wait did not return within %v", r.h.Patience)
		return sandbox.Exit{}, nil
	}
}

// exit is wait for a command whose result must be known.
func (r *rig) exit(p sandbox.Process) sandbox.Exit {
	r.Helper()
	exit, err := r.wait(p)
	if err != nil {
		r.Fatalf("Wait: %v", err)
	}
	return exit
}

// run runs c to its end and returns exit, output and error output.
func (r *rig) run(sb sandbox.Sandbox, c sandbox.Command) (sandbox.Exit, string, string) {
	r.Helper()
	p := r.start(r.ctx, sb, c)
	exit := r.exit(p)
	return exit, p.stdout.String(), p.stderr.String()
}

// output runs c, which must end with 0, and returns its trimmed output.
func (r *rig) output(sb sandbox.Sandbox, c sandbox.Command) string {
	r.Helper()
	exit, stdout, stderr := r.run(sb, c)
	if exit.Code != 0 {
		r.Fatalf("%.80q ended with %+v, stderr %.200q", c.Args, exit, stderr)
	}
	return strings.TrimSpace(stdout)
}

// works holds that commands run in sb.
func (r *rig) works(sb sandbox.Sandbox) {
	r.Helper()
	if got := r.output(sb, r.h.Programs.Echo("alive", "")); got != "alive" {
		r.Fatalf("a command answered %q, want %q", got, "alive")
	}
}

// count looks inside for processes that carry the marker.
func (r *rig) count(sb sandbox.Sandbox, marker int) int {
	r.Helper()
	text := r.output(sb, r.h.Programs.Count(marker))
	n, err := strconv.Atoi(text)
	if err != nil {
		r.Fatalf("Count printed %q", text)
	}
	return n
}

// awaitCount watches until exactly want processes carry the marker.
func (r *rig) awaitCount(sb sandbox.Sandbox, marker, want int) {
	r.Helper()
	r.eventually(func() (bool, string) {
		n := r.count(sb, marker)
		return n == want, strconv.Itoa(n) + " processes carry the marker, want " + strconv.Itoa(want)
	})
}

// eventually asks again and again until ok is true.
func (r *rig) eventually(ok func() (bool, string)) {
	r.Helper()
	deadline := time.Now().Add(r.h.Patience)
	for {
		good, state := ok()
		if good {
			return
		}
		if time.Now().After(deadline) {
			r.Fatalf("after %v still: %s", r.h.Patience, state)
		}
		time.Sleep(2 * time.Millisecond) // between two looks
	}
}

// newMarker returns a number that is a long time in seconds and that no other
// process is likely to carry.
func newMarker() int { return 100_000_000 + rand.IntN(800_000_000) }

// wantCode holds that err is an *Error with one of codes.
func (r *rig) wantCode(what string, err error, codes ...sandbox.Code) {
	r.Helper()
	if err == nil {
		r.Errorf("%s succeeded, want %v", what, codes)
		return
	}
	if _, ok := errors.AsType[*sandbox.Error](err); !ok {
		r.Errorf("%s: %T (%v) is no *sandbox.Error", what, err, err)
	}
	if !slices.Contains(codes, sandbox.CodeOf(err)) {
		r.Errorf("%s: %v, want %v", what, err, codes)
	}
}

// wantField holds that err names the field at fault.
func (r *rig) wantField(what string, err error, field string) {
	r.Helper()
	if e, ok := errors.AsType[*sandbox.Error](err); ok && e.Field != field {
		r.Errorf("%s: the error names the field %q, want %q", what, e.Field, field)
	}
}

// within holds that do returns in time and says how long that is.
func (r *rig) within(d time.Duration, what string, do func()) {
	r.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(d):
		r.Fatalf("%s did not return within %v", what, d)
	}
}

// A gather is a buffer that can be watched while it fills.
type gather struct {
	mu   sync.Mutex
	b    bytes.Buffer
	grew chan struct{} // replaced at each write
}

func newGather() *gather { return &gather{grew: make(chan struct{})} }

func (g *gather) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.b.Write(p)
	close(g.grew)
	g.grew = make(chan struct{})
	return len(p), nil
}

func (g *gather) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.String()
}

// await watches until g holds text.
func (r *rig) await(g *gather, text string) {
	r.Helper()
	timeout := time.After(r.h.Patience)
	for {
		g.mu.Lock()
		found, grew := strings.Contains(g.b.String(), text), g.grew
		g.mu.Unlock()
		if found {
			return
		}
		select {
		case <-grew:
		case <-timeout:
			r.Fatalf("%q did not come; so far %.200q", text, g.String())
		}
	}
}

// A gate is a writer that blocks until it is opened.
type gate struct {
	once    sync.Once
	reached chan struct{} // closed at the first write
	open    chan struct{} // closed to let writes through
}

func newGate() *gate { return &gate{reached: make(chan struct{}), open: make(chan struct{})} }

func (g *gate) Write(p []byte) (int, error) {
	g.once.Do(func() { close(g.reached) })
	<-g.open
	return len(p), nil
}

// awaitReached waits until a write is blocked at g.
func (r *rig) awaitReached(g *gate) {
	r.Helper()
	select {
	case <-g.reached:
	case <-time.After(r.h.Patience):
		r.Fatal("nothing was written")
	}
}

// stalled returns a reader that never answers until the check ends.
func (r *rig) stalled() io.Reader {
	pr, pw := io.Pipe()
	r.Cleanup(func() { pw.Close() })
	return pr
}
