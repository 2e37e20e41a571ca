package egress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"net"
	"time"

	"github.com/bulkhead-dev/sandbox/policy/network"
)

const (
	caLife   = 5 * 365 * 24 * time.Hour
	caLeft   = 90 * 24 * time.Hour // renewed with less time left
	leafLife = 7 * 24 * time.Hour
	leafLeft = 24 * time.Hour // a new one is issued with less time left
	skew     = time.Hour      // clocks inside may be behind

	organization = "bulkhead-dev/sandbox"
	commonName   = "Sandbox egress authority "
)

// A pair is the authority's certificate and its key.
type pair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// aged reports whether the certificate has to be renewed.
func (p pair) aged(now time.Time) bool {
	return now.Before(p.cert.NotBefore) || now.Add(caLeft).After(p.cert.NotAfter)
}

// made returns a new authority.
func made(now time.Time) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	return renewed(key, now)
}

// renewed returns a new certificate of key. Its name is derived from the key,
// so it stays the same and differs between authorities.
func renewed(key *ecdsa.PrivateKey, now time.Time) (pair, error) {
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return pair{}, err
	}
	id := sha256.Sum256(public)
	template := &x509.Certificate{
		Subject: pkix.Name{
			Organization: []string{organization},
			CommonName:   commonName + hex.EncodeToString(id[:4]),
		},
		NotBefore: now.Add(-skew), NotAfter: now.Add(caLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign, SubjectKeyId: id[:20],
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return pair{}, err
	}
	cert, err := x509.ParseCertificate(der)
	return pair{cert: cert, key: key}, err
}

// issue returns the certificate of a host under ca.
func issue(h network.Host, ca pair, key *ecdsa.PrivateKey, now time.Time) (*tls.Certificate, error) {
	template := &x509.Certificate{
		Subject:   pkix.Name{Organization: []string{organization}},
		NotBefore: now.Add(-skew), NotAfter: now.Add(leafLife),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	name := h.String()
	if len(name) <= 64 { // the bound of a common name
		template.Subject.CommonName = name
	}
	if addr, ok := h.Addr(); ok {
		template.IPAddresses = []net.IP{addr.AsSlice()}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}
