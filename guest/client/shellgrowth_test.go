package client_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestShellTenThousandLines runs that many lines of every kind in one shell,
// and looks for what they could leave behind in the guest, the descriptor store
// and the shell.
func TestShellTenThousandLines(t *testing.T) {
	t.Parallel()
	long(t)
	lines := testenv.Rounds(200, 400, 10_000)
	g := startGuest(t)
	s := openShell(t, g.client(client.Options{}), sandbox.ShellOptions{})
	long := ": " + strings.Repeat("long ", 200)
	run := func(i int) {
		switch i % 5 {
		case 0:
			lineWith(t, s, "read x; echo $x", sandbox.Command{Stdin: strings.NewReader("in\n")})
		case 1:
			line(t, s, long)
		case 2:
			line(t, s, "sleep 0.001 &")
		case 3:
			p, err := s.Run(context.Background(), "echo unheard", sandbox.Command{})
			must(t, err)
			_, err = p.Wait()
			must(t, err)
		case 4:
			line(t, s, "fi; grep -q x /nowhere")
		}
	}
	for i := range 200 {
		run(i)
	}
	pids := []int{g.pid(), pidOf(t, g, "sandbox-guest\x00hold\x00keep"), pidOf(t, g, "bash\x00--norc")}
	look := func() (own [3]int64, fds [3]int) {
		for i, pid := range pids {
			own[i], fds[i] = ownedBy(t, pid), descriptors(t, pid)
		}
		return own, fds
	}
	own, fds := look()
	for i := range lines {
		run(i)
	}
	var now [3]int64
	var open [3]int
	defer func() { t.Logf("before %d KiB, %d descriptors; after %d, %d", kib(own), fds, kib(now), open) }()
	// The guest's heap goes up and down by about as much as is allowed here,
	// until it has come to rest and has given back what it does not use.
	eventually(t, 20*time.Second, "everything is given back", func() bool {
		now, open = look()
		for i := range pids {
			if open[i] > fds[i]+4 || now[i] > own[i]+1<<20 {
				return false
			}
		}
		return true
	})
}

func kib(b [3]int64) (k [3]int64) {
	for i := range b {
		k[i] = b[i] >> 10
	}
	return k
}

// TestShellThousand opens and closes that many shells, some with a line, some
// that have ended, some in the middle of one.
func TestShellThousand(t *testing.T) {
	long(t)
	shells := testenv.Rounds(40, 60, 1000)
	g := startGuest(t)
	c := g.client(client.Options{})
	run := func(i int) {
		s, err := c.OpenShell(context.Background(), sandbox.ShellOptions{}, sandbox.Limits{})
		must(t, err)
		switch i % 4 {
		case 0:
			line(t, s, fmt.Sprintf("x=%d; sleep 1000 &", i))
		case 1:
			line(t, s, "exit")
		case 2:
			_, err := s.Run(context.Background(), "sleep 1000", sandbox.Command{})
			must(t, err)
		}
		must(t, s.Close())
	}
	for i := range 40 {
		run(i)
	}
	own, theirs, rss := descriptors(t, os.Getpid()), descriptors(t, g.pid()), rssOf(t, g.pid())
	for i := range shells {
		run(i)
	}
	g.empty(10 * time.Second)
	eventually(t, 10*time.Second, "descriptors and memory are given back", func() bool {
		return descriptors(t, os.Getpid()) <= own+8 && descriptors(t, g.pid()) <= theirs+8 && rssOf(t, g.pid()) <= rss+2<<20
	})
}
