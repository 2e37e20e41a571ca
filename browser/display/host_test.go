package display_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// pretend starts a DevTools protocol server on this host, like that of a
// browser started by a person, and returns its address.
func pretend(t *testing.T) string {
	t.Helper()
	c := dockertest.OpenBrowser(t, dockertest.BrowserOptions{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			out, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer out.Close()
				in, err := c.Dial(ctx, "tcp", "127.0.0.1:9222")
				if err != nil {
					return
				}
				defer in.Close()
				stop := context.AfterFunc(ctx, func() { out.Close(); in.Close() })
				defer stop()
				var both sync.WaitGroup
				both.Go(func() { _, _ = io.Copy(in, out); in.Close() })
				both.Go(func() { _, _ = io.Copy(out, in); out.Close() })
				both.Wait()
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		l.Close()
		all.Wait()
	})
	return "http://" + l.Addr().String()
}

// TestHostBrowser checks that a browser of the host is used if settings say so
// explicitly, that it is never reported as isolated, and that nothing is
// created for it.
func TestHostBrowser(t *testing.T) {
	t.Parallel()
	address := pretend(t)
	r := on(t, `"allowHostControl":true,"hostCdpUrl":"`+address+`"`, "")
	ctx := patient(t)
	started, err := r.Start(ctx, of("a"))
	must(t, err)
	if !started.NotIsolated || started.Sandbox || started.Created || started.Name != "" || !strings.HasPrefix(started.Version, "Chrome/") {
		t.Errorf("started %+v", started)
	}
	served, err := r.Serve(ctx, of("a"))
	must(t, err)
	if !served.NotIsolated || !strings.Contains(served.WebSocketDebuggerURL, "/devtools/browser/") {
		t.Errorf("served %+v", served)
	}
	must(t, served.Close())
	if _, err := r.Watch(ctx, of("a"), false); sandbox.CodeOf(err) != sandbox.CodeUnsupported {
		t.Errorf("watched: %v", err)
	}
	s, err := r.Session(ctx, of("a"), browser.Rights{})
	must(t, err)
	if _, err := s.Navigate(ctx, "http://169.254.169.254/"); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Errorf("an address of the machine: %v", err)
	}
	must(t, s.Close())
	if there, err := r.m.BrowserExists(ctx, of("a").Who, nil); err != nil || there {
		t.Errorf("a container was made: %v, %v", there, err)
	}
}

// TestHostBrowserThatIsNotThere checks that no other browser is used if the
// host's browser does not answer.
func TestHostBrowserThatIsNotThere(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := "http://" + l.Addr().String()
	must(t, l.Close())
	r := on(t, `"allowHostControl":true,"hostCdpUrl":"`+address+`"`, "")
	ctx := patient(t)
	if _, err := r.Start(ctx, of("a")); sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(err.Error(), "browser.hostCdpUrl") || !strings.Contains(err.Error(), address) || strings.Contains(err.Error(), ":9222") {
		t.Errorf("got %v", err)
	}
	if there, err := r.m.BrowserExists(ctx, of("a").Who, nil); err != nil || there {
		t.Errorf("a container was made: %v, %v", there, err)
	}
}
