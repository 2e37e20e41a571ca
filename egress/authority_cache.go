package egress

import (
	"crypto/tls"
	"time"

	"github.com/bulkhead-dev/sandbox/policy/network"
)

// maxLeaves bounds the certificates that are kept.
const maxLeaves = 1024

// A cache keeps issued leaves. When the newer half is full the older half is
// dropped, so leaves in frequent use are kept. The zero cache is empty.
type cache struct {
	newer, older map[network.Host]*tls.Certificate
}

// get returns the leaf of h if it is valid for long enough, or nil.
func (c *cache) get(h network.Host, now time.Time) *tls.Certificate {
	leaf, ok := c.newer[h]
	if !ok {
		if leaf, ok = c.older[h]; ok {
			c.put(h, leaf)
		}
	}
	if !ok || now.Before(leaf.Leaf.NotBefore) || now.Add(leafLeft).After(leaf.Leaf.NotAfter) {
		return nil
	}
	return leaf
}

func (c *cache) put(h network.Host, leaf *tls.Certificate) {
	if c.newer == nil || len(c.newer) >= maxLeaves/2 {
		c.older, c.newer = c.newer, make(map[network.Host]*tls.Certificate)
	}
	c.newer[h] = leaf
}
