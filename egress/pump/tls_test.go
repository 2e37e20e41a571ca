package pump_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/egress/meter"
	"github.com/bulkhead-dev/sandbox/egress/pump"
)

// secured returns the two ends of TLS, as it is spoken to an upstream proxy.
func secured(t *testing.T) (near, far *tls.Conn) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, &c, &c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	a, b := tcp(t)
	near = tls.Client(a, &tls.Config{InsecureSkipVerify: true})
	far = tls.Server(b, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	done := make(chan error, 1)
	go func() { done <- far.Handshake() }()
	if err := errors.Join(near.Handshake(), <-done); err != nil {
		t.Fatal(err)
	}
	return near, far
}

// TestTLS holds that a connection over TLS half-closes in order.
func TestTLS(t *testing.T) {
	program, inside := tcp(t)
	outside, host := secured(t)
	m := meter.New(meter.Limits{})
	defer m.Close()
	end := make(chan result, 1)
	go func() {
		in, out, err := pump.Both(t.Context(), inside, outside, m)
		end <- result{in, out, err}
	}()
	_, _ = io.WriteString(program, "question")
	_ = program.CloseWrite()
	if got, err := io.ReadAll(host); err != nil || string(got) != "question" {
		t.Errorf("%q, %v", got, err)
	}
	_, _ = io.WriteString(host, "answer")
	_ = host.Close()
	if got, err := io.ReadAll(program); err != nil || string(got) != "answer" {
		t.Errorf("%q, %v", got, err)
	}
	if r := ended(t, end); r != (result{6, 8, nil}) {
		t.Errorf("%+v", r)
	}
}

// TestTLSIsCutOff holds that a host over TLS that reads nothing delays no end,
// and is not told that all was in order.
func TestTLSIsCutOff(t *testing.T) {
	program, inside := tcp(t)
	outside, host := secured(t)
	m := meter.New(meter.Limits{})
	defer m.Close()
	ctx, cancel := context.WithCancel(t.Context())
	end := make(chan result, 1)
	go func() {
		in, out, err := pump.Both(ctx, inside, outside, m)
		end <- result{in, out, err}
	}()
	stuff(t, program)
	start := time.Now()
	cancel()
	if r := ended(t, end); !errors.Is(r.err, context.Canceled) || time.Since(start) > 4*time.Second { // a farewell would be tried for 5
		t.Errorf("%+v after %v", r, time.Since(start))
	}
	if _, err := io.Copy(io.Discard, host); err == nil || errors.Is(err, io.EOF) {
		t.Error("the host was told that all was in order")
	}
	cutOff(t, program)
}
