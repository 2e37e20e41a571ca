package egress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// An Authority issues certificates for hosts. It is safe for concurrent use.
// Its printed form contains no key.
type Authority struct {
	dir   string
	world world
	key   *ecdsa.PrivateKey // of all leaves of this process; in memory only

	mu     sync.Mutex
	ca     pair
	leaves cache

	publishing sync.Mutex // taken before mu: leaves do not wait for files
	bundle     bundleState
	companies  map[string]companyState // by folder
}

// A world holds the Authority's dependencies on the machine.
type world struct {
	now    func() time.Time
	getenv func(string) string
	roots  []string // files in which the system's roots may be
}

// Open opens the authority in the folder dir, and creates both if there is
// none. Only the current user may be able to write the folder (see
// [statedir.MakePrivate]) and to read the key's file.
//
// Errors are *sandbox.Error: CodePermissionDeny if other users could read or
// change the key, CodeUnavailable if the file is damaged or lost or cannot be
// written; Resource names the file.
func Open(dir string) (*Authority, error) {
	return open(dir, world{now: time.Now, getenv: os.Getenv, roots: rootFiles()})
}

func open(dir string, w world) (*Authority, error) {
	dir, err := statedir.MakePrivate(dir)
	if err != nil {
		return nil, err
	}
	a := &Authority{dir: dir, world: w}
	if a.ca, err = a.load(); err != nil {
		return nil, err
	}
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, statedir.Unavailable("open egress authority", dir, err)
	}
	return a, nil
}

// Leaf returns a certificate with its key for a host, a name or an address as
// [network.Canonical] accepts it. The certificate is valid for a week and
// returned again while it is valid for more than another day. It must not be
// changed.
func (a *Authority) Leaf(host string) (*tls.Certificate, error) {
	h, err := network.Canonical(host)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.world.now()
	if leaf := a.leaves.get(h, now); leaf != nil {
		return leaf, nil
	}
	if err := a.renew(now); err != nil {
		return nil, err
	}
	leaf, err := issue(h, a.ca, a.key, now)
	if err != nil {
		return nil, statedir.Unavailable("issue certificate", h.String(), err)
	}
	a.leaves.put(h, leaf)
	return leaf, nil
}

// renew replaces an old certificate by one that this process or another one
// has made; a.mu is held. While the old certificate is valid for longer than a
// leaf, a folder that cannot be written is not an error.
func (a *Authority) renew(now time.Time) error {
	if !a.ca.aged(now) {
		return nil
	}
	ca, err := a.load()
	if err == nil {
		a.ca = ca
		return nil
	}
	if now.After(a.ca.cert.NotBefore) && now.Add(leafLife).Before(a.ca.cert.NotAfter) {
		return nil
	}
	return err
}

// current returns the authority's certificate, renewed where that is due.
func (a *Authority) current() (*x509.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.renew(a.world.now())
	return a.ca.cert, err
}

// Certificate returns the certificate of the authority itself.
func (a *Authority) Certificate() *x509.Certificate {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ca.cert
}

// Format writes the location of the authority, whatever the verb.
func (a *Authority) Format(s fmt.State, _ rune) {
	_, _ = io.WriteString(s, a.String())
}

// String returns the location of the authority.
func (a *Authority) String() string {
	if a == nil {
		return "no egress authority"
	}
	return "egress authority in " + a.dir
}

// load reads the authority, and creates or renews it under the folder's lock.
func (a *Authority) load() (pair, error) {
	path := filepath.Join(a.dir, keyFile)
	now := a.world.now()
	p, err := readPair(path)
	if err == nil && !p.aged(now) {
		return p, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return pair{}, err
	}
	unlock, err := a.lock()
	if err != nil {
		return pair{}, err
	}
	defer unlock()
	switch p, err = readPair(path); {
	case errors.Is(err, os.ErrNotExist):
		p, err = a.first(now)
	case err == nil && p.aged(now):
		p, err = renewed(p.key, now)
	default:
		return p, err
	}
	if err != nil {
		return pair{}, statedir.Unavailable("make egress authority", path, err)
	}
	return p, statedir.Unavailable("make egress authority", path, p.write(path))
}
