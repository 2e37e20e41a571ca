package hardening

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// FuzzWithin compares within, below and same with a comparison part by part.
func FuzzWithin(f *testing.F) {
	for _, s := range [][2]string{
		{"/", "/"}, {"/a", "/"}, {"/", "/a"}, {"/a/b", "/a"}, {"/ab", "/a"}, {"/A/b", "/a"}, {"/a//b/", "/a/./"},
		{".", "/"}, {".", "."}, {"", ""}, {"a", "/a"}, {"/a/../b", "/b"}, {"/a", "/a/b"}, {"..", "/.."}, {"/é", "/É"},
	} {
		f.Add(s[0], s[1])
	}
	split := func(p string) []string {
		p = strings.Trim(path.Clean(p), "/")
		if p == "" || p == "." {
			return nil
		}
		return strings.Split(p, "/")
	}
	f.Fuzz(func(t *testing.T, p, dir string) {
		ps, ds := split(p), split(dir)
		want := len(ps) >= len(ds) && slices.EqualFunc(ps[:min(len(ps), len(ds))], ds, strings.EqualFold)
		if got := within(p, dir); got != want {
			t.Errorf("within(%q, %q) = %v", p, dir, got)
		}
		if got := below(p, dir); got != (want && len(ps) > len(ds)) {
			t.Errorf("below(%q, %q) = %v", p, dir, got)
		}
		if got := same(p, dir); got != (want && len(ps) == len(ds)) {
			t.Errorf("same(%q, %q) = %v", p, dir, got)
		}
	})
}
