package attack

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// greet answers like internet.Files, and ends the connection when it is asked to.
func greet() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.RawQuery, "close") {
			w.Header().Set("Connection", "close")
		}
		io.WriteString(w, testenv.Content)
	})
}

// basic returns the credentials of Basic authorization.
func basic(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

// selfSigned returns a certificate that no root signs.
func selfSigned(t testing.TB, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// elsewhere dials a port of this machine instead of every address, and reports
// the original one.
func elsewhere(port int) func(context.Context, netip.AddrPort) (net.Conn, error) {
	return func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:"+itoa(port))
		return &posing{c, to}, err
	}
}

// A posing connection reports another remote address.
type posing struct {
	net.Conn
	as netip.AddrPort
}

func (p *posing) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(p.as) }

// A framed listener has connections that are not TCP, like those forwarded
// over frames.
type framed struct{ net.Listener }

func (f framed) Accept() (net.Conn, error) {
	c, err := f.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &frames{c}, nil
}

type frames struct{ net.Conn }

func (f *frames) CloseWrite() error { return f.Conn.(*net.TCPConn).CloseWrite() }
