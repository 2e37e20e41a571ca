package token

import (
	"regexp"
	"strings"
	"testing"
)

func TestSecrets(t *testing.T) {
	form := regexp.MustCompile(`^sbx_[0-9A-Za-z]{49}$`)
	seen := map[string]bool{}
	for range 5000 {
		s := newSecret()
		if !form.MatchString(s) || !wellFormed(s) || seen[s] || !isID(idOf(s)) || seen[idOf(s)] {
			t.Fatalf("%q of the id %q", s, idOf(s))
		}
		seen[s], seen[idOf(s)] = true, true
	}
}

// TestTyposAreFound tries every change of one character, every two neighbours
// in the wrong order, and every part.
func TestTyposAreFound(t *testing.T) {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for range 20 {
		s := newSecret()
		for n := range len(s) {
			for _, c := range digits + "_- \n\x00ä" {
				if typo := s[:n] + string(c) + s[n+1:]; typo != s && wellFormed(typo) {
					t.Fatalf("%q is taken for a token; %q was changed at %d", typo, s, n)
				}
			}
			if wellFormed(s[:n]) || n > 0 && wellFormed(s[n:]) || wellFormed(s[:n]+s[n+1:]) || wellFormed(s[:n]+"0"+s[n:]) {
				t.Fatalf("a part of %q, or more, is taken for a token", s)
			}
			if n+2 <= len(s) && s[n] != s[n+1] && wellFormed(s[:n]+s[n+1:n+2]+s[n:n+1]+s[n+2:]) {
				t.Fatalf("%q is taken for a token with %d and the next exchanged", s, n)
			}
		}
	}
}

// TestNumbersKeepTheirWidth checks that small random numbers and sums are as
// long as large ones.
func TestNumbersKeepTheirWidth(t *testing.T) {
	zero := seal(prefix + strings.Repeat("0", bodyLength))
	if !wellFormed(zero) {
		t.Errorf("%q is no token", zero)
	}
}

func FuzzVerify(f *testing.F) {
	s := open(f, f.TempDir())
	good, _ := make1(f, s, acme())
	for _, seed := range []string{"", good, good[1:], prefix, seal(prefix + strings.Repeat("0", bodyLength)), "../" + good, "Bearer " + good, strings.ToUpper(good)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, secret string) {
		got, err := s.Verify(secret)
		if secret == good {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		if !Refused(err) || got.ID != "" {
			t.Fatalf("%q is %+v, %v", secret, got, err)
		}
		if sealed := seal(secret); wellFormed(secret) && (len(secret) != Length || secret[:4] != prefix) || wellFormed(sealed) && len(sealed) != Length {
			t.Errorf("%q is taken for a token", secret)
		}
		if text := err.Error(); text != refuse(unknown).Error() && text != refuse(malformed).Error() {
			t.Errorf("the error depends on the secret: %s", text)
		}
	})
}

func TestMentioned(t *testing.T) {
	secret := newSecret()
	for text, want := range map[string]bool{
		"":                                   false,
		"sbx_":                               false,
		secret:                               true,
		"a=" + secret + "&b=1":               true,
		"sbx_sbx_" + secret:                  true,
		secret[:len(secret)-1]:               false,
		"sbx_" + strings.Repeat("a", 60):     false,
		strings.Replace(secret, "s", "S", 1): false,
	} {
		if got := Mentioned(text); got != want {
			t.Errorf("Mentioned(%q) is %v", text, got)
		}
	}
}
