// This file signs a chain of records at a place: the signature states that the
// line with this number had this hash, and with it that every line before is
// unchanged. It is pure: the caller supplies keys and times.

package evidence

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// A Checkpoint is what a signature is over, and the signature.
type checkpoint struct {
	Tenant  string    `json:"tenant"`  // whose chain it is
	Seq     uint64    `json:"seq"`     // of the line right before it
	Hash    string    `json:"hash"`    // of that line: 64 hex digits in lower case
	Records uint64    `json:"records"` // in the chain up to there, since it began, checkpoints not counted
	Every   uint64    `json:"every"`   // the signer promises the next checkpoint after so many records
	Time    time.Time `json:"time"`    // by the clock of the signer
	Key     string    `json:"key"`     // see KeyID
	Sig     string    `json:"sig"`     // standard base64, padded
}

// domain stands before everything that is signed, so that no signature over
// something else is ever one of these.
const domain = "bulkhead sandbox: checkpoint of evidence, version 1\n"

// message is the canonical form of everything except the signature: fields of
// fixed length and texts preceded by their length, so that no two checkpoints
// have the same form. It returns false when a field has a value that is never
// signed.
func (c checkpoint) message() ([]byte, bool) {
	hash, err := hex.DecodeString(c.Hash)
	if err != nil || len(hash) != 32 || hex.EncodeToString(hash) != c.Hash {
		return nil, false
	}
	m := []byte(domain)
	for _, text := range []string{c.Tenant, c.Key} {
		m = binary.BigEndian.AppendUint32(m, uint32(len(text)))
		m = append(m, text...)
	}
	m = binary.BigEndian.AppendUint64(m, c.Seq)
	m = append(m, hash...)
	m = binary.BigEndian.AppendUint64(m, c.Records)
	m = binary.BigEndian.AppendUint64(m, c.Every)
	m = binary.BigEndian.AppendUint64(m, uint64(c.Time.Unix()))
	return binary.BigEndian.AppendUint32(m, uint32(c.Time.Nanosecond())), true
}

// signCheckpoint returns c with key's id and signature. Its hash must be one.
func signCheckpoint(c checkpoint, key ed25519.PrivateKey) checkpoint {
	c.Time = c.Time.UTC()
	c.Key = KeyID(key.Public().(ed25519.PublicKey))
	m, ok := c.message()
	if !ok {
		c.Sig = ""
		return c
	}
	c.Sig = base64.StdEncoding.EncodeToString(ed25519.Sign(key, m))
	return c
}

// SignedBy reports whether c is as the owner of key has signed it.
func (c checkpoint) SignedBy(key ed25519.PublicKey) bool {
	m, ok := c.message()
	sig, err := base64.StdEncoding.Strict().DecodeString(c.Sig)
	return ok && err == nil && len(key) == ed25519.PublicKeySize && c.Key == KeyID(key) && ed25519.Verify(key, m, sig)
}
