package evidence

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

func checkpointKey(n byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	return ed25519.NewKeyFromSeed(seed)
}

func public(n byte) ed25519.PublicKey { return checkpointKey(n).Public().(ed25519.PublicKey) }

func some() checkpoint {
	return checkpoint{
		Tenant: "acme", Seq: 7, Hash: strings.Repeat("0a", 32), Records: 5, Every: 256,
		Time: time.Date(2026, 11, 21, 12, 0, 0, 5, time.FixedZone("east", 3600)),
	}
}

// TestEveryFieldIsSigned checks that no change of any field goes unseen, and
// that a signature comes through JSON.
func TestEveryFieldIsSigned(t *testing.T) {
	signed := signCheckpoint(some(), checkpointKey(1))
	data, err := json.Marshal(signed)
	if err != nil {
		t.Fatal(err)
	}
	var read checkpoint
	if err := json.Unmarshal(data, &read); err != nil || !read.SignedBy(public(1)) {
		t.Fatalf("%s, %v: not signed", data, err)
	}
	if read.SignedBy(public(2)) || read.SignedBy(nil) {
		t.Error("signed by somebody else")
	}
	for name, change := range map[string]func(*checkpoint){
		"tenant":         func(c *checkpoint) { c.Tenant = "acm" },
		"seq":            func(c *checkpoint) { c.Seq++ },
		"hash":           func(c *checkpoint) { c.Hash = strings.Repeat("0b", 32) },
		"hash uppercase": func(c *checkpoint) { c.Hash = strings.ToUpper(c.Hash) },
		"no hash":        func(c *checkpoint) { c.Hash = "" },
		"records":        func(c *checkpoint) { c.Records-- },
		"every":          func(c *checkpoint) { c.Every = 1 << 40 },
		"second":         func(c *checkpoint) { c.Time = c.Time.Add(time.Second) },
		"nanosecond":     func(c *checkpoint) { c.Time = c.Time.Add(1) },
		"key":            func(c *checkpoint) { c.Key = KeyID(public(2)) },
		"no signature":   func(c *checkpoint) { c.Sig = "" },
		"a flipped bit": func(c *checkpoint) {
			sig, _ := base64.StdEncoding.DecodeString(c.Sig)
			sig[9] ^= 1
			c.Sig = base64.StdEncoding.EncodeToString(sig)
		},
		"a signature in other words": func(c *checkpoint) { c.Sig = strings.TrimRight(c.Sig, "=") },
	} {
		c := read
		if change(&c); c.SignedBy(public(1)) {
			t.Errorf("%s: a change is not seen", name)
		}
	}
	if c := some(); signCheckpoint(checkpoint{Hash: "x"}, checkpointKey(1)).Sig != "" || c.SignedBy(public(1)) {
		t.Error("what is no checkpoint is signed")
	}
}

// TestFieldsDoNotRunTogether checks that bytes cannot move from one text into
// the next.
func TestFieldsDoNotRunTogether(t *testing.T) {
	a, b := some(), some()
	a.Tenant, a.Key, b.Tenant, b.Key = "ab", "c", "a", "bc"
	ma, _ := a.message()
	mb, _ := b.message()
	if string(ma) == string(mb) {
		t.Error("two checkpoints have one form")
	}
}

// TestFormIsFixed checks the form that signatures of earlier versions are over.
func TestFormIsFixed(t *testing.T) {
	const want = "RTJqsQ4EigQkVs34FJREAFqHweyKJA2jrNf79rPxmV3CMiYqxG/AmPBOtppOz23DYqOrAK3+9jw/+5wOsWSiCg=="
	if got := signCheckpoint(some(), checkpointKey(1)).Sig; got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
}

func TestKeysAsText(t *testing.T) {
	if got, ok := parseSecret(secretCheckpoint(checkpointKey(1))); !ok || !got.Equal(checkpointKey(1)) || len(secretCheckpoint(checkpointKey(1))) != secretSize {
		t.Error("a secret key does not come back")
	}
	for _, text := range []string{"", secretCheckpoint(checkpointKey(1)) + "\n", secretCheckpoint(checkpointKey(1))[1:], strings.TrimSpace(secretCheckpoint(checkpointKey(1))), secretMark + "AAAA\n"} {
		if _, ok := parseSecret(text); ok {
			t.Errorf("%q is taken for a key", text)
		}
	}
	if got, err := ParsePublic(" " + Public(public(1)) + "\n"); err != nil || !got.Equal(public(1)) {
		t.Errorf("a public key does not come back: %v", err)
	}
	for _, text := range []string{"", "AAAA", Public(public(1))[1:], "%%%", secretCheckpoint(checkpointKey(1))} {
		_, err := ParsePublic(text)
		if sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%q: error %v", text, err)
		}
		if err != nil && strings.Contains(err.Error(), base64.StdEncoding.EncodeToString(checkpointKey(1).Seed())) {
			t.Error("the error tells the secret")
		}
	}
}

func FuzzParsePublic(f *testing.F) {
	f.Add(Public(public(1)))
	f.Add(secretCheckpoint(checkpointKey(1)))
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := ParsePublic(text); err == nil && Public(got) != strings.TrimSpace(text) {
			t.Errorf("%q was read as %s", text, Public(got))
		}
	})
}
