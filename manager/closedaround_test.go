//go:build linux

package manager_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestResolverFails takes the resolver away in the ways that happen, and gives
// it back.
func TestResolverFails(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		reply  testenv.Reply
		status string
	}{
		"down":     {testenv.Reply{Err: errors.New("connection refused")}, "502"},
		"SERVFAIL": {testenv.Reply{Err: &net.DNSError{Err: "server misbehaving", Name: testenv.Files, IsTemporary: true}}, "502"},
		"NXDOMAIN": {testenv.Reply{}, "502"},
		"hanging":  {testenv.Reply{Hang: true}, "504"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := newFort(t, "local")
			p := f.pollTunnels()
			f.net.Names.Set(testenv.Files, tt.reply)
			n := 10
			if tt.reply.Hang {
				n = 3
			}
			p.refused(n, tt.status)
			f.net.Names.Set(testenv.Files, testenv.Reply{Addrs: []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}})
			p.next(3, "200")
		})
	}
}

// A relayProxy is a proxy behind ours that can be ended.
type relayProxy struct {
	l  net.Listener
	mu sync.Mutex
	of []net.Conn
}

func newRelayProxy(t *testing.T) *relayProxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &relayProxy{l: l}
	t.Cleanup(p.end)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.of = append(p.of, c)
			p.mu.Unlock()
			go serveConnect(c)
		}
	}()
	return p
}

func serveConnect(c net.Conn) {
	defer c.Close()
	br := bufio.NewReader(c)
	req, err := http.ReadRequest(br)
	if err != nil {
		return
	}
	_, port, _ := net.SplitHostPort(req.Host)
	to, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return
	}
	defer to.Close()
	io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		io.Copy(to, br)
		to.Close()
	}()
	io.Copy(c, to)
}

func (p *relayProxy) end() {
	p.l.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.of {
		c.Close()
	}
}

// TestUpstreamProxyDies holds that nothing goes past a proxy that the
// orchestrator has to use, also when it is gone.
func TestUpstreamProxyDies(t *testing.T) {
	t.Parallel()
	var behind *relayProxy
	var past atomic.Int64
	f := newFort(t, "local", func(f *fort, _ *statedir.Dir) {
		for _, name := range []string{testenv.Files, held} {
			f.net.Names.Set(name, testenv.Reply{Addrs: []netip.Addr{netip.AddrFrom4([4]byte{1, 2, 3, 4})}})
		}
		f.dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			if !to.Addr().IsLoopback() {
				past.Add(1)
				return nil, errors.New("nothing leaves this machine")
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", to.String())
		}
		behind = newRelayProxy(t)
		var err error
		f.upstream, err = egress.UpstreamFrom(func(name string) string {
			if name == "HTTPS_PROXY" || name == "HTTP_PROXY" {
				return "http://" + behind.l.Addr().String()
			}
			return ""
		})
		must(t, err)
	})
	p := f.poll()
	behind.mu.Lock()
	used := len(behind.of)
	behind.mu.Unlock()
	if used == 0 {
		t.Fatal("the proxy behind ours is not used")
	}
	behind.end()
	p.shut("502")
	if n := past.Load(); n != 0 {
		t.Errorf("%d connections were made past the proxy", n)
	}
}

// TestSecretIsTakenAway holds that a host gets neither the secret nor its
// stand-in once the secret cannot be read any more, and that nothing runs then
// which would need it.
func TestSecretIsTakenAway(t *testing.T) {
	t.Parallel()
	onForts(t, func(f *fort) {
		host := &heard{}
		file := filepath.Join(f.t.TempDir(), "token")
		f.net.Handle("api.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			os.Remove(file)
			host.serve(w, r)
		}))
		must(f.t, os.WriteFile(file, []byte(secretValue), 0o600))
		f.bind(file)
		url := "'" + f.net.URL("https", "api.test", "/") + "'"
		line := `curl -s -o answer -w '%{http_code}\n' -H "Authorization: Bearer $TOKEN" ` + url
		r, err := f.try(nil, line+"; "+line+"; cat answer >&2")
		must(f.t, err)
		if reported := string(r.Stderr); !strings.Contains(reported, "cannot be had") || strings.Contains(reported, filepath.Dir(file)) {
			f.t.Errorf("the inside is told %q", reported)
		}
		answers := strings.Fields(string(r.Stdout))
		if len(answers) != 2 || answers[0] != "200" || answers[1] == "200" {
			f.t.Errorf("answers %q", answers)
		}
		if !slices.Equal(host.all, []string{"Bearer " + secretValue}) {
			f.t.Errorf("the host has heard %q", host.all)
		}
		f.CloseEgress()
		f.refusesToRun(sandbox.CodeUnavailable)
	})
}

// bind has the settings bind the secret of a file to api.test. The sandbox is
// made anew for it.
func (f *fort) bind(file string) {
	f.reloadWith(func(s *config.SandboxSettings) {
		s.Network = f.allowing("api.test").Network
		s.Network.Secrets = map[string]config.SecretSettings{
			"TOKEN": {Hosts: []string{"api.test:" + strconv.Itoa(f.net.Port("https"))}, From: config.SecretSource{File: file}},
		}
	})
	f.who.Session = "with-secret"
}

// TestAuthorityIsNotOursAlone holds that nothing runs that needs our authority
// when others can read its key, or when the key is lost but its certificate is
// still trusted.
func TestAuthorityIsNotOursAlone(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(dir string) error{
		"the key is readable":    func(dir string) error { return os.Chmod(filepath.Join(dir, "authority.pem"), 0o644) },
		"the folder is writable": func(dir string) error { return os.Chmod(dir, 0o777) },
		"the key is garbage":     func(dir string) error { return os.WriteFile(filepath.Join(dir, "authority.pem"), []byte("x"), 0o600) },
	} {
		t.Run(what, func(t *testing.T) {
			for _, kind := range []string{"docker", "local"} {
				t.Run(kind, func(t *testing.T) {
					f := emptyFort(t, kind, func(_ *fort, state *statedir.Dir) {
						_, err := egress.Open(state.Egress())
						must(t, err)
						must(t, spoil(state.Egress()))
					})
					file := filepath.Join(t.TempDir(), "token")
					must(t, os.WriteFile(file, []byte(secretValue), 0o600))
					f.bind(file)
					r, err := f.try(nil, "echo ran")
					if code := sandbox.CodeOf(err); code != sandbox.CodePermissionDeny && code != sandbox.CodeUnavailable || len(r.Stdout) > 0 {
						t.Errorf("%s, %v", r.Stdout, err)
					}
				})
			}
		})
	}
}

// TestEvidenceOnAFullDisk checks that where records are required no connection
// passes that cannot be recorded, and that the failure is reported elsewhere.
func TestEvidenceOnAFullDisk(t *testing.T) {
	t.Parallel()
	onForts(t, func(f *fort) {
		filler := filepath.Join(f.state.Evidence(), "filler")
		for _, required := range []bool{false, true} {
			f.part(strconv.FormatBool(required), nil, func() {
				f.reloadWith(func(s *config.SandboxSettings) {
					s.Network, s.RequireEvidence = f.allowing(testenv.Files, held).Network, &required
				})
				p := f.poll()
				fill(f.t, filler)
				if required {
					p.refused(7, "403")
					if _, err := f.try(nil, "true"); sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(err.Error(), "requireEvidence") {
						f.t.Errorf("the next command: %v", err)
					}
				} else {
					p.next(5, "200")
					f.within("the log tells it", func() bool { return strings.Contains(f.log.String(), "not on record") })
				}
				must(f.t, os.Remove(filler))
				p.next(3, "200")
				p.end()
			})
		}
	}, func(f *fort, state *statedir.Dir) {
		smallDisk(f.t, state.Evidence())
	})
}

// smallDisk puts a small file system of its own at dir.
func smallDisk(t *testing.T, dir string) {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o700))
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700,size=400k"); err != nil {
		testenv.Lack(t, "mount", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

// fill takes what is left of the disk.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	must(t, err)
	defer f.Close()
	for _, size := range []int{4096, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
}
