package kubernetes

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"maps"
	"math/big"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

const (
	// routeWithin bounds the tries of a port whose use was not asked for, and
	// askedWithin of one that was. Plugins open a policy some time after a pod has
	// begun to run.
	routeWithin = 2 * time.Second
	askedWithin = 30 * time.Second
	// connectWithin bounds the first try to connect, and each further one twice as
	// long as the one before: a plugin that has not opened the port yet drops what
	// comes, and the kernel itself would send that again only after a second.
	connectWithin = 400 * time.Millisecond
	// routeAgain is how long the ports of a node are left alone that was not reached.
	routeAgain = time.Minute
	// maxPeers bounds the guests that are remembered.
	maxPeers = 20_000
)

// portWay reaches guests by a TCP port of their pods, with TLS 1.3 and certificates
// on both sides.
//
// No key is an object of the cluster or part of a pod. The key of this process lies
// in its memory, and so does the key of each guest in its own. They exchange their
// certificates over a stream through the API server, which has authenticated both
// ends: once for each start of a guest, and for each process that reaches it.
// Each side takes exactly the certificate of the other one, so that no other sandbox
// can stand in for it, nor a pod that has got its address.
type portWay struct {
	now func() time.Time

	identity func() (tls.Certificate, error)

	mu     sync.Mutex
	peers  map[types.UID]peer     // by pod
	closed map[string]unreachable // by node
}

// A peer is a guest with a port, as it was when this process enrolled with it.
type peer struct {
	name  string // that its certificate is for
	roots *x509.CertPool
	port  uint16
}

// unreachable is why the ports of a node were not reached, and when.
type unreachable struct {
	at  time.Time
	why error
}

func newPortWay(now func() time.Time) *portWay {
	return &portWay{now: now, identity: sync.OnceValues(newIdentity), peers: map[types.UID]peer{}, closed: map[string]unreachable{}}
}

// newIdentity makes the key of this process and a certificate of it. It does not
// expire: it ends with the process, and clocks of nodes differ.
func newIdentity() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// known opens a session with the guest of a pod that this process has enrolled with.
// Any error means that it has to enroll anew: the guest was started again, or the
// port is not reached.
func (w *portWay) known(ctx context.Context, pod *corev1.Pod) (*client.Client, error) {
	w.mu.Lock()
	p, ok := w.peers[pod.UID]
	w.mu.Unlock()
	if !ok {
		return nil, errors.New("the guest is not known")
	}
	ctx, done := context.WithTimeout(ctx, routeWithin)
	defer done()
	c, err := w.dial(ctx, pod, p, routeWithin)
	if err != nil {
		w.forget(pod.UID)
	}
	return c, err
}

// enroll exchanges certificates with the guest over c, a session through the API
// server, and opens one over the port, within a bound.
func (w *portWay) enroll(ctx context.Context, c *client.Client, pod *corev1.Pod, within time.Duration) (*client.Client, error) {
	identity, err := w.identity()
	if err != nil {
		return nil, err
	}
	guest, err := c.Enroll(ctx, identity.Certificate[0])
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(guest.Certificate)
	if err != nil {
		return nil, err
	}
	p := peer{name: c.Hello().BootID, roots: x509.NewCertPool(), port: guest.Port}
	p.roots.AddCert(cert)
	ctx, done := context.WithTimeout(ctx, within)
	defer done()
	var last error
	for patience := connectWithin; ; patience *= 2 {
		over, err := w.dial(ctx, pod, p, patience)
		if err == nil {
			w.remember(pod.UID, p)
			return over, nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		var refused *net.OpError
		if ctx.Err() == nil && !errors.As(err, &refused) { // it is reached, and is not the one that it is to be
			return nil, last
		}
		select { // a plugin may open the port in a moment
		case <-ctx.Done():
			return nil, last
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// dial opens a session over the port. The time patience bounds the connecting.
func (w *portWay) dial(ctx context.Context, pod *corev1.Pod, p peer, patience time.Duration) (*client.Client, error) {
	identity, err := w.identity()
	if err != nil {
		return nil, err
	}
	if pod.Status.PodIP == "" {
		return nil, errors.New("the pod has no address")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{identity}, RootCAs: p.roots, ServerName: p.name}
	d := net.Dialer{Timeout: patience}
	plain, err := d.DialContext(ctx, "tcp", net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(p.port))))
	if err != nil {
		return nil, err
	}
	conn := tls.Client(plain, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = plain.Close() // it may be closed already
		return nil, err
	}
	return client.New(ctx, conn, client.Options{Name: pod.Name})
}

func (w *portWay) remember(pod types.UID, p peer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, had := w.peers[pod]; !had && len(w.peers) >= maxPeers {
		clear(w.peers) // each enrolls once more
	}
	w.peers[pod] = p
}

func (w *portWay) forget(pod types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.peers, pod)
}

// missing returns why the ports of a node are left alone, or nil.
func (w *portWay) missing(node string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	u, ok := w.closed[node]
	if !ok || w.now().Sub(u.at).Abs() >= routeAgain {
		return nil
	}
	return u.why
}

// found notes whether the ports of a node are reached, and reports whether that is
// news.
func (w *portWay) found(node string, why error) (news bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, had := w.closed[node]
	if why == nil {
		delete(w.closed, node)
		return had
	}
	w.closed[node] = unreachable{w.now(), why}
	return !had
}

// outcomes says of each node whose ports were not reached why.
func (w *portWay) outcomes() map[string]error {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]error{}
	for node, u := range w.closed {
		if w.now().Sub(u.at).Abs() < routeAgain {
			out[node] = u.why
		}
	}
	return out
}

// reach opens a session with the guest of the pod: over its port where settings want
// that and it is reached, else over a stream through the API server.
func (p *Provider) reach(ctx context.Context, pod *corev1.Pod, sh shape) (*client.Client, wayTaken, error) {
	node := pod.Spec.NodeName
	if sh.way == wayExec || sh.way == wayAuto && p.port.missing(node) != nil {
		c, err := p.stream(ctx, pod)
		return c, wayExec, err
	}
	if c, err := p.port.known(ctx, pod); err == nil {
		return c, wayTLS, nil
	}
	c, err := p.stream(ctx, pod)
	if err != nil {
		return nil, "", err
	}
	within := askedWithin
	if sh.way == wayAuto {
		within = routeWithin
	}
	over, why := p.port.enroll(ctx, c, pod, within)
	if why == nil {
		p.port.found(node, nil)
		c.Close() // nothing was begun over it
		return over, wayTLS, nil
	}
	if sh.way == wayTLS || ctx.Err() != nil {
		c.Cut()
		return nil, "", noPort(pod, why)
	}
	if sandbox.CodeOf(why) == sandbox.CodeUnsupported { // of this guest, not of the node
		p.o.Warn(pod.Name, "the guest is reached through the API server: its image has no TLS; build it from sandbox-guest-tls")
		return c, wayExec, nil
	}
	if p.port.found(node, why) {
		p.o.Warn(pod.Name, "guests on the node "+node+" are reached through the API server: "+why.Error())
	}
	return c, wayExec, nil
}

// wayNotes say how guests are reached, and where another way is taken than the one
// that is tried first.
func (p *Provider) wayNotes(sh shape) []string {
	port := "the TCP port " + strconv.FormatInt(sh.wayPort, 10) + " of the pod, with certificates on both sides"
	switch {
	case sh.way == wayExec && sh.wayAuto:
		return []string{"the guest is reached by a stream through the API server: nothing says who may connect to its port (kubernetes.wayFromLabels, wayFromCIDRs)"}
	case sh.way == wayExec:
		return []string{"the guest is reached by a stream through the API server (kubernetes.way)"}
	case sh.way == wayTLS:
		return []string{"the guest is reached by " + port + ", and by nothing else (kubernetes.way)"}
	}
	notes := []string{"the guest is reached by " + port + ", or, where that is not reached, by a stream through the API server (kubernetes.way)"}
	closed := p.port.outcomes()
	for _, node := range slices.Sorted(maps.Keys(closed)) {
		notes = append(notes, "guests on the node "+node+" are reached through the API server now: "+termsafe.Line(closed[node].Error()))
	}
	return notes
}

// noPort is the error where the port was asked for and cannot be had.
func noPort(pod *corev1.Pod, why error) error {
	e := &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "connect to the guest", Field: "kubernetes.way", Resource: pod.Name, Err: why, Retryable: true,
		Message: "the guest is not reached by its port", Hint: "let this program in by kubernetes.wayFromLabels and wayFromNamespace, or wayFromCIDRs; or set kubernetes.way to auto"}
	if sandbox.CodeOf(why) == sandbox.CodeUnsupported {
		e.Retryable = false
		e.Message, e.Hint = "the guest has no port with TLS", "build kubernetes.guestImage from sandbox-guest-tls, and run: sandbox recreate; or set kubernetes.way to auto"
	}
	return e
}

// stream opens a session through the API server, with the pod and no other one of its
// name.
func (p *Provider) stream(ctx context.Context, pod *corev1.Pod) (*client.Client, error) {
	ctx, done := context.WithTimeout(ctx, p.o.Call) // a kubelet that has stopped accepts and says nothing
	defer done()
	conn, err := p.way.Connect(ctx, pod)
	if err != nil {
		return nil, err
	}
	c, err := client.New(ctx, conn, client.Options{Name: pod.Name})
	if err != nil {
		conn.Close()
		if why := conn.Explain(); why != nil && !errors.Is(why, context.Canceled) {
			err = why
		}
		return nil, err
	}
	if err := p.same(ctx, pod); err != nil {
		c.Cut()
		return nil, err
	}
	return c, nil
}
