// Internet: this part of the package is a small internet of a test's own, on loopback: servers
// for the protocols of the usual tools, an authority that they have
// certificates of, and a resolver for their names. Nothing in it ever reaches
// beyond this machine.
//
// All hosts share one port for plain HTTP and one for TLS, both at 127.0.0.1,
// and are distinguished by their names, which end in ".test". What matters to a
// test of a proxy is counted: the requests that each host saw, the names that
// were looked up, and the connections to a [Trap], which no client may reach.

package testenv

import (
	"bytes"
	"crypto/tls"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The hosts. Any other name that ends in ".test" can be looked up as well and
// answers 404, which tells a request that came through from one that did not.
const (
	Files    = "files.test"    // plain files, see [Content]
	Index    = "index.test"    // a Python package index with one wheel
	Registry = "registry.test" // an npm registry with one package
	Modules  = "modules.test"  // a Go module proxy with one module
	Git      = "git.test"      // one repository over smart HTTP, after [Internet.ServeGit]
	Echo     = "echo.test"     // answers with the request as it arrived
	Redirect = "redirect.test" // ?to=URL redirects there, with ?code=307 as well
	Slow     = "slow.test"     // a byte, and nothing more until the client is gone
	Upgrade  = "upgrade.test"  // 101, and from then on whatever is sent
	Other    = "other.test"    // serves files like Files; no test allows it
)

// Content is what the file /greeting.txt holds on Files and Other.
const Content = "hello from the allowed host\n"

// An Internet is one set of running servers. It is safe for concurrent use
// and ends with its test.
type Internet struct {
	Authority *internetAuthority
	Names     *internetNames

	plain, secure int // ports
	t             testing.TB

	mu    sync.Mutex
	hits  map[string]int          // by name without port
	hosts map[string]http.Handler // by name
	watch func(*http.Request)     // or nil
}

// New starts the servers.
func NewInternet(t testing.TB) *Internet {
	t.Helper()
	n := &Internet{Authority: newAuthority(t), Names: newNames(), t: t, hits: map[string]int{}}
	n.hosts = map[string]http.Handler{
		Files: files(), Other: files(), Index: newIndex(t), Registry: newRegistry(t), Modules: newModules(t),
		Echo: http.HandlerFunc(echo), Redirect: http.HandlerFunc(redirect),
		Slow: http.HandlerFunc(slow), Upgrade: http.HandlerFunc(upgrade),
	}
	n.plain = n.serve(nil)
	n.secure = n.serve(&tls.Config{GetCertificate: n.Authority.leaf, MinVersion: tls.VersionTLS12})
	return n
}

// Handle makes h answer for a name, from now on.
func (n *Internet) Handle(name string, h http.Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[name] = h
}

// Watch has fn look at every request before it is answered, from now on. It is
// called for one request at a time.
func (n *Internet) Watch(fn func(*http.Request)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watch = fn
}

// answerer counts the request and returns who answers for the name.
func (n *Internet) answerer(name string, r *http.Request) http.Handler {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hits[name]++
	if n.watch != nil {
		n.watch(r)
	}
	if h := n.hosts[name]; h != nil {
		return h
	}
	return http.NotFoundHandler()
}

// serve serves the hosts at a free port until the end of the test.
func (n *Internet) serve(c *tls.Config) int {
	n.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(n.t, err)
	port := l.Addr().(*net.TCPAddr).Port
	if c != nil {
		l = tls.NewListener(l, c)
	}
	var noise bytes.Buffer // clients that hang up in a handshake are part of the tests
	s := &http.Server{
		ReadHeaderTimeout: time.Minute, ErrorLog: log.New(&noise, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name, _, _ := strings.Cut(strings.ToLower(r.Host), ":")
			n.answerer(name, r).ServeHTTP(w, r)
		}),
	}
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(l) }()
	n.t.Cleanup(func() { s.Close(); <-done })
	return port
}

// Hits returns how many requests the host has seen.
func (n *Internet) Hits(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hits[name]
}

// Port returns the port of the scheme "http" or "https".
func (n *Internet) Port(scheme string) int {
	if scheme == "https" {
		return n.secure
	}
	return n.plain
}

// URL returns the address of a path on a host; path begins with a slash.
func (n *Internet) URL(scheme, name, path string) string {
	return scheme + "://" + n.At(scheme, name) + path
}

// At returns "name:port" for the scheme.
func (n *Internet) At(scheme, name string) string {
	return net.JoinHostPort(name, strconv.Itoa(n.Port(scheme)))
}

// Allowed returns the rules that let the names be reached, and the addresses
// that they stand for, which are loopback's and need naming.
func (n *Internet) Allowed(names ...string) []string {
	return append(names, "127.0.0.1:"+strconv.Itoa(n.plain), "127.0.0.1:"+strconv.Itoa(n.secure))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
