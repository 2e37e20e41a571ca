package operation

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/store"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// stall makes a host that begins a response and then stalls; it signals each
// request when that beginning has been sent.
func (w *world) stall(name string, headToo bool) <-chan struct{} {
	begun := make(chan struct{}, 64)
	w.net.Handle(name, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if headToo {
			rw.Header().Set("Content-Type", "text/plain")
			io.WriteString(rw, "x")
			http.NewResponseController(rw).Flush()
		}
		begun <- struct{}{}
		<-r.Context().Done()
	}))
	return begun
}

// TestRevoked checks that a grant that is revoked ends its request at once,
// wherever that is. The best of some rounds counts: the machine may be busy.
func TestRevoked(t *testing.T) {
	const within, rounds = 200 * time.Millisecond, 10
	for _, headToo := range []bool{false, true} {
		both(t, rules{}, func(t *testing.T, w *world, scheme string) {
			begun := w.stall("stall.test", headToo)
			best := time.Hour
			for range rounds {
				var memory store.Memory
				g := grant.Grant{ID: "g", Expires: time.Now().Add(time.Hour)}
				ctx, done := store.Context(context.Background(), &memory, g)
				var at time.Time
				var wg sync.WaitGroup
				wg.Go(func() {
					<-begun
					at = time.Now()
					if err := memory.Revoke("g", g.Expires); err != nil {
						t.Error(err)
					}
				})
				d := w.do(wish{url: w.net.URL(scheme, "stall.test", "/"), ctx: ctx})
				wg.Wait()
				best = min(best, time.Since(at))
				done()
				w.wants(d, noGrant, "revoked")
				want := 0
				if headToo {
					want = 200
				}
				if s := statuses(d); len(s) != 1 || s[0] != want && s[0] != 0 {
					t.Errorf("%+v", d.effects)
				}
				if best < within {
					return
				}
			}
			t.Errorf("it took %v at best", best)
		})
	}
}

func TestTimes(t *testing.T) {
	both(t, rules{}, func(t *testing.T, w *world, scheme string) {
		w.stall("stall.test", true)
		d := w.do(wish{url: w.net.URL(scheme, "stall.test", "/"), timeout: 50 * time.Millisecond})
		w.wants(d, tooLate, "op.timeout")
		if !retryable(d.err) {
			t.Errorf("%v", d.err)
		}
		ctx, cancel := context.WithTimeoutCause(context.Background(), 50*time.Millisecond, errors.New("whatever it is called"))
		defer cancel()
		d = w.do(wish{url: w.net.URL(scheme, "stall.test", "/"), ctx: ctx})
		w.wants(d, tooLate, "profile.limits.timeout")
		ctx, giveUp := context.WithCancel(context.Background())
		giveUp()
		d = w.do(wish{url: w.net.URL(scheme, "stall.test", "/"), ctx: ctx})
		w.wants(d, tooLate, "gave up")
	})
}

// TestReset checks that a connection which breaks midway is no whole answer.
func TestReset(t *testing.T) {
	both(t, rules{}, func(t *testing.T, w *world, scheme string) {
		for _, head := range []string{"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\n"} {
			w.net.Handle("reset.test", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				c, _, err := http.NewResponseController(rw).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				io.WriteString(c, head+"part")
				if over, ok := c.(interface{ NetConn() net.Conn }); ok {
					c = over.NetConn() // without the closing alert of TLS
				}
				if err := errors.Join(c.(*net.TCPConn).SetLinger(0), c.Close()); err != nil {
					t.Error(err)
				}
			}))
			d := w.do(wish{url: w.net.URL(scheme, "reset.test", "/")})
			w.wants(d, noHost, "ended before")
			if !retryable(d.err) || d.Digest.Size > 4 {
				t.Errorf("%v, %+v", d.err, d.Output)
			}
		}
	})
}

func TestNowhere(t *testing.T) {
	// Only the name that does not resolve has to be waited for.
	both(t, rules{lookup: 50 * time.Millisecond}, func(t *testing.T, w *world, scheme string) {
		w.net.Names.Set("hangs.test", testenv.Reply{Hang: true})
		w.nowhere(scheme, "hangs.test:8080", tooLate)
	})
	both(t, rules{}, func(t *testing.T, w *world, scheme string) {
		w.net.Names.Set("gone.test")
		closed, err := net.Listen("tcp", "127.0.0.1:0")
		fetchMust(t, err)
		_, port, err := net.SplitHostPort(closed.Addr().String())
		fetchMust(t, err)
		fetchMust(t, closed.Close())
		w.nowhere(scheme, "gone.test:8080", noHost)
		w.nowhere(scheme, "closed.test:"+port, noHost)
	})
}

// nowhere checks how a request ends for which no host is found.
func (w *world) nowhere(scheme, address string, code sandbox.Code) {
	w.t.Helper()
	d := w.do(wish{url: scheme + "://" + address + "/"})
	w.wants(d, code, "")
	if !retryable(d.err) || grant.Audit(d.err).Resource != address {
		w.t.Errorf("%v", d.err)
	}
}

// TestWayClosed checks that requests end with the egress session, and that
// later ones get an error that says so.
func TestWayClosed(t *testing.T) {
	both(t, rules{}, func(t *testing.T, w *world, scheme string) {
		begun := w.stall("stall.test", true)
		var wg sync.WaitGroup
		wg.Go(func() {
			<-begun
			w.session.Close()
		})
		d := w.do(wish{url: w.net.URL(scheme, "stall.test", "/")})
		wg.Wait()
		w.wants(d, noHost, "ended before")
		d = w.do(wish{url: w.net.URL(scheme, testenv.Files, "/greeting.txt")})
		w.wants(d, noHost, "closed")
		if !retryable(d.err) || len(d.effects) != 0 {
			t.Errorf("%v, %+v", d.err, d.effects)
		}
	})
}

// TestNoRoom checks that a connection for which there is no room in time fails
// with the limit, also when the proxy answers before it has read a request.
func TestNoRoom(t *testing.T) {
	both(t, rules{limits: config.NetworkLimits{Connections: 1}, queue: 20 * time.Millisecond}, func(t *testing.T, w *world, scheme string) {
		begun := w.stall("stall.test", true)
		ctx, giveUp := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		g := guardOf(t, nil)
		wg.Go(func() {
			if err := w.onceIn(ctx, g, w.net.URL(scheme, "stall.test", "/"), 0); sandbox.CodeOf(err) != tooLate {
				t.Errorf("%v", err)
			}
		})
		<-begun
		for range 20 {
			d := w.do(wish{url: w.net.URL(scheme, testenv.Files, "/greeting.txt")})
			w.wants(d, noBudget, "limits.connections")
			if !retryable(d.err) || scheme == "https" && len(d.effects) != 0 { // a plain answer of 503 could be the host's
				t.Errorf("%v, %+v", d.err, d.effects)
			}
		}
		giveUp()
		wg.Wait()
	})
}

// TestNoRecord checks that nothing leaves without a record where one is required.
func TestNoRecord(t *testing.T) {
	both(t, rules{require: true}, func(t *testing.T, w *world, scheme string) {
		fetchMust(t, w.recorder.Close())
		d := w.do(wish{url: w.net.URL(scheme, testenv.Files, "/greeting.txt")})
		w.wants(d, noHost, "requireEvidence")
		if !retryable(d.err) || len(d.effects) != 0 || w.net.Hits(testenv.Files) != 0 {
			t.Errorf("%v, %+v", d.err, d.effects)
		}
	})
}

func TestFetchManyAtOnce(t *testing.T) {
	w := newWorld(t, rules{})
	results := make(chan error, 64)
	url := w.net.URL("https", testenv.Files, "/zeros?n=100000")
	g := guardOf(t, nil)
	for range cap(results) {
		go func() { results <- w.once(g, url, 100000) }()
	}
	for range cap(results) {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

func TestInside(t *testing.T) {
	ctx := context.Background()
	var in Inside
	if _, err := in.Listen(ctx, "udp", "127.0.0.1:0"); sandbox.CodeOf(err) != sandbox.CodeUnsupported {
		t.Errorf("%v", err)
	}
	l, err := in.Listen(ctx, "tcp", "127.0.0.1:0")
	fetchMust(t, err)
	if _, err := in.Listen(ctx, "tcp", "127.0.0.1:0"); sandbox.CodeOf(err) != sandbox.CodeBusy {
		t.Errorf("%v", err)
	}
	waiting := make(chan error)
	go func() {
		_, err := l.Accept()
		waiting <- err
	}()
	fetchMust(t, l.Close())
	if err := <-waiting; err == nil {
		t.Error("something was accepted")
	}
	if _, err := l.Accept(); err == nil || l.Close() == nil {
		t.Error("closed, and no error")
	}
	again, err := in.Listen(ctx, "tcp", "127.0.0.1:0")
	fetchMust(t, err)
	fetchMust(t, again.Close())
}

// TestRefusedKind checks that an executor does what is its own.
func TestRefusedKind(t *testing.T) {
	w := newWorld(t, rules{})
	if _, err := w.Execute(context.Background(), nil, grant.Vetted{Operation: grant.Operation{Kind: grant.OpFsRead}}); sandbox.CodeOf(err) != sandbox.CodeInternal {
		t.Errorf("%v", err)
	}
}
