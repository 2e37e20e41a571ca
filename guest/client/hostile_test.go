package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"golang.org/x/sys/unix"
)

// TestCommandsAreApart has one command try to reach another of the same
// user, the guest and the shims.
func TestCommandsAreApart(t *testing.T) {
	g := startGuest(t)
	c := g.client(client.Options{})
	if !c.Hello().Has(wire.FeatureIsolateProc) || !c.Hello().Has(wire.FeatureIsolateSignal) {
		testenv.Lack(t, "landlock", c.Hello().Degraded)
	}
	victim, out := start(t, context.Background(), c, sh("SECRET=hunter2; export SECRET; echo ready; while :; do sleep 1; done"))
	attack := run(t, c, sh(`
		for pid in $(ls /proc | grep '^[0-9]*$'); do
			test $pid = $$ && continue
			name=$(tr '\0' ' ' </proc/$pid/cmdline)
			case $name in *"ls "*|*"grep "*|"") continue;; esac
			for fd in 0 1 2 3 4 5 6 7 8; do
				(echo forged >/proc/$pid/fd/$fd) 2>/dev/null && echo "wrote fd $fd of $pid $name"
				(head -c1 </proc/$pid/fd/$fd) >/dev/null 2>&1 && echo "read fd $fd of $pid $name"
			done
			cat /proc/$pid/environ >/dev/null 2>&1 && echo "environ of $pid $name"
			head -c1 /proc/$pid/mem >/dev/null 2>&1 && echo "mem of $pid $name"
			(echo >/proc/$pid/mem) 2>/dev/null && echo "wrote mem of $pid $name"
			ls /proc/$pid/cwd/ >/dev/null 2>&1 && echo "cwd of $pid $name"
			for sig in 0 STOP TERM SEGV KILL; do kill -$sig $pid 2>/dev/null && echo "sent $sig to $pid $name"; done
		done
		kill -9 -1 2>/dev/null # may say that it worked
		echo tried`))
	if attack.stdout != "tried\n" {
		t.Errorf("got through:\n%s", attack.stdout)
	}
	if len(g.inside()) == 0 {
		t.Error("the victim is gone")
	}
	must(t, victim.Kill(context.Background()))
	if out.String() != "ready\n" {
		t.Errorf("the victim's output: %q", out)
	}
	// What belongs together can still do all that.
	own := run(t, c, sh("sleep 1000 & kill -0 $! && kill -STOP $! && kill -KILL $! && echo ok >/proc/self/fd/1"))
	if own.stdout != "ok\n" {
		t.Errorf("got %+v", own)
	}
}

// asUser runs a script inside as the same user, but as an engine's exec would:
// without the confinement that the shim sets up around a command.
func (g *guest) asUser(script string) (string, error) {
	id := strconv.Itoa(guestUID)
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		testenv.Lack(g.t, "nsenter", "it is not installed")
	}
	cmd := exec.Command(nsenter, "-t", strconv.Itoa(g.pid()), "-p", "-m", "-n", "-i", "-S", id, "-G", id, "sh", "-c", script)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestGuestOutlivesItsUser sends the guest what its own user can send, from
// a process without Landlock, as on a kernel that has none. SIGTERM and
// SIGINT are left out, because the guest listens to them where there is
// Landlock, and does not where there is none.
func TestGuestOutlivesItsUser(t *testing.T) {
	t.Parallel()
	for _, script := range []string{
		"for s in $(seq 1 64); do test $s = 15 -o $s = 2 || kill -$s 1; done 2>/dev/null; true",
		"kill -9 -1; true",
		"for s in $(seq 1 64); do kill -$s $(pgrep -f 'sandbox-guest stag[e]'); done 2>/dev/null; true",
		"for i in $(seq 300); do kill -37 1; kill -CHLD 1; kill -URG 1; done; true",
	} {
		t.Run(script, func(t *testing.T) {
			g := startGuest(t)
			c := g.client(client.Options{})
			p, _ := start(t, context.Background(), c, sh("setsid sleep 1000 & echo ready; wait"))
			if out, err := g.asUser(script); err != nil && !strings.Contains(err.Error(), "killed") {
				t.Fatal(err, out)
			}
			must(t, c.Ping(context.Background()))
			got := run(t, c, sh("echo works"))
			if got.stdout != "works\n" {
				t.Errorf("got %+v", got)
			}
			must(t, p.Kill(context.Background()))
			_, _ = p.Wait() // its shim may have been killed
			g.empty(10 * time.Second)
		})
	}
}

func TestEngineStopsGuest(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGRTMIN+3": 37} {
		t.Run(name, func(t *testing.T) { engineStops(t, sig) })
	}
}

func engineStops(t *testing.T, sig syscall.Signal) {
	g := startGuest(t)
	c := g.client(client.Options{})
	p, _ := start(t, context.Background(), c, sh("trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done"))
	must(t, g.cmd.Process.Signal(sig))
	ended := make(chan error, 1)
	go func() { ended <- g.cmd.Wait() }()
	select {
	case err := <-ended:
		must(t, err)
	case <-time.After(patience):
		t.Fatal("the guest does not stop")
	}
	// It ended with the sandbox: how its trap ended it is not the point.
	_, err := p.Wait()
	codeIs(t, err, sandbox.CodeUnavailable)
	if !strings.Contains(err.Error(), "being stopped") {
		t.Errorf("got %v", err)
	}
	eventually(t, 5*time.Second, "the client notices", func() bool { return c.Err() != nil })
	codeIs(t, c.Ping(context.Background()), sandbox.CodeUnavailable)
	_, err = c.Start(context.Background(), sh("true"))
	codeIs(t, err, sandbox.CodeUnavailable)
}

func TestGuestKilledMidCommand(t *testing.T) {
	g := startGuest(t)
	c := g.client(client.Options{})
	p, _ := start(t, context.Background(), c, sh("echo ready; sleep 1000"))
	must(t, g.cmd.Process.Kill())
	_, err := p.Wait()
	codeIs(t, err, sandbox.CodeUnavailable)
	var e *sandbox.Error
	if !errors.As(err, &e) || !e.Retryable {
		t.Errorf("not retryable: %v", err)
	}
}

// filler uses up the process limit, room that is made later as well, and leaves
// the processor to others, as bombs do not.
var filler = sandbox.Command{Args: []string{
	"perl", "-e", "while (1) { my $p = fork; defined $p or select(undef, undef, undef, 0.001), next; $p or exec 'sleep', '1000' }",
}}

// bombs never run out by themselves, and leave the program itself alone.
var bombs = map[string]string{
	"plain":  "perl -e 'fork while 1' & exec sleep 1000",
	"deaf":   "trap '' TERM HUP INT; perl -e 'fork while 1' & exec sleep 1000",
	"setsid": "perl -MPOSIX -e 'while (1) { fork or setsid }' & exec sleep 1000",
}

// TestForkBomb fills the process limit: the guest answers, cannot start
// more, ends the bomb, and works on.
func TestForkBomb(t *testing.T) {
	long(t)
	for name, script := range bombs {
		t.Run(name, func(t *testing.T) {
			const limit = 512
			group := pidsCgroup(t, limit)
			g := startGuest(t, inCgroup(group))
			c := g.client(client.Options{})
			p, err := c.Start(context.Background(), sh(script))
			must(t, err)
			eventually(t, time.Minute, "the limit is reached", group.limitReached)
			for range testenv.Rounds(5, 5, 20) {
				// Milliseconds too: the guest competes with the bomb alone.
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				must(t, c.Ping(ctx))
				_, err := c.Start(ctx, sandbox.Command{Args: []string{"true"}})
				if err != nil && sandbox.CodeOf(err) != sandbox.CodeExecution {
					t.Errorf("got %v", err)
				}
				cancel()
			}
			begin := time.Now()
			must(t, p.Kill(context.Background()))
			t.Logf("ended in %v", time.Since(begin))
			if exit, err := p.Wait(); err != nil || exit.Signal != "KILL" {
				t.Errorf("exit %+v, %v", exit, err)
			}
			g.empty(time.Second)
			if got := run(t, c, sh("echo works")); got.stdout != "works\n" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestKillTakesTheShim kills a command whose shim does not run, so that its
// processes are not reaped in time: the shim is killed with them, and the end
// of the command is that of a killed one all the same.
func TestKillTakesTheShim(t *testing.T) {
	t.Parallel()
	long(t)
	g := startGuest(t)
	c := g.client(client.Options{})
	p, _ := start(t, context.Background(), c, sh("echo ready; sleep 1000"))
	var shim int
	for _, pid := range childrenOf(t, g.pid()) {
		if len(childrenOf(t, pid)) > 0 {
			shim = pid
		}
	}
	stopped := make(chan error)
	go func() { // the guest sends SIGCONT, which does not continue what a tracer has stopped
		runtime.LockOSThread() // not unlocked: the tracer ends with its thread
		stopped <- func() error {
			if err := unix.PtraceSeize(shim); err != nil {
				return err
			}
			if err := unix.PtraceInterrupt(shim); err != nil {
				return err
			}
			_, err := unix.Wait4(shim, nil, unix.WALL, nil)
			return err
		}()
		_, _ = unix.Wait4(shim, nil, unix.WALL, nil) // its parent learns of its end after its tracer
	}()
	must(t, <-stopped)
	must(t, p.Kill(context.Background()))
	exit, err := p.Wait()
	if err != nil || exit.Signal != "KILL" {
		t.Errorf("exit %+v, %v", exit, err)
	}
	g.empty(time.Second)
	if got := run(t, c, sh("echo works")); got.stdout != "works\n" {
		t.Errorf("got %+v", got)
	}
}

// TestSocketFolder has user code do to the folder what it can do.
func TestSocketFolder(t *testing.T) {
	g := startGuest(t)
	first := g.client(client.Options{})
	for name, script := range map[string]string{
		"removed":           "rm guest.sock",
		"renamed":           "mv guest.sock other",
		"folder":            "rm guest.sock; mkdir guest.sock; echo x >guest.sock/full",
		"pipe":              "rm guest.sock; mkfifo guest.sock",
		"link to nowhere":   "rm guest.sock; ln -s /nowhere/x guest.sock",
		"link to a file":    "rm guest.sock; ln -s /etc/passwd guest.sock",
		"closed folder":     "rm guest.sock; chmod 0 .",
		"churn":             "for i in $(seq 50); do rm -rf guest.sock; mkdir guest.sock; rmdir guest.sock; ln -s x guest.sock; done",
		"full of temporary": "for i in $(seq 300); do : >.$i; done; rm guest.sock",
	} {
		t.Run(name, func(t *testing.T) {
			must(t, os.Chmod(g.dir, 0o700)) // the case before may have closed it
			run(t, first, sandbox.Command{Args: []string{"sh", "-c", script}, Dir: g.dir})
			c := g.client(client.Options{}) // waits for the socket
			must(t, c.Ping(context.Background()))
			must(t, first.Ping(context.Background()))
			c.Close()
		})
	}
}

// TestDialRefuses connects to nothing that is not a socket, and through no
// link.
func TestDialRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, make := range map[string]func() error{
		"nothing": func() error { return nil },
		"link":    func() error { return os.Symlink("/run/elsewhere.sock", dir+"/guest.sock") },
		"file":    func() error { return os.WriteFile(dir+"/guest.sock", nil, 0o600) },
		"pipe":    func() error { return unix.Mkfifo(dir+"/guest.sock", 0o600) },
		"folder":  func() error { return os.Mkdir(dir+"/guest.sock", 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			defer os.RemoveAll(dir + "/guest.sock")
			must(t, make())
			_, _, err := client.Dial(context.Background(), dir, "guest.sock")
			codeIs(t, err, sandbox.CodeUnavailable)
		})
	}
}

// TestStrangersAreRefused connects from inside, where only relays may.
func TestStrangersAreRefused(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		testenv.Lack(t, "python3", "it is not installed")
	}
	g := startGuest(t)
	c := g.client(client.Options{})
	for name, addr := range map[string]string{"socket": strconv.Quote(g.dir + "/guest.sock"), "abstract": `"\0bulkhead-sandbox-guest"`} {
		script := fmt.Sprintf(`
import socket
for i in range(300):
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect(%s)
        s.settimeout(5)
        print("served" if s.recv(1) else "closed")
    except OSError as e:
        print(e.strerror)
`, addr)
		t.Run(name, func(t *testing.T) {
			got := run(t, c, sandbox.Command{Args: []string{"python3", "-c", script}})
			if strings.Contains(got.stdout, "served") || got.stderr != "" || got.stdout == "" {
				t.Errorf("got %+v", got)
			}
		})
		t.Run(name+" without Landlock", func(t *testing.T) {
			// Not a child of the shell that was entered with: that one has no
			// parent inside, like a relay, and is recognised by its program.
			for _, wrap := range []string{"exec python3 - <<'EOF'\n%s\nEOF", "python3 - <<'EOF'\n%s\nEOF\ntrue"} {
				out, err := g.asUser(fmt.Sprintf(wrap, script))
				if err != nil || strings.Contains(out, "served") || out == "" {
					t.Errorf("got %v %q", err, out)
				}
			}
		})
	}
	must(t, c.Ping(context.Background()))
}
