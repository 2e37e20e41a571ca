package supervise

import "testing"

// TestTogether holds that an error tells each line once, the supervisor's
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
