package server

import (
	"strings"
	"testing"
)

// FuzzNameLabel holds that whatever a caller calls himself is a short label of
// harmless characters, and none of those that we use ourselves.
func FuzzNameLabel(f *testing.F) {
	for _, name := range []string{"", "acme", "other", "none", "a b", "a~0badcafe", "\xff", strings.Repeat("ä", 40), strings.Repeat("x", 65)} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got := nameLabel(name)
		if got == "" || len(got) > maxLabel || strings.IndexFunc(strings.Replace(got, "~", "", 1), unsafe) >= 0 {
			t.Errorf("%q is %q", name, got)
		}
		if got == other || got == "none" && name != "" {
			t.Errorf("%q is taken for %q", name, got)
		}
		if changed := got != name; changed != strings.Contains(got, "~") && name != "" {
			t.Errorf("%q is %q", name, got)
		}
	})
}
