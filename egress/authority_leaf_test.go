package egress

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestLeaf(t *testing.T) {
	tests := []struct{ name, host, good, bad string }{
		{"name", "api.example.com", "api.example.com", "www.example.com"},
		{"upper case and dot", "API.example.com.", "api.example.com", "example.com"},
		{"underscore", "a_b.example.com", "a_b.example.com", "ab.example.com"},
		{"international", "xn--bcher-kva.example", "xn--bcher-kva.example", "bcher.example"},
		{"one label", "registry", "registry", "registry.example"},
		{"IPv4", "127.0.0.1", "127.0.0.1", "127.0.0.2"},
		{"IPv4 in another spelling", "0x7f.1", "127.0.0.1", "localhost"},
		{"IPv6", "[2001:db8::1]", "2001:db8::1", "2001:db8::2"},
		{"mapped IPv4", "::ffff:10.0.0.1", "10.0.0.1", "10.0.0.2"},
		{"long name", strings.Repeat("a.", 100) + "example", strings.Repeat("a.", 100) + "example", "example"},
	}
	r := authorityNewRig(t)
	a := r.open(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			leaf, err := a.Leaf(tt.host)
			authorityMust(t, err)
			verify := func(host string) error {
				_, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: pool(a.Certificate()), DNSName: host})
				return err
			}
			if err := verify(tt.good); err != nil {
				t.Error(err)
			}
			if err := verify(tt.bad); err == nil {
				t.Errorf("it holds for %s", tt.bad)
			}
			if life := leaf.Leaf.NotAfter.Sub(r.clock.at); life > leafLife || life < leafLife-time.Minute || leaf.Leaf.IsCA {
				t.Errorf("it is %+v", leaf.Leaf)
			}
			if len(leaf.Leaf.AuthorityKeyId) == 0 { // strict verification asks for it
				t.Error("it does not tell the authority's key")
			}
		})
	}
	for _, host := range []string{"", "*.example.com", "a\x00b", "a b", "example.com:443", "http://example.com", "büro.example", strings.Repeat("a", 64) + ".example"} {
		if _, err := a.Leaf(host); err == nil {
			t.Errorf("there is a certificate of %q", host)
		}
	}
}

func TestLeafIsKept(t *testing.T) {
	r := authorityNewRig(t)
	a := r.open(t)
	first, err := a.Leaf("api.example.com")
	authorityMust(t, err)
	for _, step := range []struct {
		after time.Duration
		same  bool
	}{{0, true}, {leafLife - leafLeft - time.Hour, true}, {2 * time.Hour, false}} {
		r.clock.at = r.clock.at.Add(step.after)
		again, err := a.Leaf("API.example.com")
		authorityMust(t, err)
		if (again == first) != step.same {
			t.Errorf("after %v more the same: %t", step.after, again == first)
		}
	}
}

// TestLeavesAreBounded checks that requests for many hosts do not grow the
// cache without bound, and do not evict leaves in use.
func TestLeavesAreBounded(t *testing.T) {
	a := authorityNewRig(t).open(t)
	kept, err := a.Leaf("kept.example.com")
	authorityMust(t, err)
	for i := range 3 * maxLeaves {
		_, err := a.Leaf(fmt.Sprintf("h%d.example.com", i))
		authorityMust(t, err)
		if i%100 == 0 {
			again, err := a.Leaf("kept.example.com")
			authorityMust(t, err)
			if again != kept {
				t.Fatalf("it was issued again after %d others", i)
			}
		}
		if n := len(a.leaves.newer) + len(a.leaves.older); n > maxLeaves+1 {
			t.Fatalf("%d are kept", n)
		}
	}
}

func TestLeavesForMany(t *testing.T) {
	a := authorityNewRig(t).open(t)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for k := range 50 {
				host := fmt.Sprintf("h%d.example.com", (i+k)%20)
				leaf, err := a.Leaf(host)
				if err != nil || leaf.Leaf.VerifyHostname(host) != nil {
					t.Errorf("%s: %v, %v", host, leaf, err)
					return
				}
				if k%10 == 0 {
					if _, err := a.Bundle(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
}

// TestHandshake performs a real handshake of a client that trusts ca.crt
// alone.
func TestHandshake(t *testing.T) {
	a := authorityNewRig(t).open(t)
	inside, outside := net.Pipe()
	defer inside.Close()
	go func() {
		server := tls.Server(outside, &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) { return a.Leaf(h.ServerName) }})
		_ = server.Handshake()
		outside.Close()
	}()
	c := tls.Client(inside, &tls.Config{RootCAs: pool(a.Certificate()), ServerName: "api.example.com"})
	if err := c.Handshake(); err != nil {
		t.Error(err)
	}
}

// TestNothingIsPrinted checks that no printed form of an Authority contains a
// key.
func TestNothingIsPrinted(t *testing.T) {
	a := authorityNewRig(t).open(t)
	want := "egress authority in " + a.dir
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x"} {
		if got := fmt.Sprintf(verb, a); got != want {
			t.Errorf("%s prints %s", verb, got)
		}
	}
	if data, err := json.Marshal(map[string]any{"a": a}); err != nil || string(data) != `{"a":{}}` {
		t.Errorf("JSON is %s, %v", data, err)
	}
}

func BenchmarkLeaf(b *testing.B) {
	a, err := Open(b.TempDir())
	authorityMust(b, err)
	b.Run("kept", func(b *testing.B) {
		for b.Loop() {
			_, err := a.Leaf("api.example.com")
			authorityMust(b, err)
		}
	})
	b.Run("new", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			_, err := a.Leaf(fmt.Sprintf("h%d.example.com", i))
			authorityMust(b, err)
		}
	})
	b.Run("bundle", func(b *testing.B) {
		for b.Loop() {
			_, err := a.Bundle()
			authorityMust(b, err)
		}
	})
}
