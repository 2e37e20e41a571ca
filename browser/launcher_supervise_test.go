package browser

import (
	"strings"
	"testing"
)

// TestTogether checks that an error contains each line once, the supervisor's
// first.
func TestTogether(t *testing.T) {
	tests := []struct{ name, said, log, want string }{
		{"nothing", "", "", ""},
		{"no log", "bad port", "", "bad port"},
		{"only log", "", "a\nb", "a\nb"},
		{"both", "Chromium has ended", "no display", "Chromium has ended\nno display"},
		{"log in both", "Chromium has ended\nb\nc", "a\nb\nc", "Chromium has ended\na\nb\nc"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := together(tt.said, tt.log); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestAdvice checks that the error for a browser without room for its
// processes says so, and does not report a missing program.
func TestAdvice(t *testing.T) {
	for said, limits := range map[string]bool{
		"bash: fork: retry: Resource temporarily unavailable":   true,
		"pthread_create: Resource temporarily unavailable (11)": true,
		"no usable sandbox": false,
	} {
		if got := advice(said); strings.Contains(got, "limits") != limits {
			t.Errorf("%s: %s", said, got)
		}
	}
}
