package client_test

import (
	"context"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/client"
	"golang.org/x/sys/unix"
)

// TestPassedThousand listens and closes a thousand times, many at once, with
// and without connections, and counts what is left.
func TestPassedThousand(t *testing.T) {
	passing(t, func(t *testing.T, g *guest, c *client.Client) {
		must(t, tcpListener(t, c).Close())
		own, theirs := descriptors(t, os.Getpid()), descriptors(t, g.pid())
		var wg sync.WaitGroup
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
					if err := l.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if got := listeners(t, g.pid()); got != 0 {
			t.Errorf("%d sockets listen", got)
		}
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
		t.Skip("there are too few descriptors to be had for this")
	}
	fd, at := theirListener(t)
	l := tcpListener(t, seller(t, listeningAt(at), func(g traitor) { g.hands(listenerPacket, fd) }))
	crowd := func(n int) { connectMany(t, ware{fd, at}, loopback4, n) }
	var open []net.Conn
	for range most / 8 {
		crowd(8) // which is what the listener's queue holds
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
	crowd(2)
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
