package testenv

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// Names is a resolver. It answers 127.0.0.1 for every name that ends in
// ".test", unless it was configured otherwise, and knows no others. It has the
// one method that a proxy needs of [net.Resolver].
type internetNames struct {
	mu     sync.Mutex
	asked  []string
	script map[string][]Reply
}

// A Reply is what a lookup gives.
type Reply struct {
	Addrs []netip.Addr
	Err   error
	Hang  bool // until the caller gives up
}

func newNames() *internetNames { return &internetNames{script: map[string][]Reply{}} }

// Set scripts the answers for a name: each lookup takes the next one, and the
// last stays.
func (n *internetNames) Set(name string, replies ...Reply) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.script[name] = slices.Clone(replies)
}

// Asked returns the names that were looked up, in order, without a final dot.
func (n *internetNames) Asked() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.asked)
}

// LookupNetIP looks a name up as [net.Resolver.LookupNetIP] does.
func (n *internetNames) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	r := n.next(name)
	switch {
	case r.Hang:
		<-ctx.Done()
		return nil, ctx.Err()
	case r.Err != nil:
		return nil, r.Err
	case len(r.Addrs) == 0:
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return r.Addrs, nil
}

func (n *internetNames) next(name string) Reply {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, name)
	replies, scripted := n.script[name]
	switch {
	case !scripted && strings.HasSuffix(name, ".test"):
		return Reply{Addrs: []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}}
	case len(replies) == 0:
		return Reply{}
	case len(replies) > 1:
		n.script[name] = replies[1:]
	}
	return replies[0]
}
