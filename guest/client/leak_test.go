package client_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"go.uber.org/goleak"
)

// descriptors counts the open files of a process.
func descriptors(t testing.TB, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	must(t, err)
	return len(entries)
}

// children counts the children of a process, zombies included.
func children(t testing.TB, pid int) int {
	t.Helper()
	n := 0
	tasks, err := filepath.Glob("/proc/[0-9]*/stat")
	must(t, err)
	for _, f := range tasks {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		var state string
		var parent int
		fmt.Sscan(rest, &state, &parent)
		if parent == pid {
			n++
		}
	}
	return n
}

// rest has the guest run something, and waits until it has its one spare shim:
// the first is begun while it serves already.
func (g *guest) rest(c *client.Client) {
	g.t.Helper()
	g.restBeside(c, 0)
}

// restBeside is rest while n commands run.
func (g *guest) restBeside(c *client.Client, n int) {
	g.t.Helper()
	run(g.t, c, sh("true"))
	eventually(g.t, patience, "the guest is at rest with one more stage", func() bool { return children(g.t, g.pid()) == n+1 })
}

// TestNames holds that people find the guest in a list of processes.
func TestNames(t *testing.T) {
	g := startGuest(t)
	g.rest(g.client(client.Options{})) // there is a shim, and it has its name
	found, err := filepath.Glob("/proc/[0-9]*/status")
	must(t, err)
	n := 0
	for _, f := range found {
		b, err := os.ReadFile(f)
		pid := filepath.Base(filepath.Dir(f))
		if err != nil || pid != fmt.Sprint(g.pid()) && !strings.Contains(string(b), fmt.Sprintf("\nPPid:\t%d\n", g.pid())) {
			continue
		}
		n++
		if !strings.HasPrefix(string(b), "Name:\tsandbox-guest\n") {
			t.Errorf("process %s is called otherwise:\n%.40s", pid, b)
		}
	}
	if n < 2 {
		t.Errorf("%d processes", n)
	}
}

func TestManyCommands(t *testing.T) {
	g := startGuest(t)
	conn := g.connect()
	conn.Close()
	known := goleak.IgnoreCurrent()
	c, err := client.New(context.Background(), g.connect(), client.Options{})
	must(t, err)
	run(t, c, sh("true"))
	own, theirs := descriptors(t, os.Getpid()), descriptors(t, g.pid())

	t.Run("one after the other", func(t *testing.T) {
		for i := range testenv.Rounds(100, 400, 2000) {
			if got := run(t, c, sandbox.Command{Args: []string{"sh", "-c", "echo $0", fmt.Sprint(i)}}); got.stdout != fmt.Sprintln(i) {
				t.Fatalf("%d: got %+v", i, got)
			}
		}
	})
	t.Run("at once", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				got := run(t, c, sandbox.Command{Args: []string{"sh", "-c", "cat; sleep 0.2; echo $0 >&2; exit 7", fmt.Sprint(i)}, Stdin: strings.NewReader(fmt.Sprint("in", i))})
				if got.stdout != fmt.Sprint("in", i) || got.stderr != fmt.Sprintln(i) || got.exit.Code != 7 {
					t.Errorf("%d: got %+v", i, got)
				}
			})
		}
		wg.Wait()
	})
	eventually(t, 20*time.Second, "the guest is at rest with one stage", func() bool { return children(t, g.pid()) == 1 })
	eventually(t, 5*time.Second, "descriptors are given back", func() bool {
		return descriptors(t, os.Getpid()) <= own && descriptors(t, g.pid()) <= theirs
	})
	c.Close()
	testenv.None(t, known)
}

// TestIdleFootprint checks what an idle sandbox costs.
func TestIdleFootprint(t *testing.T) {
	g := startGuest(t)
	c := g.client(client.Options{})
	for range 50 {
		run(t, c, sh("true"))
	}
	eventually(t, 20*time.Second, "one stage is left", func() bool { return children(t, g.pid()) == 1 })
	var private, resident, threads int64
	dirs, err := filepath.Glob("/proc/[0-9]*")
	must(t, err)
	for _, d := range dirs {
		b, err := os.ReadFile(d + "/cmdline")
		ns, nsErr := os.Readlink(d + "/ns/pid")
		mine, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", g.pid()))
		if err != nil || nsErr != nil || ns != mine || !strings.HasPrefix(string(b), "sandbox-guest\x00") {
			continue
		}
		var pid int
		fmt.Sscanf(filepath.Base(d), "%d", &pid)
		resident += rssOf(t, pid)
		threads += statusField(t, pid, "Threads:")
		private += statusField(t, pid, "RssAnon:") << 10
	}
	t.Logf("resident %d KiB, of that anonymous %d KiB, %d threads", resident>>10, private>>10, threads)
	if resident > 8<<20 || private > 4<<20 {
		t.Errorf("resident %d, anonymous %d bytes", resident, private)
	}
}

func TestReadyTag(t *testing.T) {
	g := startGuest(t)
	a := g.client(client.Options{})
	if a.Hello().Ready != "" || len(a.Hello().BootID) != 32 || a.Hello().PID != 1 {
		t.Errorf("got %+v", a.Hello())
	}
	must(t, a.SetReady(context.Background(), "onstart-1"))
	b := g.client(client.Options{})
	if b.Hello().Ready != "onstart-1" || b.Hello().BootID != a.Hello().BootID {
		t.Errorf("got %+v", b.Hello())
	}
	other := startGuest(t).client(client.Options{})
	if other.Hello().Ready != "" || other.Hello().BootID == a.Hello().BootID {
		t.Errorf("got %+v", other.Hello())
	}
}

func TestBinarySafe(t *testing.T) {
	c := startGuest(t).client(client.Options{})
	var all strings.Builder
	for i := range 256 {
		all.WriteByte(byte(i))
	}
	in := strings.Repeat(all.String(), 5000)
	got := run(t, c, sandbox.Command{Args: []string{"cat"}, Stdin: strings.NewReader(in)})
	if got.stdout != in {
		t.Errorf("%d bytes of %d came back", len(got.stdout), len(in))
	}
	if got = run(t, c, sandbox.Command{Args: []string{"printf", "%s", "\xff\xfe no newline"}}); got.stdout != "\xff\xfe no newline" {
		t.Errorf("got %+v", got)
	}
	// A program that closes its input early does not hang the sender.
	if got = run(t, c, sandbox.Command{Args: []string{"head", "-c", "1"}, Stdin: strings.NewReader(in)}); got.stdout != "\x00" {
		t.Errorf("got %+v", got)
	}
}

func TestStreamsInOrder(t *testing.T) {
	c := startGuest(t).client(client.Options{})
	var both strings.Builder
	cmd := sh("for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; done")
	cmd.Stdout, cmd.Stderr = &both, &both
	run(t, c, cmd)
	if both.String() != "o1\ne1\no2\ne2\no3\ne3\no4\ne4\no5\ne5\n" {
		t.Errorf("got %q", &both)
	}
}
