package client_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"go.uber.org/goleak"
)

// begin starts a line and waits until it has said something.
func begin(t *testing.T, ctx context.Context, s sandbox.Shell, text string, cmd sandbox.Command) (sandbox.Process, *lineWriter) {
	t.Helper()
	out := newLineWriter("ready\n")
	cmd.Stdout = out
	p, err := s.Run(ctx, text, cmd)
	must(t, err)
	out.wait(t)
	return p, out
}

// TestShellCancel holds that the end of ctx ends every process of a shell,
// and that nothing of the line goes on.
func TestShellCancel(t *testing.T) {
	eachShell(t, func(t *testing.T, g *guest, c *client.Client, k kind) {
		for name, text := range map[string]string{
			"sleep":            "echo ready; sleep 1000; echo went on",
			"builtin loop":     "echo ready; while :; do :; done",
			"here-document":    "cat <<E; echo ready; sleep 1000 <<F\nbody\nE\nmore\nF\n",
			"term ignored":     "trap '' TERM INT HUP; echo ready; sleep 1000; sleep 1000",
			"escapee":          "setsid sh -c 'setsid sleep 1000 & sleep 1000' & setsid sleep 1000 & echo ready; sleep 1000",
			"stopped":          "echo ready; kill -STOP $$",
			"stopped holder":   "echo ready; kill -STOP -1; sleep 1000",
			"closed streams":   "echo ready; exec >&- 2>&-; sleep 1000",
			"exec of another":  "echo ready; exec sleep 1000",
			"reads its input":  "echo ready; cat",
			"substitution":     "echo ready; x=$(sleep 1000)",
			"waits for a pipe": "echo ready; sleep 1000 | cat",
		} {
			t.Run(name, func(t *testing.T) {
				s := openShell(t, c, sandbox.ShellOptions{})
				line(t, s, "kept=1; sleep 1000 &")
				ctx, cancel := context.WithCancel(context.Background())
				in, keys := io.Pipe()
				defer keys.Close()
				p, out := begin(t, ctx, s, "kept=2; "+text, sandbox.Command{Stdin: in})
				cancel()
				exit, err := p.Wait()
				must(t, err)
				if exit.Code != 137 || exit.Signal != "KILL" || !exit.Restarted || strings.Contains(out.String(), "went on") {
					t.Errorf("got %+v, %q", exit, out)
				}
				g.empty(5 * time.Second)
				if got := line(t, s, "echo $kept"); got.stdout != "1\n" || got.exit.Restarted {
					t.Errorf("afterwards: got %+v", got)
				}
				must(t, s.Close())
			})
		}
	})
}

func TestShellGrace(t *testing.T) {
	eachShell(t, func(t *testing.T, g *guest, c *client.Client, k kind) {
		s := openShell(t, c, sandbox.ShellOptions{})
		ctx, cancel := context.WithCancel(context.Background())
		p, out := begin(t, ctx, s, "trap 'echo cleaned; exit 5' TERM; echo ready; while :; do sleep 0.02; done", sandbox.Command{Grace: time.Minute})
		cancel()
		if k.bash() {
			eventually(t, patience, "its last word comes", func() bool { return strings.HasSuffix(out.String(), "cleaned\n") })
		}
		exit, err := p.Wait()
		must(t, err)
		if exit.Code != 5 || !exit.Restarted || k.bash() && out.String() != "ready\ncleaned\n" {
			t.Errorf("got %+v, %q", exit, out)
		}
		// One that goes on to its end has ended by itself, but not its shell.
		ctx, cancel = context.WithCancel(context.Background())
		p, out = begin(t, ctx, s, "trap 'echo caught; c=1' TERM; echo ready; while [ -z \"$c\" ]; do sleep 0.02; done; echo end; (exit 6)", sandbox.Command{Grace: time.Minute})
		cancel()
		eventually(t, patience, "its last word comes", func() bool { return strings.HasSuffix(out.String(), "end\n") })
		exit, err = p.Wait()
		must(t, err)
		if exit.Code != 6 || !exit.Restarted || out.String() != "ready\ncaught\nend\n" {
			t.Errorf("got %+v, %q", exit, out)
		}
		g.empty(5 * time.Second)
	})
}

func TestShellSignal(t *testing.T) {
	eachShell(t, func(t *testing.T, g *guest, c *client.Client, k kind) {
		s := openShell(t, c, sandbox.ShellOptions{})
		ctx := context.Background()
		p, out := begin(t, ctx, s, "trap 'echo caught; x=1' USR1; echo ready; while [ -z \"$x\" ]; do sleep 0.01; done", sandbox.Command{})
		must(t, p.Signal(ctx, "USR1"))
		if exit, err := p.Wait(); err != nil || exit.Restarted || out.String() != "ready\ncaught\n" {
			t.Errorf("got %+v, %v, %q", exit, err, out)
		}
		p, _ = begin(t, ctx, s, "trap - USR1; echo ready; sleep 1000", sandbox.Command{})
		// Before it sleeps, bash may take the signal for its own affair.
		eventually(t, 10*time.Second, "it sleeps", func() bool { return strings.Contains(strings.Join(g.inside(), ","), "sleep 1000") })
		must(t, p.Signal(ctx, "INT"))
		if exit, err := p.Wait(); err != nil || exit.Code != 130 || !exit.Restarted {
			t.Errorf("got %+v, %v", exit, err)
		}
		codeIs(t, p.Resize(ctx, sandbox.TTY{}), sandbox.CodeUnsupported)
	})
}

// TestShellTurns checks that lines do not mix, and that a caller that waits for
// its turn can give up without harm.
func TestShellTurns(t *testing.T) {
	c := startGuest(t).client(client.Options{})
	s := openShell(t, c, sandbox.ShellOptions{})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 6 {
				if got := line(t, s, "n=$((n + 1)); echo a; echo b"); got.stdout != "a\nb\n" {
					t.Errorf("got %+v", got)
				}
			}
		})
	}
	wg.Wait()
	if got := line(t, s, "echo $n"); got.stdout != "96\n" {
		t.Errorf("got %+v", got)
	}
	p, _ := begin(t, context.Background(), s, "echo ready; sleep 1000", sandbox.Command{})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := s.Run(ctx, "echo never", sandbox.Command{})
	codeIs(t, err, sandbox.CodeTimeout)
	must(t, p.Kill(context.Background()))
	for range 60 { // a line that is given up somewhere on its way
		ctx, cancel := context.WithCancel(context.Background())
		go cancel()
		if p, err := s.Run(ctx, "true", sandbox.Command{}); err == nil {
			_, err = p.Wait()
			must(t, err)
		}
	}
	if got := line(t, s, "echo $n"); got.stdout != "96\n" {
		t.Errorf("got %+v", got)
	}
}

// TestShellRestartedOnce checks that the death of a shell is reported once.
func TestShellRestartedOnce(t *testing.T) {
	g := startGuest(t)
	s := openShell(t, g.client(client.Options{}), sandbox.ShellOptions{})
	line(t, s, "x=1")
	now := filepath.Join(openDir(t), "now")
	line(t, s, "(until [ -e "+now+" ]; do sleep 0.01; done; kill -9 $$) & echo a")
	must(t, os.WriteFile(now, nil, 0o644)) // not before the line has ended
	eventually(t, patience, "the shell is gone", func() bool { return len(g.inside()) == 0 })
	if got := line(t, s, "echo $x"); got.stdout != "1\n" || !got.exit.Restarted {
		t.Errorf("the next line: got %+v", got)
	}
	if got := line(t, s, "echo $x"); got.stdout != "1\n" || got.exit.Restarted {
		t.Errorf("the one after: got %+v", got)
	}
}

func TestShellRefuses(t *testing.T) {
	t.Parallel()
	c := startGuest(t).client(client.Options{})
	ctx := context.Background()
	s := openShell(t, c, sandbox.ShellOptions{})
	for field, cmd := range map[string]sandbox.Command{
		"args": {Args: []string{"x"}}, "env": {Env: map[string]string{"a": "b"}}, "dir": {Dir: "/"},
		"tty": {TTY: &sandbox.TTY{}}, "limits": {Limits: sandbox.Limits{Memory: 1}}, "detach": {Detach: true},
	} {
		_, err := s.Run(ctx, "true", cmd)
		codeIs(t, err, sandbox.CodeValidation)
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
	for _, text := range []string{"a\x00b", strings.Repeat("x", wire.MaxLine+1)} {
		_, err := s.Run(ctx, text, sandbox.Command{})
		codeIs(t, err, sandbox.CodeValidation)
	}
	if got := line(t, s, ": "+strings.Repeat("x", wire.MaxLine-2)); got.exit.Code != 0 {
		t.Errorf("the longest line: got %+v", got)
	}
	must(t, s.Close())
	must(t, s.Close())
	_, err := s.Run(ctx, "true", sandbox.Command{})
	codeIs(t, err, sandbox.CodeNotFound)
	_, err = c.OpenShell(ctx, sandbox.ShellOptions{Dir: "/none"}, sandbox.Limits{})
	codeIs(t, err, sandbox.CodeExecution)
	_, err = c.OpenShell(ctx, sandbox.ShellOptions{Env: map[string]string{"PATH": "/none"}}, sandbox.Limits{})
	codeIs(t, err, sandbox.CodeExecution)
	_, err = c.OpenShell(ctx, sandbox.ShellOptions{Env: map[string]string{"a=b": ""}}, sandbox.Limits{})
	codeIs(t, err, sandbox.CodeValidation)
}

func TestShellLimits(t *testing.T) {
	c := startGuest(t).client(client.Options{})
	s, err := c.OpenShell(context.Background(), sandbox.ShellOptions{}, sandbox.Limits{
		Memory: 200 << 20, FileSize: 1 << 20, OpenFiles: 64, CPUSeconds: 100,
	})
	must(t, err)
	defer s.Close()
	const look = "ulimit -d; ulimit -f; ulimit -n; ulimit -t; ulimit -c; ulimit -Hd; ulimit -v"
	const want = "729088\n1024\n64\n100\n0\n729088\nunlimited\n" // of memory 512 MiB more
	if got := line(t, s, look); got.stdout != want {
		t.Errorf("got %+v", got)
	}
	line(t, s, "exit")
	if got := line(t, s, look); got.stdout != want {
		t.Errorf("after a restart: got %+v", got)
	}
}

// TestShellEnds holds that a shell goes with its Close and with its
// connection, also in the middle of a line, and leaves nothing behind.
func TestShellEnds(t *testing.T) {
	g := startGuest(t)
	g.connect().Close()
	known := goleak.IgnoreCurrent()
	c, err := client.New(context.Background(), g.connect(), client.Options{})
	must(t, err)
	run(t, c, sh("true"))
	own, theirs := descriptors(t, os.Getpid()), descriptors(t, g.pid())
	for i := range 20 {
		s := openShell(t, c, sandbox.ShellOptions{})
		line(t, s, "sleep 1000 & exit")
		line(t, s, "setsid sleep 1000 &")
		p, _ := begin(t, context.Background(), s, "echo ready; setsid sleep 1000", sandbox.Command{})
		if i == 19 {
			must(t, s.Close())
		} else {
			go s.Close()
		}
		if exit, err := p.Wait(); err != nil || exit.Code != 137 {
			t.Errorf("got %+v, %v", exit, err)
		}
	}
	g.empty(5 * time.Second)
	eventually(t, 10*time.Second, "descriptors are given back", func() bool {
		return descriptors(t, os.Getpid()) <= own && descriptors(t, g.pid()) <= theirs+16 // idle shims
	})
	s := openShell(t, c, sandbox.ShellOptions{})
	p, _ := begin(t, context.Background(), s, "sleep 1000 & echo ready; sleep 1000", sandbox.Command{})
	c.Close()
	if exit, err := p.Wait(); err == nil && exit.Code != 137 {
		t.Errorf("got %+v", exit)
	}
	_, err = s.Run(context.Background(), "true", sandbox.Command{})
	codeIs(t, err, sandbox.CodeUnavailable)
	must(t, s.Close())
	g.empty(5 * time.Second)
	testenv.None(t, known)
}

// TestShellsApart holds that the shells of two sessions cannot get at each
// other, nor at each other's descriptor store.
func TestShellsApart(t *testing.T) {
	g := startGuest(t)
	c := g.client(client.Options{})
	if !c.Hello().Has(wire.FeatureIsolateProc) || !c.Hello().Has(wire.FeatureIsolateSignal) {
		testenv.Lack(t, "landlock", "the kernel keeps no commands apart")
	}
	victim := openShell(t, c, sandbox.ShellOptions{Env: map[string]string{"SECRET": "s3cret"}})
	p, out := begin(t, context.Background(), victim, "echo ready; sleep 1000", sandbox.Command{})
	got := line(t, openShell(t, g.client(client.Options{}), sandbox.ShellOptions{}), `for p in /proc/[0-9]*; do
n=${p#/proc/}
[ $n = $$ ] && continue
if readlink $p/fd/0 >/dev/null 2>&1; then echo "reached $(tr '\0' ' ' <$p/cmdline)"; continue; fi
for f in 0 1 2 3 4 6 7; do echo forged >$p/fd/$f; done
tr '\0' '\n' <$p/environ
cat $p/maps
kill -9 $n && echo killed $n
done 2>/dev/null; echo done`)
	if n := strings.Count(got.stdout, "\n"); n != 2 || got.stdout != "reached sandbox-guest hold keep \ndone\n" {
		t.Errorf("got %+v", got)
	}
	must(t, p.Signal(context.Background(), "TERM"))
	exit, err := p.Wait()
	if err != nil || exit.Code != 143 || out.String() != "ready\n" {
		t.Errorf("the other shell: %+v, %v, %q", exit, err, out)
	}
}

// TestShellClientKilled is the end without a word.
func TestShellClientKilled(t *testing.T) {
	g := startGuest(t)
	conn := g.connect()
	c, err := client.New(context.Background(), conn, client.Options{})
	must(t, err)
	s, err := c.OpenShell(context.Background(), sandbox.ShellOptions{}, sandbox.Limits{})
	must(t, err)
	begin(t, context.Background(), s, "setsid sleep 1000 & echo ready; sleep 1000", sandbox.Command{})
	raw, err := conn.(syscall.Conn).SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR) }))
	g.empty(5 * time.Second)
	c.Close()
}
