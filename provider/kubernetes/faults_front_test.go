package kubernetes_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bulkhead-dev/sandbox/provider/kubernetes"
)

// A front stands between a provider and the API server, as a load balancer does. It
// breaks connections, and answers requests in place of the server.
type front struct {
	t       testing.TB
	server  *httptest.Server
	rig     *rig
	forward http.Handler

	mu      sync.Mutex
	changed *sync.Cond // of frozen
	frozen  bool       // connections carry nothing
	refuse  bool       // connections are closed as soon as they are made
	conns   map[net.Conn]bool
	answer  func(http.ResponseWriter, *http.Request) bool // reports whether it has answered; may be nil
	seen    []seen
}

// seen is a request that has arrived.
type seen struct {
	at            time.Time
	method, where string
}

func newFront(t testing.TB, r *rig) *front {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", r.kubeconfig)
	must(t, err)
	config.NextProtos = []string{"http/1.1"} // an upgraded connection needs it
	transport, err := rest.TransportFor(config)
	must(t, err)
	to, err := url.Parse(config.Host)
	must(t, err)
	f := &front{t: t, rig: r, conns: map[net.Conn]bool{}}
	f.changed = sync.NewCond(&f.mu)
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetURL(to) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:      quiet(),
	}
	f.forward = proxy
	f.server = httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	f.server.Config.ErrorLog = quiet()
	f.server.EnableHTTP2 = true
	f.server.Listener = gate{f.server.Listener, f}
	f.server.StartTLS()
	t.Cleanup(func() {
		f.cut()
		f.thaw()
		f.server.Close()
		utilnet.CloseIdleConnectionsFor(transport)
	})
	return f
}

func (f *front) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	answer := f.answer
	f.seen = append(f.seen, seen{time.Now(), r.Method, r.URL.RequestURI()})
	f.mu.Unlock()
	if answer == nil || !answer(w, r) {
		f.forward.ServeHTTP(w, r)
	}
}

// answers has f answer requests by answer, which reports whether it has.
func (f *front) answers(answer func(http.ResponseWriter, *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

// requests returns those that have arrived, and forgets them.
func (f *front) requests() []seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.seen
	f.seen = nil
	return out
}

// freeze has all connections carry nothing from now on, while they stay open, and
// new ones be accepted.
func (f *front) freeze() { f.set(func() { f.frozen = true }) }

func (f *front) thaw() { f.set(func() { f.frozen = false }) }

// cut breaks all connections.
func (f *front) cut() {
	f.set(func() {
		for c := range f.conns {
			c.Close()
			delete(f.conns, c)
		}
	})
}

// down has new connections be broken, besides those that there are, until up.
func (f *front) down() {
	f.set(func() { f.refuse = true })
	f.cut()
}

func (f *front) up() { f.set(func() { f.refuse = false }) }

func (f *front) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.changed.Broadcast()
}

// open returns how many connections there are.
func (f *front) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.conns)
}

// provider returns a provider that reaches the API server through f.
func (f *front) provider(t testing.TB, o kubernetes.Options) *kubernetes.Provider {
	t.Helper()
	o.Kubeconfig = f.kubeconfig(t)
	return f.rig.providerWith(t, o)
}

func (f *front) kubeconfig(t testing.TB) string {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
	return writeKubeconfig(t, f.server.URL, authority, "unused")
}

// writeKubeconfig returns a kubeconfig file with a token.
func writeKubeconfig(t testing.TB, server string, authority []byte, token string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"clusters": []any{map[string]any{"name": "x", "cluster": map[string]any{"server": server, "certificate-authority-data": authority}}},
		"users":    []any{map[string]any{"name": "x", "user": map[string]any{"token": token}}},
		"contexts": []any{map[string]any{"name": "x", "context": map[string]any{"cluster": "x", "user": "x"}}},
	})
	must(t, err)
	must(t, os.WriteFile(file, text, 0o600))
	return file
}

// A gate is a listener whose connections a front breaks.
type gate struct {
	net.Listener
	f *front
}

func (g gate) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		g.f.mu.Lock()
		refuse := g.f.refuse
		if !refuse {
			g.f.conns[c] = true
		}
		g.f.mu.Unlock()
		if refuse {
			if tcp, is := c.(*net.TCPConn); is {
				_ = tcp.SetLinger(0) // a reset
			}
			c.Close()
			continue
		}
		return gated{c, g.f}, nil
	}
}

type gated struct {
	net.Conn
	f *front
}

// pass waits while nothing is carried.
func (g gated) pass() {
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	for g.f.frozen && g.f.conns[g.Conn] {
		g.f.changed.Wait()
	}
}

func (g gated) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	g.pass()
	return n, err
}

func (g gated) Write(b []byte) (int, error) {
	g.pass()
	return g.Conn.Write(b)
}

func (g gated) Close() error {
	g.f.set(func() { delete(g.f.conns, g.Conn) })
	return g.Conn.Close()
}

// status answers with an error as the API server writes it.
func status(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // the client may have gone
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Message: message, Reason: reason, Code: int32(code),
	})
}

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// garbage listens with TLS, and answers each connection with bytes that are no HTTP.
func garbage(t testing.TB) (kubeconfig string) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.TLS = &tls.Config{}
	s.StartTLS() // for its certificate
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	config := s.TLS.Clone()
	s.Close()
	config.NextProtos = nil
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	must(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(time.Minute))
				_, _ = c.Read(make([]byte, 4096))
				_, _ = io.WriteString(c, "\x00\xff\x1b[2J no HTTP at all \r\n\r\n")
			})
		}
	})
	t.Cleanup(func() { l.Close(); serving.Wait() })
	return writeKubeconfig(t, "https://"+l.Addr().String(), authority, "x")
}

// until waits until it is so, and fails the test after within.
func until(t testing.TB, within time.Duration, what string, so func() bool) {
	t.Helper()
	ctx, done := context.WithTimeout(t.Context(), within)
	defer done()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("after %v not: %s", within, what)
		}
	}
}

func (s seen) String() string { return fmt.Sprint(s.method, " ", s.where) }
