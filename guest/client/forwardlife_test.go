package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"go.uber.org/goleak"
)

// TestForwardEndsWithConnection ends the connection to the guest in three
// ways: both ends of what it forwarded hear of it, and its addresses are
// free again.
func TestForwardEndsWithConnection(t *testing.T) {
	for name, end := range map[string]func(g *guest, c *client.Client, conn net.Conn){
		"closed":       func(_ *guest, c *client.Client, _ net.Conn) { c.Close() },
		"cut":          func(_ *guest, _ *client.Client, conn net.Conn) { conn.Close() },
		"guest killed": func(g *guest, _ *client.Client, _ net.Conn) { _ = g.cmd.Process.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			g := startGuest(t)
			raw := g.connect()
			c, err := client.New(context.Background(), raw, client.Options{Name: "box"})
			must(t, err)
			other := g.client(client.Options{})
			l := listen(t, c, "tcp", "127.0.0.1:0")
			theirs := dial(t, other, "tcp", l.Addr().String())
			ours, err := l.Accept()
			must(t, err)
			waiting := dial(t, other, "tcp", l.Addr().String()) // never accepted
			echoed(t, ours, theirs)
			must(t, ours.SetDeadline(time.Time{}))
			ended := make(chan error, 3)
			go func() { _, err := ours.Read(make([]byte, 1)); ended <- err }()
			go func() {
				var err error
				for err == nil {
					_, err = ours.Write(make([]byte, 1<<20))
				}
				ended <- err
			}()
			go func() {
				var err error
				for err == nil { // the one that waits comes first
					_, err = l.Accept()
				}
				ended <- err
			}()
			end(g, c, raw)
			for range cap(ended) {
				select {
				case err := <-ended:
					codeIs(t, err, sandbox.CodeUnavailable)
				case <-time.After(forwardWithin):
					t.Fatal("it still waits")
				}
			}
			_, err = c.Dial(context.Background(), "tcp", "127.0.0.1:1")
			codeIs(t, err, sandbox.CodeUnavailable)
			must(t, theirs.SetReadDeadline(time.Now().Add(forwardWithin)))
			if _, err := io.Copy(io.Discard, theirs); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the other end hears nothing")
			}
			if name == "guest killed" {
				return
			}
			must(t, waiting.SetReadDeadline(time.Now().Add(forwardWithin)))
			if _, err := io.Copy(io.Discard, waiting); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("who waited to be accepted hears nothing")
			}
			eventually(t, 5*time.Second, "the address is free", func() bool {
				again, err := other.Listen(context.Background(), "tcp", l.Addr().String())
				if err == nil {
					again.Close()
				}
				return err == nil
			})
		})
	}
}

// TestForwardListenerIsBounded has more connect than a listener takes: the
// others wait inside, and come when there is room.
func TestForwardListenerIsBounded(t *testing.T) {
	c := startGuest(t).client(client.Options{})
	l := listen(t, c, "tcp", "127.0.0.1:0")
	const most, more = 256, 20
	for range most + more {
		dial(t, c, "tcp", l.Addr().String()) // the kernel's queue takes the others
	}
	accepted := make(chan net.Conn, most+more)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	var open []net.Conn
	for range most {
		open = append(open, <-accepted)
	}
	select {
	case <-accepted:
		t.Fatalf("more than %d were accepted", most)
	case <-time.After(100 * time.Millisecond):
	}
	for _, conn := range open[:more] {
		conn.Close()
	}
	// A closed connection has ended when its other end has been closed too.
	for range more {
		select {
		case conn := <-accepted:
			conn.Close()
		case <-time.After(100 * time.Millisecond):
			return // they wait for their other ends, which is right
		}
	}
}

// TestForwardSlowConsumer: one that never reads stalls its own stream only,
// and costs a window.
func TestForwardSlowConsumer(t *testing.T) {
	long(t)
	g := startGuest(t)
	c := g.client(client.Options{})
	before := ownMemory()
	var stuck []net.Conn
	big := make([]byte, 1<<20)
	for range 20 {
		near, far := forwardPipe(t, c, "tcp")
		go func() {
			var err error
			for err == nil {
				_, err = far.Write(big)
			}
		}()
		stuck = append(stuck, near)
	}
	near, far := forwardPipe(t, c, "tcp")
	for range 200 {
		echoed(t, near, far)
		run(t, c, sandbox.Command{Args: []string{"true"}})
	}
	if grown := ownMemory() - before; grown > 24<<20 {
		t.Errorf("the client grew by %d bytes", grown)
	}
	if rss := g.rss(); rss > 16<<20 {
		t.Errorf("the guest has %d bytes", rss)
	}
	for _, conn := range stuck { // they can be gone on with
		if _, err := io.CopyN(io.Discard, conn, 8<<20); err != nil {
			t.Errorf("a stalled connection: %v", err)
		}
	}
}

// TestForwardLeavesNothing counts goroutines and descriptors of both sides.
func TestForwardLeavesNothing(t *testing.T) {
	g := startGuest(t)
	g.connect().Close()
	known := goleak.IgnoreCurrent()
	c, err := client.New(context.Background(), g.connect(), client.Options{})
	must(t, err)
	run(t, c, sh("true"))
	own, theirs := descriptors(t, os.Getpid()), descriptors(t, g.pid())
	l, err := c.Listen(context.Background(), "tcp", "127.0.0.1:0")
	must(t, err)
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				_, _ = io.Copy(conn, conn)
				conn.Close()
			})
		}
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 100 {
				conn, err := c.Dial(context.Background(), "tcp", l.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = conn.Write([]byte("x"))
				if i%3 != 0 {
					_, _ = conn.Read(make([]byte, 1))
				}
				conn.Close()
			}
		})
	}
	wg.Wait()
	must(t, l.Close())
	served.Wait()
	eventually(t, 20*time.Second, "descriptors are given back", func() bool {
		return descriptors(t, os.Getpid()) <= own && descriptors(t, g.pid()) <= theirs
	})
	if rss := g.rss(); rss > 16<<20 {
		t.Errorf("the guest has %d bytes", rss)
	}
	c.Close()
	testenv.None(t, known)
}

// queueFull listens and accepts nothing, at a TCP port and at a socket, with
// full queues: who connects waits.
const queueFull = `
use Socket;
socket(S, PF_INET, SOCK_STREAM, 0); bind(S, sockaddr_in(7100, inet_aton("127.0.0.1"))) or die; listen(S, 0);
socket(U, PF_UNIX, SOCK_STREAM, 0); bind(U, sockaddr_un($ARGV[0])) or die; listen(U, 0);
for (1, 2) { socket(my $c, PF_INET, SOCK_STREAM, 0); connect($c, sockaddr_in(7100, inet_aton("127.0.0.1"))) or die if $_ == 1; push @c, $c }
socket(V, PF_UNIX, SOCK_STREAM, 0); connect(V, sockaddr_un($ARGV[0])) or die;
$| = 1; print "ready\n"; sleep 1000;`

// TestForwardDialIsCancelled ends the context of a dial that cannot succeed.
func TestForwardDialIsCancelled(t *testing.T) {
	g := startGuest(t)
	c := g.client(client.Options{})
	path := socketPath(t)
	p, _ := start(t, context.Background(), c, sandbox.Command{Args: []string{"perl", "-e", queueFull, path}})
	defer p.Kill(context.Background())
	g.restBeside(c, 1)
	before := descriptors(t, g.pid())
	for network, addr := range map[string]string{"tcp": "127.0.0.1:7100", "unix": path} {
		t.Run(network, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			begin := time.Now()
			_, err := c.Dial(ctx, network, addr)
			codeIs(t, err, sandbox.CodeTimeout)
			if took := time.Since(begin); took > patience { // the kernel would try for longer
				t.Errorf("took %v", took)
			}
			eventually(t, 5*time.Second, "the guest gives up too", func() bool { return descriptors(t, g.pid()) <= before })
		})
	}
	must(t, c.Ping(context.Background()))
}

// TestForwardUnderProcessLimit forwards when not one more thread is to be
// had inside.
func TestForwardUnderProcessLimit(t *testing.T) {
	const limit = 64
	group := pidsCgroup(t, limit)
	g := startGuest(t, inCgroup(group))
	c := g.client(client.Options{})
	l := listen(t, c, "tcp", "127.0.0.1:0")
	p, err := c.Start(context.Background(), filler)
	must(t, err)
	eventually(t, time.Minute, "the limit is reached", group.limitReached)
	for range 20 {
		near := dial(t, c, "tcp", l.Addr().String())
		far, err := l.Accept()
		must(t, err)
		echoed(t, near, far)
		far.Close()
	}
	must(t, p.Kill(context.Background()))
	must(t, c.Ping(context.Background()))
}
