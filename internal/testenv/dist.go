package testenv

import (
	"path/filepath"
	"runtime"
	"testing"
)

// Deb returns the path of the package for this machine's architecture that "make
// dist" has made.
func Deb(t testing.TB) string {
	t.Helper()
	Require(t, "dist")
	return debs()[0]
}

// Dist returns the path of the one file that "make dist" has made whose name matches
// the pattern.
func Dist(t testing.TB, pattern string) string {
	t.Helper()
	Require(t, "dist")
	found, err := filepath.Glob(filepath.Join(root(), "bin", "dist", pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("in bin/dist %q are %q, %v; want one file", pattern, found, err)
	}
	return found[0]
}

func debs() []string {
	found, _ := filepath.Glob(filepath.Join(root(), "bin", "dist", "sandbox_*_"+runtime.GOARCH+".deb")) // the pattern is well formed
	return found
}

func distMissing() string {
	if len(debs()) == 0 {
		return "`make dist` makes the packages: there are none in bin/dist"
	}
	return ""
}
