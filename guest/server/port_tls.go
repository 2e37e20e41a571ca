//go:build linux && sandbox_guest_tls

package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// portBacklog is how many connections the kernel keeps for the port.
const portBacklog = 512

// bindPort returns a socket that listens at a TCP port of all addresses.
func bindPort(port uint16) (*os.File, error) {
	open := func(family int, at unix.Sockaddr) (*os.File, error) {
		fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, os.NewSyscallError("socket", err)
		}
		// The kernel gives the port of a socket that listens to no other, without
		// SO_REUSEPORT. SO_REUSEADDR is for the connections of a guest that ran
		// here before and was ended.
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		if err == nil && family == unix.AF_INET6 {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
		}
		if err == nil {
			err = unix.Bind(fd, at)
		}
		if err == nil {
			err = unix.Listen(fd, portBacklog)
		}
		if err != nil {
			unix.Close(fd)
			return nil, os.NewSyscallError("listen", err)
		}
		return os.NewFile(uintptr(fd), "port"), nil
	}
	f, err := open(unix.AF_INET6, &unix.SockaddrInet6{Port: int(port)})
	if err != nil { // there is no IPv6 here
		f, err = open(unix.AF_INET, &unix.SockaddrInet4{Port: int(port)})
	}
	return f, err
}

const (
	// maxEnrolled bounds the clients that are let in. One more takes the place of the
	// oldest, which enrolls anew.
	maxEnrolled = 64
	// maxGreeting bounds the connections that have shown no certificate yet.
	maxGreeting = 32
	// greetWithin bounds how long one may take to do so.
	greetWithin = 5 * time.Second
)

// A port lets clients in that have a certificate.
type port struct {
	srv      *Server
	number   uint16
	greeting chan struct{} // holds a token for each connection without a certificate

	mu       sync.Mutex
	identity *tls.Certificate // nil before the first client
	clients  [][sha256.Size]byte
}

// openPort binds the port and serves it.
func (s *Server) openPort(number uint16) error {
	f, err := bindPort(number)
	if err != nil {
		return err
	}
	l, err := net.FileListener(f) // with a descriptor of its own
	s.own.add(f)                  // for good: both descriptors are of one socket
	if err != nil {
		return err
	}
	s.port = &port{srv: s, number: number, greeting: make(chan struct{}, maxGreeting)}
	s.features = append(s.features, wire.FeatureEnroll)
	go s.port.serve(l)
	return f.Close()
}

// serve takes connections for as long as the guest lives.
func (p *port) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many descriptors; some are given back
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if fromInside(c) {
			abort(c)
			continue
		}
		select {
		case p.greeting <- struct{}{}:
			go p.greet(c)
		default:
			abort(c)
		}
	}
}

// abort closes c and keeps nothing of it in the kernel.
func abort(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	c.Close()
}

// fromInside reports whether the peer is in our own network namespace: commands
// connect from a loopback address or one of the pod's. They could not show a
// certificate, but would take the room of those that can.
func fromInside(c net.Conn) bool {
	remote, ok := c.RemoteAddr().(*net.TCPAddr)
	local, too := c.LocalAddr().(*net.TCPAddr)
	if !ok || !too || remote.IP.IsLoopback() || remote.IP.Equal(local.IP) {
		return true
	}
	addresses, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(addresses, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(remote.IP)
	})
}

// greet serves a connection whose peer has shown a certificate that was enrolled.
func (p *port) greet(c net.Conn) {
	served := false
	defer func() {
		<-p.greeting
		if !served {
			abort(c)
		}
	}()
	p.mu.Lock()
	identity := p.identity
	p.mu.Unlock()
	if identity == nil || c.SetDeadline(time.Now().Add(greetWithin)) != nil {
		return
	}
	secure := tls.Server(c, &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*identity}, SessionTicketsDisabled: true,
		ClientAuth: tls.RequireAnyClientCert, VerifyConnection: p.verify,
	})
	if secure.Handshake() != nil || c.SetDeadline(time.Time{}) != nil {
		return
	}
	served = true
	p.srv.admitPort(secure)
}

// verify refuses a client whose certificate was not enrolled. That it has the key of
// it package tls has verified.
func (p *port) verify(s tls.ConnectionState) error {
	sum := sha256.Sum256(s.PeerCertificates[0].Raw) // there is one: it is required
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.clients, sum) {
		return errors.New("the certificate was not enrolled")
	}
	return nil
}

// enroll lets the client with the certificate in.
func (p *port) enroll(m wire.Enroll) (wire.Enrolled, error) {
	if _, err := x509.ParseCertificate(m.Certificate); err != nil {
		return wire.Enrolled{}, errors.New("this is no certificate")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.identity == nil {
		identity, err := newIdentity(p.srv.boot)
		if err != nil {
			return wire.Enrolled{}, err
		}
		p.identity = identity
	}
	sum := sha256.Sum256(m.Certificate)
	p.clients = append(slices.DeleteFunc(p.clients, func(had [sha256.Size]byte) bool { return had == sum }), sum)
	if len(p.clients) > maxEnrolled {
		p.clients = slices.Delete(p.clients, 0, 1)
	}
	return wire.Enrolled{Port: p.number, Certificate: p.identity.Certificate[0]}, nil
}

// newIdentity makes a key and a certificate of it for name. It does not expire: it
// ends with the guest, whose clock may differ from that of its clients.
func newIdentity(name string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// admitPort serves a connection over the port in the background, or closes it when
// there are too many.
func (s *Server) admitPort(c net.Conn) {
	select {
	case s.conns <- struct{}{}:
		go func() {
			defer func() { <-s.conns }()
			s.serve(c, nil, nil)
		}()
	default:
		abort(c)
	}
}

var _ transport = (*tls.Conn)(nil)
var _ transport = (*os.File)(nil)
