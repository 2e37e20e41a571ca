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
