package checkpoint

import (
	"os"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// TestMeans holds that the means are tried out, and that others than the best
// are explained.
func TestMeans(t *testing.T) {
	s := newStore(t, Options{})
	m, reason, err := s.Means(t.Context())
	must(t, err)
	if m == Overlay && reason != "" || m != Overlay && !strings.Contains(reason, "no overlay: ") {
		t.Errorf("the means are %s for %q", m, reason)
	}
	if os.Geteuid() != 0 && m == Overlay {
		t.Error("an ordinary user has mounted something")
	}
	if m == Copy && !strings.Contains(reason, "no reflink: ") {
		t.Errorf("nothing is said of reflinks: %q", reason)
	}
	if names, err := readNames(s.path("tmp"), 5); err != nil || len(names) > 0 {
		t.Errorf("left is %v, %v", names, err)
	}
	for _, o := range []Means{Reflink, Overlay} {
		forced := newStore(t, Options{Means: o})
		got, reason, err := forced.Means(t.Context())
		switch {
		case o == m && (err != nil || got != m || reason == ""):
			t.Errorf("%s: %s for %q, %v", o, got, reason, err)
		case o == Overlay && m != Overlay:
			wantCode(t, "an overlay where there is none", err, sandbox.CodeUnavailable)
		case o == Reflink && m == Copy:
			wantCode(t, "reflinks where there are none", err, sandbox.CodeUnavailable)
		}
	}
	if got, _, err := newStore(t, Options{Means: Copy}).Means(t.Context()); err != nil || got != Copy {
		t.Errorf("copies that were asked for: %s, %v", got, err)
	}
	_, err = Open(t.TempDir(), Options{Means: "magic"})
	wantCode(t, "unknown means", err, sandbox.CodeValidation)
}
