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

// A token is the secret that clients have to send.
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

// proxyForeign reports whether a character can occur in no token and in no
// page id.
func proxyForeign(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// is reports whether text is the token, in constant time; the length is not
// revealed either.
func (t token) is(text string) bool {
	sum := sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1
}

// wrong counts wrong tokens by peer. It never refuses the right token: 256
// bits cannot be guessed, and programs of the same machine share an address.
type wrong struct {
	now func() time.Time
	max int

	mu    sync.Mutex
	peers map[netip.Addr]tally
}

// A tally counts the wrong tokens of one peer since a time.
type tally struct {
	since time.Time
	n     int
}

const (
	window   = time.Minute
	maxPeers = 1024
)

// tooMany counts one more wrong token and reports whether the peer is beyond
// the limit. When the table of peers is full, new peers are beyond it too.
func (w *wrong) tooMany(peer netip.Addr) bool {
	if peer = peer.Unmap(); peer.IsLoopback() {
		peer = netip.AddrFrom4([4]byte{127, 0, 0, 1}) // a local program can use any of 16 million loopback addresses
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
