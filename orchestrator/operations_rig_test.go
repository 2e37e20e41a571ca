package orchestrator_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	auditrecorder "github.com/bulkhead-dev/sandbox/audit/recorder"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
	"github.com/bulkhead-dev/sandbox/grant/operation"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/orchestrator"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// page is the document that explains operations under grants.
const page = "../docs/grants.md"

// block returns the nth piece of code of a language that the document shows.
func block(language string, nth int) string {
	text, err := os.ReadFile(page)
	check(err)
	all := regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllSubmatch(text, -1)
	if nth >= len(all) {
		panic(fmt.Sprintf("%s shows %d pieces of %s", page, len(all), language))
	}
	return string(all[nth][1])
}

// setting is what a program has before it opens a Control.
func setting() (dir string, s *statedir.Dir, kept *evidence.Store, log *logrus.Logger, r *prometheus.Registry) {
	dir, err := os.MkdirTemp("", "control")
	check(err)
	s, err = statedir.Open(filepath.Join(dir, "state"))
	check(err)
	log = logrus.New()
	log.SetOutput(io.Discard)
	kept, err = evidence.Open(s.Evidence(), evidence.Options{KeyFile: s.EvidenceKey()})
	check(err)
	return dir, s, kept, log, prometheus.NewRegistry()
}

// A house is a program that carries out operations: with the settings that the
// document shows, a sandbox in memory, and an internet that has reports.example
// alone.
type fixture struct {
	*manager.Manager
	ctl      *orchestrator.Control
	evidence *evidence.Store
	release  []func() error // in the order in which they are called
}

func newOrchestrator(observe operation.Observer) *fixture {
	dir, state, kept, log, _ := setting()
	h := &fixture{evidence: kept}
	recorder, err := egress.NewRecorder(egress.RecorderOptions{Evidence: h.evidence, Log: log})
	check(err)
	web, roots, end := reports()
	plane := egress.New(egress.Options{Dialer: web, Record: recorder.Record, Decide: recorder.Decide, Roots: roots})
	h.ctl, err = orchestrator.OpenOperations(orchestrator.OperationsOptions{
		State: state, Log: log, Sinks: []auditrecorder.Sink{auditrecorder.NewFile("evidence", h.evidence)},
		Fetch: orchestrator.Fetch(roots), Observe: observe,
	})
	check(err)
	settings, err := config.Parse(page, []byte(block("jsonc", 0)))
	check(err)
	providers, err := provider.New(imageProvider{fake.New(fake.Options{Name: "docker"})})
	check(err)
	h.Manager, err = manager.New(manager.Options{
		Settings: settings, State: state, Providers: providers, Images: images{}, Log: log,
		Host:    manager.Host{CPUs: 2, Memory: 8 << 30, Guest: func() (sandbox.GuestRef, error) { return sandbox.GuestRef{Dir: "/guest", Digest: "0"}, nil }},
		Control: func() (*manager.Control, error) { return &h.ctl.Control, nil },
		Out: func() (proxy.Server, error) {
			return &egress.Server{Plane: plane, Recorder: recorder, Authority: func() (*egress.Authority, error) { return nil, errors.New("there are no secrets") },
				LookupEnv: func(string) (string, bool) { return "", false }}, nil
		},
	})
	check(err)
	h.release = []func() error{h.Manager.Close, h.ctl.Close, plane.Close, recorder.Close, h.evidence.Close, func() error { end(); return os.RemoveAll(dir) }}
	return h
}

func (h *fixture) close() {
	for _, end := range h.release {
		check(end())
	}
}

// reports is a server that answers as reports.example, and what reaches it.
func reports() (*egress.Dialer, *x509.CertPool, func()) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	own := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"reports.example"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, own, own, &key.PublicKey, key)
	check(err)
	own, err = x509.ParseCertificate(der)
	check(err)
	roots := x509.NewCertPool()
	roots.AddCert(own)
	server := httptest.NewUnstartedServer(http.HandlerFunc(report))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.StartTLS()
	return egress.NewDialer(egress.DialerOptions{Resolver: names{}, Dial: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", server.Listener.Addr().String())
		if err != nil {
			return nil, err
		}
		return remote{c, net.TCPAddrFromAddrPort(to)}, nil
	}}), roots, server.Close
}

// report answers with a report, or redirects the client.
func report(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/moved.csv" {
		http.Redirect(w, r, "https://evil.example/q3.csv", http.StatusFound)
		return
	}
	w.Header().Set("Content-Type", "text/csv")
	_, _ = io.WriteString(w, "quarter,sum\nq3,42\n")
}

// names knows one host.
type names struct{}

func (names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if host != "reports.example" && host != "reports.example." {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
}

// A remote says that it leads to where it was to lead.
type remote struct {
	net.Conn
	to net.Addr
}

func (r remote) RemoteAddr() net.Addr { return r.to }

// An imageProvider is in memory, and made from images as the settings want it.
type imageProvider struct{ *fake.Provider }

// Features implements [sandbox.Provider].
func (w imageProvider) Features() sandbox.Features {
	f := w.Provider.Features()
	f.Images = true
	return f
}

// images has every image.
type images struct{}

func (images) Volumes(context.Context, string) ([]string, error)         { return nil, nil }
func (images) Current(context.Context, string, []string) (string, error) { return "image", nil }
func (images) Ensure(context.Context, string, []string) (string, error)  { return "image", nil }

func check(err error) {
	if err != nil {
		panic(err)
	}
}
