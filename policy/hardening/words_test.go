package hardening

import (
	"regexp"
	"strings"
	"testing"
)

// TestWordsAgreeWithTheirPatterns holds the functions against the patterns
// that say what they mean.
func TestWordsAgreeWithTheirPatterns(t *testing.T) {
	tests := []struct {
		name    string
		is      func(string) bool
		pattern string
	}{
		{"drive", onWindowsDrive, `^[A-Za-z]:`},
		{"volume", isVolumeName, `^[A-Za-z0-9][A-Za-z0-9_.-]*$`},
		{"network", isNetworkName, `^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`},
		{"network id", isNetworkID, `^[0-9a-f]{12,64}$`},
		{"runtime", isRuntimeName, `^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`},
		{"profile", isProfileName, `^[A-Za-z0-9][A-Za-z0-9_.@+-]{0,127}$`},
	}
	words := []string{"", "C:", "c:\\x", "1:", ":", "a\n", "é", "0123456789ab", "0123456789aB"}
	for c := range 256 {
		b := string([]byte{byte(c)})
		words = append(words, b, b+"a", "a"+b, "a"+b+"a", b+":", strings.Repeat("a", 11)+b)
	}
	for _, n := range []int{11, 12, 13, 63, 64, 65, 127, 128, 129} {
		words = append(words, strings.Repeat("a", n), strings.Repeat("0", n), strings.Repeat("Z", n), strings.Repeat("-", n))
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			re := regexp.MustCompile(tt.pattern)
			for _, s := range words {
				if got, want := tt.is(s), re.MatchString(s); got != want {
					t.Errorf("the function says %v of %q, the pattern %v", got, s, want)
				}
			}
		})
	}
}
