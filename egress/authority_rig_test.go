package egress

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// A clock is moved by tests.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// An authorityRig is an authority's folder on a simulated machine.
type authorityRig struct {
	dir   string
	clock *clock
	world world
	env   map[string]string
}

func authorityNewRig(t *testing.T) *authorityRig {
	t.Helper()
	r := &authorityRig{dir: filepath.Join(t.TempDir(), "egress"), clock: &clock{at: time.Now()}, env: map[string]string{}}
	roots := filepath.Join(t.TempDir(), "roots.pem")
	writeRoots(t, roots, 2)
	r.world = world{now: r.clock.now, getenv: func(name string) string { return r.env[name] }, roots: []string{"/nonexistent", roots}}
	return r
}

// writeRoots writes n unknown certificates.
func writeRoots(t *testing.T, path string, n int) {
	t.Helper()
	var data []byte
	for range n {
		p, err := made(time.Now())
		authorityMust(t, err)
		data = append(data, pem.EncodeToMemory(&pem.Block{Type: typeCertificate, Bytes: p.cert.Raw})...)
	}
	authorityMust(t, os.WriteFile(path, data, 0o644))
}

func (r *authorityRig) open(t *testing.T) *Authority {
	t.Helper()
	a, err := open(r.dir, r.world)
	authorityMust(t, err)
	return a
}

func (r *authorityRig) path(elem ...string) string {
	return filepath.Join(append([]string{r.dir}, elem...)...)
}

func (r *authorityRig) read(t *testing.T, elem ...string) string {
	t.Helper()
	data, err := os.ReadFile(r.path(elem...))
	authorityMust(t, err)
	return string(data)
}

// certificates returns those in a text of PEM.
func certificates(t *testing.T, text string) (out []*x509.Certificate) {
	t.Helper()
	for b, rest := pem.Decode([]byte(text)); b != nil; b, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(b.Bytes)
		authorityMust(t, err)
		out = append(out, c)
	}
	return out
}

func pool(certs ...*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range certs {
		p.AddCert(c)
	}
	return p
}

func authorityMust(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// authorityRefused checks that err has the code, names the file and says what
// to do.
func authorityRefused(t *testing.T, err error, code sandbox.Code, resource, text string) {
	t.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != code || e.Resource != resource || !strings.Contains(e.Message, text) || e.Hint == "" {
		t.Errorf("got %#v, want %s about %s with %q and a hint", err, code, resource, text)
	}
}
