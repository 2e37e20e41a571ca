package evidence

import (
	"crypto/sha256"
	"encoding/base64"
	"hash"
)

// DigestOf returns the digest of data.
func DigestOf(data []byte) Digest {
	h := NewHash()
	_, _ = h.Write(data) // which does not fail
	return h.Digest()
}

// A Hash makes the digest of what is written to it. It is for one goroutine.
type Hash struct {
	h    hash.Hash
	size int64
}

// NewHash returns a Hash of nothing.
func NewHash() *Hash { return &Hash{h: sha256.New()} }

// Write implements io.Writer. It does not fail.
func (h *Hash) Write(p []byte) (int, error) {
	h.size += int64(len(p))
	return h.h.Write(p)
}

// Digest returns the digest of what was written so far.
func (h *Hash) Digest() Digest {
	return Digest{Algo: "sha-256", B64: base64.StdEncoding.EncodeToString(h.h.Sum(nil)), Size: h.size}
}
