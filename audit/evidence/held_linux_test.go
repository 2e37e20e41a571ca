package evidence

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// openBelow counts the descriptors of this process that lead below dir.
func openBelow(t testing.TB, dir string) int {
	t.Helper()
	const fds = "/proc/self/fd"
	entries, err := os.ReadDir(fds)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(fds, e.Name())); err == nil && strings.HasPrefix(to, dir+"/") {
			n++
		}
	}
	return n
}

// TestManyTenantsHoldFewFiles checks that what a Store keeps open is bounded
// however many tenants there are, and closed with it.
func TestManyTenantsHoldFewFiles(t *testing.T) {
	const tenants, most = 60, 40
	dir := filepath.Join(t.TempDir(), "evidence")
	s := open(t, dir, Options{})
	for range 2 {
		for n := range tenants {
			add(t, s, of(fmt.Sprint("t", n), n, n+1)...)
			if got := openBelow(t, dir); got > most {
				t.Fatalf("%d descriptors behind the append of tenant %d", got, n)
			}
		}
	}
	if err := s.Checkpoint(t.Context()); err != nil { // for which Close has no more than seconds
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := openBelow(t, dir); got > 0 {
		t.Errorf("%d descriptors behind Close", got)
	}
	all := everything(t, s, Check{})
	for n := range tenants {
		wantWhole(t, all[fmt.Sprint("t", n)], 2, 2, 0)
	}
}
