package testenv

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// client reaches the internet directly, as nothing in a sandbox does.
func client(t *testing.T, n *Internet) *http.Client {
	t.Helper()
	tr := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: n.Authority.Pool},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			found, err := n.Names.LookupNetIP(ctx, "ip", host)
			if err != nil {
				return nil, err
			}
			var d net.Dialer
			return d.DialContext(ctx, network, net.JoinHostPort(found[0].String(), port))
		},
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func get(t *testing.T, c *http.Client, address string) (int, string) {
	t.Helper()
	r, err := c.Get(address)
	must(t, err)
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	must(t, err)
	return r.StatusCode, string(body)
}

func TestHostsAnswerByBothSchemes(t *testing.T) {
	defer None(t, goleak.IgnoreCurrent())
	t.Run("run", func(t *testing.T) {
		n := NewInternet(t)
		n.ServeGit()
		c := client(t, n)
		for _, tt := range []struct {
			name, path string
			code       int
			want       string
		}{
			{Files, "/greeting.txt", 200, Content},
			{Files, "/zeros?n=100001", 200, strings.Repeat("\x00", 100_001)},
			{Files, "/zeros?n=-1", 400, "n is a number of bytes"},
			{Index, "/simple/greeting/", 200, wheelName},
			{Registry, "/greeting", 200, tarballName},
			{Modules, "/" + PackageModule + "/@v/list", 200, moduleVersion},
			{Git, Repository + "/info/refs?service=git-upload-pack", 200, "refs/heads/main"},
			{Echo, "/a?b=c", 200, "GET /a?b=c\nHost: echo.test"},
			{Redirect, "/?code=307&to=http%3A%2F%2Fother.test%2F", 307, "other.test"},
			{"nobody.test", "/", 404, "not found"},
		} {
			for _, scheme := range []string{"http", "https"} {
				before := n.Hits(tt.name)
				code, body := get(t, c, n.URL(scheme, tt.name, tt.path))
				if code != tt.code || !strings.Contains(body, tt.want) {
					t.Errorf("%s %s%s: %d %.200q, want %d and %.40q", scheme, tt.name, tt.path, code, body, tt.code, tt.want)
				}
				if got := n.Hits(tt.name); got != before+1 {
					t.Errorf("%s counts %d requests after %d", tt.name, got, before)
				}
			}
		}
	})
}

func TestUpgradeSendsEverythingBack(t *testing.T) {
	n := NewInternet(t)
	c, err := net.Dial("tcp", n.At("http", "127.0.0.1"))
	must(t, err)
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(30*time.Second)))
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+Upgrade+"\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	br := bufio.NewReader(c)
	r, err := http.ReadResponse(br, nil)
	must(t, err)
	if r.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status %d", r.StatusCode)
	}
	io.WriteString(c, "hello")
	got := make([]byte, 5)
	if _, err := io.ReadFull(br, got); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestSlowHostHoldsItsClient(t *testing.T) {
	n := NewInternet(t)
	r, err := client(t, n).Get(n.URL("http", Slow, "/"))
	must(t, err)
	defer r.Body.Close()
	one := make([]byte, 1)
	if _, err := io.ReadFull(r.Body, one); err != nil || one[0] != '.' {
		t.Errorf("%q, %v", one, err)
	}
}

func TestNamesFollowTheirScript(t *testing.T) {
	n := newNames()
	first, second := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("::1")
	broken := errors.New("broken")
	n.Set("turn.test", Reply{Addrs: []netip.Addr{first}}, Reply{Addrs: []netip.Addr{second}}, Reply{Err: broken})
	n.Set("gone.test")
	look := func(name string) ([]netip.Addr, error) { return n.LookupNetIP(t.Context(), "ip", name) }
	for i, want := range []netip.Addr{first, second} {
		if got, err := look("Turn.test."); err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("lookup %d: %v, %v", i, got, err)
		}
	}
	for range 2 {
		if _, err := look("turn.test"); !errors.Is(err, broken) {
			t.Errorf("the last answer does not stay: %v", err)
		}
	}
	for _, name := range []string{"gone.test", "example.com"} {
		if got, err := look(name); err == nil {
			t.Errorf("%s is %v", name, got)
		}
	}
	if got, err := look("any.test"); err != nil || !got[0].IsLoopback() {
		t.Errorf("any.test is %v, %v", got, err)
	}
	n.Set("hang.test", Reply{Hang: true})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := n.LookupNetIP(ctx, "ip", "hang.test"); !errors.Is(err, context.Canceled) {
		t.Errorf("a lookup that hangs gives %v", err)
	}
	if got, want := strings.Join(n.Asked(), " "), "turn.test turn.test turn.test turn.test gone.test example.com any.test hang.test"; got != want {
		t.Errorf("asked for %s", got)
	}
}

// TestTrapCounts holds that a trap counts.
func TestTrapCounts(t *testing.T) {
	r := &recorder{TB: t}
	p := NewTrap(r, "127.0.0.1")
	c, err := net.Dial("tcp", p.At())
	must(t, err)
	c.Read(make([]byte, 1)) // until the trap has closed it
	c.Close()
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
	if !r.failed || p.Hits() != 1 {
		t.Errorf("%d connections counted, failed: %v", p.Hits(), r.failed)
	}
	if u, err := url.Parse("http://" + p.At()); err != nil || u.Port() == "" || p.Port() == 0 {
		t.Errorf("the trap is at %s", p.At())
	}
}

// A recorder stands in for a test that is expected to fail.
type recorder struct {
	testing.TB
	failed   bool
	cleanups []func()
}

func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) Cleanup(f func())      { r.cleanups = append(r.cleanups, f) }
