package token

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
	"math/big"
	"strings"
)

// A secret is the prefix, 32 random bytes in 43 digits of base 62, and 6 such
// digits of a checksum over both. The prefix lets scanners of repositories and
// logs find one; the checksum lets them verify it offline, and detects typing
// errors.
const (
	prefix      = "sbx_"
	randomBytes = 32
	bodyLength  = 43 // digits of base 62 for the random bytes
	sumLength   = 6  // for the 32 bits of the checksum

	// Length is how long the secret of a token is, in characters.
	Length = len(prefix) + bodyLength + sumLength
)

// newSecret makes a secret. The source of randomness never fails.
func newSecret() string {
	var random [randomBytes]byte
	rand.Read(random[:])
	return seal(prefix + base62(new(big.Int).SetBytes(random[:]), bodyLength))
}

// seal appends the checksum.
func seal(s string) string {
	sum := new(big.Int).SetUint64(uint64(crc32.ChecksumIEEE([]byte(s))))
	return s + base62(sum, sumLength)
}

func base62(n *big.Int, width int) string {
	digits := n.Text(62)
	return strings.Repeat("0", width-len(digits)) + digits
}

// wellFormed reports whether s can be the secret of a token. Of those that
// cannot most were mistyped or cut off: no change of up to four characters in a
// row is taken for another secret.
func wellFormed(s string) bool {
	if len(s) != Length || !strings.HasPrefix(s, prefix) {
		return false
	}
	for _, c := range []byte(s[len(prefix):]) {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z') {
			return false
		}
	}
	return seal(s[:Length-sumLength]) == s
}

// hashOf is what is kept of a secret. A slow hash makes guessing expensive
// where people choose the secret; 256 random bits cannot be guessed, and each
// request would pay for a slow hash.
func hashOf(secret string) [sha256.Size]byte { return sha256.Sum256([]byte(secret)) }

// idLength is that of an id, in hex digits.
const idLength = 20

// idOf is the id of a token, and the name of its file: the secret leads to the
// file, and the id reveals nothing about the secret, because it is a part of
// another hash than the one that is compared.
func idOf(secret string) string {
	sum := sha256.Sum256([]byte("sandbox token id\n" + secret))
	return hex.EncodeToString(sum[:])[:idLength]
}

// isID reports whether s has the form of an id.
func isID(s string) bool {
	for _, c := range []byte(s) {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return false
		}
	}
	return len(s) == idLength
}

// Mentioned reports whether text contains what looks like the secret of a
// token, valid or not, so that it is neither logged nor accepted from the wrong
// place.
func Mentioned(text string) bool {
	for {
		i := strings.Index(text, prefix)
		if i < 0 {
			return false
		}
		if rest := text[i:]; len(rest) >= Length && wellFormed(rest[:Length]) {
			return true
		}
		text = text[i+len(prefix):]
	}
}
