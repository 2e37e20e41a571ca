package evidence

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// KeyID returns the name of a public key: 32 hex digits of its SHA-256.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:16])
}

// Public returns a public key as text, as ParsePublic reads it.
func Public(key ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(key) }

// ParsePublic reads a public key from text; blanks around it do not count.
func ParsePublic(text string) (ed25519.PublicKey, error) {
	const op = "read public key"
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, secretMark) {
		return nil, &sandbox.Error{
			Code: sandbox.CodeValidation, Op: op, Message: "this is the secret key that signs evidence",
			Hint: "give the public key, which \"sandbox evidence verify\" shows, and keep the secret one where it is",
		}
	}
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, &sandbox.Error{
			Code: sandbox.CodeValidation, Op: op, Message: "this is no public key: 32 bytes in base64 are one",
			Hint: "\"sandbox evidence verify\" shows it",
		}
	}
	return key, nil
}

// secretMark begins the text of a secret key, so that a reader does not mistake
// it for something else.
const secretMark = "sandbox-evidence-secret-key-1 "

// SecretSize is the length of every text that Secret returns.
const secretSize = len(secretMark) + 44 + 1

// secretCheckpoint returns a secret key as a line of text, as ParseSecret reads
// it.
func secretCheckpoint(key ed25519.PrivateKey) string {
	return secretMark + base64.StdEncoding.EncodeToString(key.Seed()) + "\n"
}

// ParseSecret is the reverse of Secret; it reads nothing else.
func parseSecret(text string) (ed25519.PrivateKey, bool) {
	body, marked := strings.CutPrefix(text, secretMark)
	body, ended := strings.CutSuffix(body, "\n")
	seed, err := base64.StdEncoding.Strict().DecodeString(body)
	if !marked || !ended || err != nil || len(seed) != ed25519.SeedSize {
		return nil, false
	}
	key := ed25519.NewKeyFromSeed(seed)
	return key, secretCheckpoint(key) == text
}
