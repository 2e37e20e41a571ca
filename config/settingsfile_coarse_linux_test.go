package config

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestSourceByACoarseClock changes a file in place, with the same size, on a
// file system where many changes carry one time, and asks after each.
func TestSourceByACoarseClock(t *testing.T) {
	path := filepath.Join(testenv.CoarseTimes(t), "sandbox.json")
	put(t, path, settingsfilePrefixed("p0000"))
	s, _ := source(t, path)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	defer f.Close()
	times := map[int64]bool{}
	for i := range 500 {
		want := fmt.Sprintf("p%04d", i)
		_, err := f.WriteAt([]byte(settingsfilePrefixed(want)), 0)
		must(t, err)
		if got := prefixOf(current(t, s)); got != want {
			t.Fatalf("after %s was written the settings say %s", want, got)
		}
		var st unix.Stat_t
		must(t, unix.Fstat(int(f.Fd()), &st))
		times[st.Ctim.Nano()] = true
	}
	t.Logf("500 changes carried %d times", len(times))
}
