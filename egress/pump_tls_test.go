package egress

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
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// A listener is the connection below TLS. It notes whether a close_notify was
// attempted: only that sets a write deadline, except after Close.
type listener struct {
	*net.TCPConn
	closed, closeNotify atomic.Bool
}

// NetConn marks the listener as equivalent to its connection.
func (l *listener) NetConn() *net.TCPConn { return l.TCPConn }

// Close implements net.Conn.
func (l *listener) Close() error {
	l.closed.Store(true)
	return l.TCPConn.Close()
}

// SetWriteDeadline implements net.Conn.
func (l *listener) SetWriteDeadline(at time.Time) error {
	if !l.closed.Load() {
		l.closeNotify.Store(true)
	}
	return l.TCPConn.SetWriteDeadline(at)
}

// secured returns the two ends of TLS, as used with an upstream proxy, and the
// connection below the first.
func secured(t *testing.T) (near, far *tls.Conn, below *listener) {
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
	below = &listener{TCPConn: a}
	near = tls.Client(below, &tls.Config{InsecureSkipVerify: true})
	far = tls.Server(b, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	done := make(chan error, 1)
	go func() { done <- far.Handshake() }()
	if err := errors.Join(near.Handshake(), <-done); err != nil {
		t.Fatal(err)
	}
	return near, far, below
}

// TestTLS checks that a connection over TLS half-closes in order.
func TestTLS(t *testing.T) {
	program, inside := tcp(t)
	outside, host, _ := secured(t)
	m := newMeter(Limits{})
	defer m.Close()
	end := make(chan result, 1)
	go func() {
		in, out, err := bothPump(t.Context(), inside, outside, m)
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

// TestTLSIsCutOff checks that a host over TLS that reads nothing does not
// delay the end, and gets no close_notify.
func TestTLSIsCutOff(t *testing.T) {
	program, inside := tcp(t)
	outside, host, below := secured(t)
	m := newMeter(Limits{})
	defer m.Close()
	ctx, cancel := context.WithCancel(t.Context())
	end := make(chan result, 1)
	go func() {
		in, out, err := bothPump(ctx, inside, outside, m)
		end <- result{in, out, err}
	}()
	stuff(t, program)
	cancel()
	if r := ended(t, end); !errors.Is(r.err, context.Canceled) {
		t.Errorf("%+v", r)
	}
	if below.closeNotify.Load() { // a close_notify would be attempted for seconds
		t.Error("a close_notify was sent")
	}
	if _, err := io.Copy(io.Discard, host); err == nil || errors.Is(err, io.EOF) {
		t.Error("the host was told that all was in order")
	}
	cutOff(t, program)
}
