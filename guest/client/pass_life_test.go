package client_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"golang.org/x/sys/unix"
)

// TestPassedThousand listens and closes a thousand times, many at once, with
// and without connections, and counts what is left.
func TestPassedThousand(t *testing.T) {
	passing(t, func(t *testing.T, g *guest, c *client.Client) {
		must(t, tcpListener(t, c).Close())
		g.rest(c)
		own, theirs := descriptors(t, os.Getpid()), descriptors(t, g.pid())
		var wg sync.WaitGroup
		var slow atomic.Bool
		for worker := range 4 {
			wg.Go(func() {
				for i := range 250 {
					l, err := c.Listen(context.Background(), "tcp", "127.0.0.1:0")
					if err != nil {
						t.Error(err)
						return
					}
					if worker == 0 && i%10 == 0 {
						near := dial(t, c, "tcp", l.Addr().String())
						far, err := l.Accept()
						if err != nil {
							t.Error(err)
							return
						}
						echoed(t, near, far)
						near.Close()
						far.Close()
					}
					begin := time.Now()
					if err := l.Close(); err != nil {
						t.Error(err)
					}
					if time.Since(begin) >= time.Second { // it waits no longer for what it promises
						slow.Store(true)
					}
				}
			})
		}
		wg.Wait()
		var within time.Duration
		if slow.Load() {
			within = patience
		}
		eventually(t, within, "the client has detached", func() bool { return listeners(t, g.pid()) == 0 })
		must(t, c.Ping(context.Background()))
		eventually(t, 20*time.Second, "descriptors are given back", func() bool {
			return descriptors(t, os.Getpid()) <= own && descriptors(t, g.pid()) <= theirs
		})
		if rss := g.rss(); rss > 16<<20 {
			t.Errorf("the guest has %d bytes", rss)
		}
	})
}

// TestPassedIsBounded has more connect than a listener takes: the others wait
// inside, and come when there is room.
func TestPassedIsBounded(t *testing.T) {
	const most = 4096
	var lim unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &lim))
	if lim.Cur < 3*most {
		testenv.Lack(t, "nofile", fmt.Sprintf("only %d descriptors may be open, and this takes %d", lim.Cur, 3*most))
	}
	fd, at := theirListener(t)
	l := tcpListener(t, seller(t, listeningAt(at), func(g traitor) { g.hands(listenerPacket, fd) }))
	callers := func(n int) { connectMany(t, ware{fd, at}, loopback4, n) }
	var open []net.Conn
	for range most / 8 {
		callers(8) // which is what the listener's queue holds
		for range 8 {
			conn, err := l.Accept()
			must(t, err)
			open = append(open, conn)
		}
	}
	t.Cleanup(func() {
		for _, conn := range open {
			conn.Close()
		}
	})
	callers(2)
	setDeadline := l.(interface{ SetDeadline(time.Time) error }).SetDeadline
	must(t, setDeadline(time.Now().Add(100*time.Millisecond)))
	if _, err := l.Accept(); !os.IsTimeout(err) {
		t.Fatalf("one more: %v", err)
	}
	must(t, setDeadline(time.Now().Add(forwardWithin)))
	for i := range 2 {
		must(t, open[i].Close())
	}
	for range 2 {
		conn, err := l.Accept()
		must(t, err)
		open = append(open, conn)
	}
}

// probeServe is a host that listens inside, accepts one connection and stays.
func probeServe(args []string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "serve:", err)
			os.Exit(1)
		}
	}
	conn, _, err := client.Dial(context.Background(), args[0], "guest.sock")
	fail(err)
	c, err := client.New(context.Background(), conn, client.Options{Offer: true})
	fail(err)
	l, err := c.Listen(context.Background(), "tcp", "127.0.0.1:0")
	fail(err)
	fmt.Println(l.Addr())
	accepted, err := l.Accept()
	fail(err)
	_, err = accepted.Write([]byte("x"))
	fail(err)
	<-c.Done()
}

// TestPassedHostKilled kills a host that listens inside: nothing listens any
// more, and who was connected hears of it.
func TestPassedHostKilled(t *testing.T) {
	g := startGuest(t)
	other := g.client(client.Options{})
	g.rest(other)
	before := descriptors(t, g.pid())
	self, err := os.Executable()
	must(t, err)
	host := exec.Command(self, g.dir)
	host.Env = append(os.Environ(), probeEnv+"=serve")
	host.Stderr = os.Stderr
	out, err := host.StdoutPipe()
	must(t, err)
	must(t, host.Start())
	t.Cleanup(func() {
		_ = host.Process.Kill()
		_ = host.Wait()
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	conn := dial(t, other, "tcp", strings.TrimSpace(addr))
	must(t, conn.SetReadDeadline(time.Now().Add(forwardWithin)))
	_, err = conn.Read(make([]byte, 1))
	must(t, err)
	if got := listeners(t, g.pid()); got != 1 {
		t.Fatalf("%d sockets listen", got)
	}
	must(t, host.Process.Kill())
	_ = host.Wait()
	if got := listeners(t, g.pid()); got != 0 {
		t.Errorf("%d sockets listen", got)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("who was connected hears %v", err)
	}
	conn.Close()
	eventually(t, 10*time.Second, "the guest lets go", func() bool { return descriptors(t, g.pid()) <= before })
}
