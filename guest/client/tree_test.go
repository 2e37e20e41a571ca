package client_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// lineWriter tells when a line has come.
type lineWriter struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	seen chan struct{}
	want string
}

func newLineWriter(want string) *lineWriter {
	return &lineWriter{want: want, seen: make(chan struct{})}
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := strings.Contains(w.buf.String(), w.want)
	w.buf.Write(p)
	if !before && strings.Contains(w.buf.String(), w.want) {
		close(w.seen)
	}
	return len(p), nil
}

func (w *lineWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

func (w *lineWriter) wait(t testing.TB) {
	t.Helper()
	select {
	case <-w.seen:
	case <-time.After(patience):
		t.Fatalf("no %q in %q", w.want, w)
	}
}

// start starts script and waits until it has written "ready".
func start(t testing.TB, ctx context.Context, c *client.Client, cmd sandbox.Command) (sandbox.Process, *lineWriter) {
	t.Helper()
	out := newLineWriter("ready")
	cmd.Stdout = out
	p, err := c.Start(ctx, cmd)
	must(t, err)
	out.wait(t)
	return p, out
}

// closes closes something that gives up to wait for its guest after bound, and
// returns how long what it has promised may still take: no time at all, unless
// it has given up.
func closes(t testing.TB, bound time.Duration, closeIt func() error) time.Duration {
	t.Helper()
	begin := time.Now()
	must(t, closeIt())
	if time.Since(begin) < bound {
		return 0
	}
	return patience
}

// escapes are the ways out of a process group that user code knows.
var escapes = map[string]string{
	"child":           "sleep 1000 & echo ready; wait",
	"setsid":          "setsid sleep 1000 & sleep 0.1; echo ready; wait",
	"double fork":     "(setsid sh -c 'sleep 1000 & sleep 1000 &' &) ; sleep 0.1; echo ready; sleep 1000",
	"ignores SIGTERM": "trap '' TERM HUP INT; sleep 1000 & echo ready; while :; do sleep 1; done",
	"stopped":         "sleep 1000 & kill -STOP $!; echo ready; kill -STOP $$; sleep 1000",
	"respawns":        "setsid sh -c 'while :; do setsid sleep 1000 & sleep 0.002; done' & echo ready; wait",
	"headless":        "exec perl -e '" + headless(`print "ready\n"; sleep 1000`) + "'",
	"headless child":  "perl -e '" + headless(`print "ready\n"; sleep 1000`) + "' & wait",
	"headless forks":  "perl -e '" + headless(`fork; print "ready\n"; while (1) { fork or select(undef, undef, undef, 0.01), exit; wait }`) + "' & wait",
}

func TestContextKillsTree(t *testing.T) {
	g := startGuest(t)
	c := g.client(client.Options{})
	for name, script := range escapes {
		for _, grace := range []time.Duration{0, 50 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s/grace %v", name, grace), func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				cmd := sh(script)
				cmd.Grace = grace
				p, _ := start(t, ctx, c, cmd)
				cancel()
				exit, err := p.Wait()
				must(t, err) // a first attempt that fails takes the shim, and the end is not known then
				if exit.Signal != "KILL" && exit.Signal != "TERM" && grace == 0 {
					t.Errorf("exit %+v", exit)
				}
				if left := g.inside(); len(left) != 0 {
					t.Errorf("left: %q", left)
				}
			})
		}
	}
}

func TestExitEndsTree(t *testing.T) {
	g := startGuest(t)
	c := g.client(client.Options{})
	for name, script := range map[string]string{
		"background child holds stdout": "sleep 1000 & echo done",
		"headless child":                "f=$(mktemp -u); perl -e '" + headless(`open(my $f, ">", $ARGV[0]); close $f; sleep 1000`) + "' $f & until [ -e $f ]; do sleep 0.01; done; rm $f; echo done",
		"setsid escapee holds stdout":   "setsid sleep 1000 & sleep 0.05; echo done",
		"background child has written":  "f=$(mktemp -u); (echo child; : >$f; exec sleep 1000) & until [ -e $f ]; do sleep 0.01; done; rm $f; echo done",
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, c, sh(script)) // fails with its shim: see TestContextKillsTree
			if !strings.HasSuffix(got.stdout, "done\n") || got.exit.Code != 0 {
				t.Errorf("got %+v", got)
			}
			if strings.Contains(script, "child;") && !strings.HasPrefix(got.stdout, "child\n") {
				t.Errorf("output of the child is lost: %+v", got)
			}
			g.empty(0)
		})
	}
}

// TestKillSparesSuccessor: the killer of what a command left behind must not
// meet the next command of the same shim.
func TestKillSparesSuccessor(t *testing.T) {
	long(t)
	g := startGuest(t)
	c := g.client(client.Options{})
	for i := range testenv.Rounds(20, 60, 300) {
		run(t, c, sh("for i in 1 2 3; do setsid sleep 1000 & done; exit 0"))
		if got := run(t, c, sh("sleep 0.001; echo works")); got.stdout != "works\n" {
			t.Fatalf("round %d: got %+v", i, got)
		}
	}
	g.empty(0)
}

func TestGrace(t *testing.T) {
	c := startGuest(t).client(client.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cmd := sh("trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done")
	cmd.Grace = time.Minute
	p, out := start(t, ctx, c, cmd)
	cancel()
	eventually(t, patience, "its last word comes", func() bool { return strings.Contains(out.String(), "bye") })
	exit, err := p.Wait()
	must(t, err)
	if exit.Code != 7 || !strings.Contains(out.String(), "bye") {
		t.Errorf("exit %+v, output %q", exit, out)
	}
}

func TestKillAndSignal(t *testing.T) {
	g := startGuest(t)
	c := g.client(client.Options{})
	ctx := context.Background()
	p, out := start(t, ctx, c, sh("trap 'echo usr; exit 3' USR1; echo ready; while :; do sleep 0.01; done"))
	must(t, p.Signal(ctx, "USR1"))
	exit, err := p.Wait()
	must(t, err)
	if exit.Code != 3 || !strings.Contains(out.String(), "usr") {
		t.Errorf("exit %+v, output %q", exit, out)
	}
	if err := p.Signal(ctx, "NONSENSE"); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("got %v", err)
	}
	must(t, p.Signal(ctx, "TERM")) // after the end: nothing happens

	p, _ = start(t, ctx, c, sh("setsid sleep 1000 & echo ready; wait"))
	must(t, p.Kill(ctx))
	g.empty(0)
	if exit, err = p.Wait(); err != nil || exit.Code != 137 {
		t.Errorf("exit %+v, %v", exit, err)
	}
}

func TestDisconnect(t *testing.T) {
	g := startGuest(t)
	for _, how := range []string{"close", "cut"} {
		t.Run(how, func(t *testing.T) {
			conn := g.connect()
			c, err := client.New(context.Background(), conn, client.Options{})
			must(t, err)
			p, _ := start(t, context.Background(), c, sh("setsid sleep 1000 & sleep 0.05; echo ready; sleep 1000"))
			d := sh("echo $$; exec sleep 1001")
			d.Detach = true
			_, err = c.Start(context.Background(), d)
			must(t, err)
			if how == "close" {
				within := closes(t, 5*time.Second, c.Close)
				eventually(t, within, "one is left", func() bool { return len(g.inside()) == 1 })
			} else {
				conn.Close()
			}
			exit, err := p.Wait()
			if how == "cut" {
				codeIs(t, err, sandbox.CodeUnavailable)
			} else if err == nil && exit.Signal != "KILL" {
				t.Errorf("exit %+v", exit)
			}
			defer func() {
				if t.Failed() {
					t.Logf("left: %q", g.inside())
				}
			}()
			eventually(t, 5*time.Second, "the detached command alone is left", func() bool {
				left := g.inside()
				return len(left) == 1 && strings.Contains(left[0], "1001")
			})
			run(t, g.client(client.Options{}), sandbox.Command{Args: []string{"true"}})
			other := g.client(client.Options{})
			if got := run(t, other, sh("kill $(pgrep -f 'sleep 1001') 2>&1; echo $?")); !strings.Contains(got.stdout, "1") {
				t.Errorf("another command could signal it: %+v", got)
			}
			g.killInside(t, "sleep 1001")
			g.empty(5 * time.Second)
		})
	}
}

func TestDetachKeepsDescendants(t *testing.T) {
	g := startGuest(t)
	c := g.client(client.Options{})
	cmd := sh("(for i in $(seq 100000); do echo noise; done; exec sleep 1002) & echo started")
	cmd.Detach = true
	got := run(t, c, cmd)
	if !strings.Contains(got.stdout, "started") {
		t.Errorf("got %+v", got)
	}
	eventually(t, 10*time.Second, "the descendant got over its output", func() bool {
		left := g.inside()
		return len(left) == 1 && strings.Contains(left[0], "1002")
	})
	g.killInside(t, "sleep 1002")
	g.empty(5 * time.Second)
}

// killInside kills, from the host, the processes of the guest's own pid
// namespace whose command line holds s.
func (g *guest) killInside(t testing.TB, s string) {
	t.Helper()
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", g.pid()))
	must(t, err)
	dirs, err := filepath.Glob("/proc/[0-9]*")
	must(t, err)
	for _, d := range dirs {
		b, err := os.ReadFile(d + "/cmdline")
		link, nsErr := os.Readlink(d + "/ns/pid")
		if err != nil || nsErr != nil || link != ns || !strings.Contains(strings.ReplaceAll(string(b), "\x00", " "), s) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(d))
		must(t, err)
		p, err := os.FindProcess(pid)
		must(t, err)
		_ = p.Kill()
	}
}

func TestBackPressure(t *testing.T) {
	long(t)
	g := startGuest(t)
	c := g.client(client.Options{})
	before := ownMemory()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	blocked := &blockedWriter{release: make(chan struct{}), called: make(chan struct{})}
	p, err := c.Start(ctx, sandbox.Command{Args: []string{"head", "-c", "1073741824", "/dev/zero"}, Stdout: blocked})
	must(t, err)
	<-blocked.called
	// The connection is not affected, and memory does not grow.
	for range 200 {
		run(t, c, sandbox.Command{Args: []string{"true"}})
	}
	if grown := ownMemory() - before; grown > 16<<20 {
		t.Errorf("the client grew by %d bytes", grown)
	}
	if rss := g.rss(); rss > 12<<20 {
		t.Errorf("the guest has %d bytes", rss)
	}
	if len(g.inside()) != 1 {
		t.Errorf("the producer is not waiting: %q", g.inside())
	}
	cancel()
	begin := time.Now()
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > patience { // the producer writes for ever
		t.Errorf("Wait took %v", took)
	}
	g.empty(time.Second)
	close(blocked.release)
}

func TestLargeOutput(t *testing.T) {
	long(t)
	g := startGuest(t)
	c := g.client(client.Options{})
	before := ownMemory()
	n := &countWriter{}
	size := int64(testenv.Rounds(128, 128, 1024)) << 20 // many times what may stay in memory
	got := run(t, c, sandbox.Command{Args: []string{"head", "-c", fmt.Sprint(size), "/dev/zero"}, Stdout: n})
	if n.n != size || got.exit.Code != 0 {
		t.Errorf("%d bytes, %+v", n.n, got.exit)
	}
	if grown := ownMemory() - before; grown > 16<<20 {
		t.Errorf("the client grew by %d bytes", grown)
	}
	if rss := g.rss(); rss > 12<<20 {
		t.Errorf("the guest has %d bytes", rss)
	}
}

type countWriter struct{ n int64 }

func (w *countWriter) Write(p []byte) (int, error) { w.n += int64(len(p)); return len(p), nil }

type blockedWriter struct {
	once            sync.Once
	called, release chan struct{}
}

func (w *blockedWriter) Write([]byte) (int, error) {
	w.once.Do(func() { close(w.called) })
	<-w.release
	return 0, io.ErrClosedPipe
}

// ownMemory is what the Go runtime of the test holds of the system, without
// what the race detector adds.
func ownMemory() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys)
}

// heldMemory is what the client still needs, without what the garbage collector has
// yet to find: how much that is depends on when it runs.
func heldMemory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

func (g *guest) rss() int64 { return rssOf(g.t, g.pid()) }

func rssOf(t testing.TB, pid int) int64 { return statusField(t, pid, "VmRSS:") << 10 }

// ownedBy is what a process has in memory without the pages of its program,
// of which the kernel maps more or less as it likes.
func ownedBy(t testing.TB, pid int) int64 { return statusField(t, pid, "RssAnon:") << 10 }

func statusField(t testing.TB, pid int, key string) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	for _, line := range strings.Split(string(b), "\n") {
		if v, ok := strings.CutPrefix(line, key); ok {
			var n int64
			fmt.Sscan(v, &n)
			return n
		}
	}
	t.Fatalf("no %s in the status of %d", key, pid)
	return 0
}
