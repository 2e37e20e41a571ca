package browser

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"maps"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// A token is what clients have to show.
type token struct {
	text string
	sum  [sha256.Size]byte
}

func newToken(text string) (token, error) {
	if text == "" {
		raw := make([]byte, 32)
		_, _ = rand.Read(raw) // never fails
		text = base64.RawURLEncoding.EncodeToString(raw)
	}
	if len(text) < 32 || len(text) > 128 || strings.IndexFunc(text, proxyForeign) >= 0 {
		return token{}, sandbox.Errorf(sandbox.CodeValidation, proxyOp, "a token is 32 to 128 letters, digits, \"-\" and \"_\"")
	}
	return token{text, sha256.Sum256([]byte(text))}, nil
}

// foreign reports whether a character can be in no token and in no name of a
// page.
func proxyForeign(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// is compares in a time that tells nothing, the length included.
func (t token) is(text string) bool {
	sum := sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1
}

// wrong counts wrong tokens by peer. It keeps nobody out who has the right
// one: 256 bits are not guessed, and programs of the same machine share an
// address.
type wrong struct {
	now func() time.Time
	max int

	mu    sync.Mutex
	peers map[netip.Addr]tally
}

// A tally is what one peer did since a moment.
type tally struct {
	since time.Time
	n     int
}

const (
	window   = time.Minute
	maxPeers = 1024
)

// tooMany counts one more and reports whether that is beyond the limit. When
// more peers are known than are kept, new ones are beyond it too.
func (w *wrong) tooMany(peer netip.Addr) bool {
	if peer = peer.Unmap(); peer.IsLoopback() {
		peer = netip.AddrFrom4([4]byte{127, 0, 0, 1}) // whoever has one has sixteen million
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	t, known := w.peers[peer]
	if !known && len(w.peers) >= maxPeers {
		maps.DeleteFunc(w.peers, func(_ netip.Addr, t tally) bool { return now.Sub(t.since) >= window })
		if len(w.peers) >= maxPeers {
			return true
		}
	}
	if now.Sub(t.since) >= window {
		t = tally{since: now}
	}
	t.n = min(t.n+1, w.max+1)
	w.peers[peer] = t
	return t.n > w.max
}
