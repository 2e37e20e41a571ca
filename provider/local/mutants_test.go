//go:build linux

package local_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/providertest"
)

// A broken is a provider with single methods replaced.
type broken struct {
	sandbox.Provider
	inspect func(p sandbox.Provider, ctx context.Context, name string) (sandbox.Info, error)
	create  func(p sandbox.Provider, ctx context.Context, s sandbox.Spec) (sandbox.Info, error)
	open    func(p sandbox.Provider, ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error)
	list    func(p sandbox.Provider, ctx context.Context, f sandbox.Filter) ([]sandbox.Info, error)
	start   func(sb sandbox.Sandbox, ctx context.Context, c sandbox.Command) (sandbox.Process, error)
	close   func(sb sandbox.Sandbox) error
	line    func(sh sandbox.Shell, ctx context.Context, line string, c sandbox.Command) (sandbox.Process, error)
	files   func(f sandbox.Files) sandbox.Files
	dial    func(d sandbox.Dialer, ctx context.Context, network, addr string) (net.Conn, error)
}

func (b broken) Inspect(ctx context.Context, name string) (sandbox.Info, error) {
	if b.inspect != nil {
		return b.inspect(b.Provider, ctx, name)
	}
	return b.Provider.Inspect(ctx, name)
}

func (b broken) Create(ctx context.Context, s sandbox.Spec) (sandbox.Info, error) {
	if b.create != nil {
		return b.create(b.Provider, ctx, s)
	}
	return b.Provider.Create(ctx, s)
}

func (b broken) List(ctx context.Context, f sandbox.Filter) ([]sandbox.Info, error) {
	if b.list != nil {
		return b.list(b.Provider, ctx, f)
	}
	return b.Provider.List(ctx, f)
}

func (b broken) Open(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	open := sandbox.Provider.Open
	if b.open != nil {
		open = b.open
	}
	sb, err := open(b.Provider, ctx, s)
	if err != nil {
		return nil, err
	}
	return brokenBox{sb, b}, nil
}

type brokenBox struct {
	sandbox.Sandbox
	b broken
}

func (x brokenBox) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	if x.b.start != nil {
		return x.b.start(x.Sandbox, ctx, c)
	}
	return x.Sandbox.Start(ctx, c)
}

func (x brokenBox) Close() error {
	if x.b.close != nil {
		return x.b.close(x.Sandbox)
	}
	return x.Sandbox.Close()
}

func (x brokenBox) OpenShell(ctx context.Context, o sandbox.ShellOptions) (sandbox.Shell, error) {
	sh, err := x.Sandbox.OpenShell(ctx, o)
	if err != nil {
		return nil, err
	}
	return brokenShell{sh, x.b}, nil
}

func (x brokenBox) Files(ctx context.Context) (sandbox.Files, error) {
	f, err := x.Sandbox.(sandbox.FileServer).Files(ctx)
	if err == nil && x.b.files != nil {
		f = x.b.files(f)
	}
	return f, err
}

func (x brokenBox) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if x.b.dial != nil {
		return x.b.dial(x.Sandbox.(sandbox.Dialer), ctx, network, addr)
	}
	return x.Sandbox.(sandbox.Dialer).Dial(ctx, network, addr)
}

func (x brokenBox) Listen(ctx context.Context, network, addr string) (net.Listener, error) {
	return x.Sandbox.(sandbox.Listener).Listen(ctx, network, addr)
}

type brokenShell struct {
	sandbox.Shell
	b broken
}

func (x brokenShell) Run(ctx context.Context, line string, c sandbox.Command) (sandbox.Process, error) {
	if x.b.line != nil {
		return x.b.line(x.Shell, ctx, line, c)
	}
	return x.Shell.Run(ctx, line, c)
}

// A waited process has another result than the true one.
type waited struct {
	sandbox.Process
	wait func(sandbox.Exit, error) (sandbox.Exit, error)
}

func (w waited) Wait() (sandbox.Exit, error) { return w.wait(w.Process.Wait()) }

type process = func(sandbox.Sandbox, context.Context, sandbox.Command) (sandbox.Process, error)

// changing returns a start that lets change rewrite every command.
func changing(change func(*sandbox.Command)) process {
	return func(sb sandbox.Sandbox, ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
		change(&c)
		return sb.Start(ctx, c)
	}
}

// waiting returns a start that lets change rewrite every result.
func waiting(change func(sandbox.Exit, error) (sandbox.Exit, error)) process {
	return func(sb sandbox.Sandbox, ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
		p, err := sb.Start(ctx, c)
		if err != nil {
			return nil, err
		}
		return waited{p, change}, nil
	}
}

// Files with single methods replaced.
type (
	parentMaker  struct{ sandbox.Files }
	unsorted     struct{ sandbox.Files }
	overwriting  struct{ sandbox.Files }
	misnamedFile struct{ sandbox.Files }
)

func (f parentMaker) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	return fsbridge.MkdirAll(ctx, f.Files, name, perm)
}

func (f unsorted) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	list, err := f.Files.ReadDir(ctx, name)
	slices.Reverse(list)
	return list, err
}

func (f overwriting) Write(ctx context.Context, name string, r io.Reader, o sandbox.WriteOptions) error {
	o.Exclusive = false
	return f.Files.Write(ctx, name, r, o)
}

func (f misnamedFile) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	info, err := f.Files.Stat(ctx, name)
	if sandbox.IsNotFound(err) {
		err = &sandbox.Error{Code: sandbox.CodeValidation}
	}
	return info, err
}

// brokenConn cleans what is written to UTF-8.
type brokenConn struct{ net.Conn }

func (c brokenConn) Write(b []byte) (int, error) {
	_, err := io.WriteString(c.Conn, strings.ToValidUTF8(string(b), "?"))
	return len(b), err
}

// TestMutants breaks the local provider in one way at a time and holds that
// the check made for it fails, while it passes on the whole one.
func TestMutants(t *testing.T) {
	testenv.Exhaustive(t, "checks of the suite on a provider that is broken on purpose")
	withFiles := func(change func(sandbox.Files) sandbox.Files) broken { return broken{files: change} }
	for _, m := range []struct {
		check  string
		broken broken
	}{
		{"inspect of an unknown name is not found", broken{inspect: func(p sandbox.Provider, ctx context.Context, name string) (sandbox.Info, error) {
			return sandbox.Info{}, errors.New("no such thing")
		}}},
		{"create twice is busy and harms nothing", broken{create: func(p sandbox.Provider, ctx context.Context, s sandbox.Spec) (sandbox.Info, error) {
			_ = p.Remove(ctx, s.Name)
			return p.Create(ctx, s)
		}}},
		{"owner round-trips and guards open", broken{open: func(p sandbox.Provider, ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
			info, err := p.Inspect(ctx, s.Name)
			if err != nil {
				return nil, err
			}
			s.Owner = info.Owner
			return p.Open(ctx, s)
		}}},
		{"list filters", broken{list: func(p sandbox.Provider, ctx context.Context, f sandbox.Filter) ([]sandbox.Info, error) {
			f.Tenant = ""
			return p.List(ctx, f)
		}}},
		{"stdout and stderr are separate", broken{start: changing(func(c *sandbox.Command) { c.Stderr = c.Stdout })}},
		{"every exit status comes through", broken{start: waiting(func(e sandbox.Exit, err error) (sandbox.Exit, error) { e.Code &= 0x7f; return e, err })}},
		{"a signal ends with 128+n and its name", broken{start: waiting(func(e sandbox.Exit, err error) (sandbox.Exit, error) { e.Signal = ""; return e, err })}},
		{"environment of the spec and over it the command's", broken{start: changing(func(c *sandbox.Command) { c.Env = nil })}},
		{"commands start in workdir or their own dir", broken{start: changing(func(c *sandbox.Command) { c.Dir = "" })}},
		{"grace sends TERM first", broken{start: changing(func(c *sandbox.Command) { c.Grace = 0 })}},
		{"close ends the commands of its handle", broken{close: func(sandbox.Sandbox) error { return nil }}},
		{"a running command tells what it has used", broken{start: waiting(func(e sandbox.Exit, err error) (sandbox.Exit, error) { return e, err })}},
		{"a shell keeps variables", broken{line: func(sh sandbox.Shell, ctx context.Context, line string, c sandbox.Command) (sandbox.Process, error) {
			return sh.Run(ctx, "("+line+"\n)", c)
		}}},
		{"a line reads its own stdin and nothing else", broken{line: func(sh sandbox.Shell, ctx context.Context, line string, c sandbox.Command) (sandbox.Process, error) {
			c.Stdin = nil
			return sh.Run(ctx, line, c)
		}}},
		{"mkdir makes one folder whose parent exists", withFiles(func(f sandbox.Files) sandbox.Files { return parentMaker{f} })},
		{"readdir returns the entries sorted by name", withFiles(func(f sandbox.Files) sandbox.Files { return unsorted{f} })},
		{"exclusive write fails when the file exists", withFiles(func(f sandbox.Files) sandbox.Files { return overwriting{f} })},
		{"nothing there is not found", withFiles(func(f sandbox.Files) sandbox.Files { return misnamedFile{f} })},
		{"a connection reaches a listener inside", broken{dial: func(d sandbox.Dialer, ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := d.Dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return brokenConn{c}, nil
		}}},
	} {
		t.Run(m.check, func(t *testing.T) {
			i := slices.IndexFunc(providertest.Checks(), func(c providertest.Check) bool { return c.Name == m.check })
			if i < 0 {
				t.Fatal("there is no such check")
			}
			check, r := providertest.Checks()[i], newRig(t)
			h := r.harness()
			if failed, log := record(t, check, h); failed {
				t.Fatalf("the check fails when nothing is broken: %s", log)
			}
			h.Leaks = nil
			h.Patience = 2 * time.Second // a check that waits in vain waits this long
			h.New = func(t testing.TB) sandbox.Provider {
				b := m.broken
				b.Provider = r.provider(t)
				return b
			}
			failed, log := record(t, check, h)
			if !failed {
				t.Errorf("the check passes on the broken provider; it said: %s", log)
			}
		})
	}
}

// A recorder is a testing.TB on which a check may fail without failing the
// test around it.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failed   bool
	log      strings.Builder
	cleanups []func()
}

func (r *recorder) note(fail bool, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || fail
	r.log.WriteString(text + "\n")
}

func (r *recorder) Helper()                   {}
func (r *recorder) Log(a ...any)              { r.note(false, fmt.Sprint(a...)) }
func (r *recorder) Logf(f string, a ...any)   { r.note(false, fmt.Sprintf(f, a...)) }
func (r *recorder) Error(a ...any)            { r.note(true, fmt.Sprint(a...)) }
func (r *recorder) Errorf(f string, a ...any) { r.note(true, fmt.Sprintf(f, a...)) }
func (r *recorder) Fail()                     { r.note(true, "failed") }
func (r *recorder) FailNow()                  { r.note(true, "failed"); runtime.Goexit() }
func (r *recorder) Fatal(a ...any)            { r.note(true, fmt.Sprint(a...)); runtime.Goexit() }
func (r *recorder) Fatalf(f string, a ...any) { r.note(true, fmt.Sprintf(f, a...)); runtime.Goexit() }
func (r *recorder) Skip(a ...any)             { r.note(false, fmt.Sprint(a...)); runtime.Goexit() }
func (r *recorder) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// record runs one check and returns whether it failed and what it said.
func record(t *testing.T, c providertest.Check, h providertest.Harness) (bool, string) {
	t.Helper()
	r := &recorder{TB: t}
	inGoroutine := func(f func()) { // where it may call Goexit
		done := make(chan struct{})
		go func() { defer close(done); f() }()
		<-done
	}
	inGoroutine(func() { c.Run(r, h) })
	for len(r.cleanups) > 0 {
		last := r.cleanups[len(r.cleanups)-1]
		r.cleanups = r.cleanups[:len(r.cleanups)-1]
		inGoroutine(last)
	}
	failed := r.Failed()
	r.mu.Lock() // what a check has given up on may still speak
	defer r.mu.Unlock()
	return failed, r.log.String()
}
