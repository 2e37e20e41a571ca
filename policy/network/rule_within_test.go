package network

import "testing"

// TestWithin holds that a rule is within another only where the other allows all
// that it allows.
func TestWithin(t *testing.T) {
	for _, c := range []struct {
		narrow, wide string
		want         bool
	}{
		{"example.com", "example.com", true}, {"EXAMPLE.com.", "example.com", true}, {"example.com", "*", true}, {"*", "example.com", false},
		{"a.example.com", "*.example.com", true}, {"example.com", "*.example.com", false}, {"*.a.example.com", "*.example.com", true},
		{"*.example.com", "*.example.com", true}, {"*.example.com", "a.example.com", false}, {"evilexample.com", "*.example.com", false},
		{"example.com:443", "example.com", true}, {"example.com:22", "example.com", false}, {"example.com:8000-9000", "example.com", true},
		{"example.com:80-443", "example.com", false}, {"example.com", "example.com:443", false}, {"example.com:443", "example.com:400-500", true},
		{"https://example.com", "example.com", true}, {"example.com", "https://example.com", false}, {"tcp://example.com:443", "example.com", false},
		{"tcp://example.com:443", "example.com:443", false}, {"tcp://example.com:22", "tcp://example.com:20-30", true},
		{"GET http://example.com/pub", "http://example.com/pub", true}, {"http://example.com/pub", "GET http://example.com/pub", false},
		{"GET,HEAD http://example.com", "GET http://example.com", false}, {"GET http://example.com", "GET,HEAD http://example.com", true},
		{"http://example.com/pub/x", "http://example.com/pub", true}, {"http://example.com/public", "http://example.com/pub", false},
		{"http://example.com", "http://example.com/pub", false}, {"https://example.com", "http://example.com", false},
		{"10.1.2.3", "10.0.0.0/8", true}, {"10.0.0.0/8", "10.1.0.0/16", false}, {"10.0.0.0/8", "10.1.2.3", false}, {"11.0.0.1", "10.0.0.0/8", false},
		{"10.1.2.3", "*.example.com", false}, {"::ffff:10.1.2.3", "10.0.0.0/8", true}, {"0.0.0.0/0", "10.0.0.0/8", false},
	} {
		narrow, err := ParseRule(c.narrow)
		if err != nil {
			t.Errorf("%s: %v", c.narrow, err)
			continue
		}
		wide, err := ParseRule(c.wide)
		if err != nil {
			t.Errorf("%s: %v", c.wide, err)
			continue
		}
		if got := narrow.Within(wide); got != c.want {
			t.Errorf("%s within %s: %t", c.narrow, c.wide, got)
		}
	}
}
