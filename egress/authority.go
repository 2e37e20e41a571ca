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
// Nothing that is printed of it shows a key.
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

// A world is what an Authority asks the machine.
type world struct {
	now    func() time.Time
	getenv func(string) string
	roots  []string // files in which the system's roots may be
}

// Open opens the authority in the folder dir, and makes both when there is
// none. The folder must be ours alone to write to (see
// [statedir.MakePrivate]), and the key's file ours alone to read.
//
// Errors are *sandbox.Error: CodePermissionDeny when others could read or
// change the key, CodeUnavailable when the file is damaged or lost or cannot
// be written; Resource names the file.
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

// Leaf returns a certificate for a host as [network.Canonical] reads it, a
// name or an address, with its key. It is valid for a week and handed out
// again while more than a day of that is left. It must not be changed.
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

// renew takes up the certificate that this process or another made in place of
// one that is old; it is called with mu held. While the old one still holds for longer than a leaf, a folder
// that cannot be written is no reason to end what works.
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

// Format writes where the authority is, whatever the verb.
func (a *Authority) Format(s fmt.State, _ rune) {
	_, _ = io.WriteString(s, a.String())
}

// String tells where the authority is.
func (a *Authority) String() string {
	if a == nil {
		return "no egress authority"
	}
	return "egress authority in " + a.dir
}

// load reads the authority, and makes or renews it as the only one who does so
// at a time.
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
