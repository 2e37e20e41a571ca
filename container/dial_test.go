package container_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/go-connections/sockets"
	"github.com/docker/go-connections/tlsconfig"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// certificates makes a folder of ca.pem, cert.pem and key.pem, the certificate
// one for both sides at 127.0.0.1.
func certificates(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	newKey := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	put := func(name, kind string, der []byte, err error) {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	caKey, key := newKey(), newKey()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "engine authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "engine"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	put("ca.pem", "CERTIFICATE", der, err)
	der, err = x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	put("cert.pem", "CERTIFICATE", der, err)
	der, err = x509.MarshalECPrivateKey(key)
	put("key.pem", "EC PRIVATE KEY", der, err)
	return dir
}

// serveEngine answers at l as an engine that has no container.
func serveEngine(t *testing.T, l net.Listener) {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		if strings.HasSuffix(r.URL.Path, "/_ping") {
			_, _ = w.Write([]byte("OK")) // else the caller sees an error
			return
		}
		reply(404, `{"message":"No such container: x"}`)(w, r)
	}))
	srv.Listener.Close()
	srv.Listener = l
	srv.Config.ErrorLog = nil
	srv.Start()
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		testenv.None(t)
	})
}

// secureEngine is an engine at a port that wants certificates of dir, and
// returns its address.
func secureEngine(t *testing.T, dir string) string {
	t.Helper()
	config, err := tlsconfig.Server(tlsconfig.Options{
		CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem"),
		ClientAuth: tls.RequireAndVerifyClientCert, ExclusiveRootPools: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := sockets.NewTCPSocket("127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	serveEngine(t, l)
	return "tcp://" + l.Addr().String()
}

// ask returns what an engine says about a container that it does not have.
func ask(t *testing.T, address, dir, verify string) error {
	t.Helper()
	t.Setenv("DOCKER_HOST", address)
	t.Setenv("DOCKER_CERT_PATH", dir)
	t.Setenv("DOCKER_TLS_VERIFY", verify)
	t.Setenv("DOCKER_API_VERSION", "")
	api, err := container.Dial()
	if err != nil {
		return err
	}
	e := container.New(api, container.Deadlines{})
	defer e.Close()
	_, err = e.Inspect(t.Context(), "x")
	return err
}

// TestDialTLS holds that certificates are shown to an engine behind TLS and its
// own is verified, with DOCKER_TLS_VERIFY and without.
func TestDialTLS(t *testing.T) {
	ours, others := certificates(t), certificates(t)
	address := secureEngine(t, ours)
	for _, verify := range []string{"1", ""} {
		if err := ask(t, address, ours, verify); !sandbox.IsNotFound(err) {
			t.Errorf("verify %q, certificates of the engine's authority: %v", verify, err)
		}
		err := ask(t, address, others, verify)
		var se *sandbox.Error
		if !errors.As(err, &se) || se.Code != sandbox.CodeUnavailable || !strings.Contains(se.Message, "certificate") || !strings.Contains(se.Hint, "DOCKER_CERT_PATH") {
			t.Errorf("verify %q, certificates of another authority: %v", verify, err)
		}
	}
	if err := ask(t, address, "", ""); err == nil || sandbox.IsNotFound(err) {
		t.Errorf("an engine that wants certificates answered without: %v", err)
	}
}

// TestDialSocket holds that a socket is spoken to without TLS, whatever the
// variables of TLS say.
func TestDialSocket(t *testing.T) {
	at := filepath.Join(t.TempDir(), "engine.sock")
	l, err := sockets.NewUnixSocketWithOpts(at, sockets.WithChmod(0o600))
	if err != nil {
		t.Fatal(err)
	}
	serveEngine(t, l)
	for _, dir := range []string{"", certificates(t)} {
		if err := ask(t, "unix://"+at, dir, "1"); !sandbox.IsNotFound(err) {
			t.Errorf("certificates %q: %v", dir, err)
		}
	}
}

// TestDialRefuses holds that nothing is dialled with less than what the
// variables ask for, and that the error names the variable.
func TestDialRefuses(t *testing.T) {
	whole := certificates(t)
	without := func(name, content string) string {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, name)
		if err := os.Remove(at); err != nil {
			t.Fatal(err)
		}
		if content != "" {
			if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	const tcp = "tcp://127.0.0.1:1"
	tests := map[string]struct{ address, dir, field, says string }{
		"verify without certificates": {tcp, "", "DOCKER_CERT_PATH", "names no certificates"},
		"no folder":                   {tcp, "/nonexistent", "DOCKER_CERT_PATH", "ca.pem"},
		"no authority":                {tcp, without("ca.pem", ""), "DOCKER_CERT_PATH", "ca.pem"},
		"authority is no certificate": {tcp, without("ca.pem", "x"), "DOCKER_CERT_PATH", "ca.pem"},
		"no certificate":              {tcp, without("cert.pem", ""), "DOCKER_CERT_PATH", "cert.pem"},
		"no key":                      {tcp, without("key.pem", ""), "DOCKER_CERT_PATH", "key.pem"},
		"key is no key":               {tcp, without("key.pem", "x"), "DOCKER_CERT_PATH", "private key"},
		"https address":               {"https://127.0.0.1:1", "", "DOCKER_CERT_PATH", "names no certificates"},
		"pipe of another system":      {"npipe:////./pipe/engine", "", "DOCKER_HOST", "of that kind"},
		"no address":                  {"engine", "", "DOCKER_HOST", "bad engine address"},
		"path too long":               {"unix:///" + strings.Repeat("x", 200), "", "DOCKER_HOST", "too long"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := ask(t, tc.address, tc.dir, "1")
			var se *sandbox.Error
			if !errors.As(err, &se) || se.Code != sandbox.CodeValidation || se.Field != tc.field || se.Hint == "" || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want field %s and %q", err, tc.field, tc.says)
			}
		})
	}
}
