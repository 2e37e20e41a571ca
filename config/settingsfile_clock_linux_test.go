package config

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestFileClockIsNotAheadOfFiles holds that a file carries no time before that
// of a look which came before its change: by a clock that is ahead of the
// files' own, even by a part of a tick, some would.
func TestFileClockIsNotAheadOfFiles(t *testing.T) {
	f, err := os.Create(filepath.Join(testenv.CoarseTimes(t), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	behind := 0
	for range 5000 {
		ours, at := time.Now(), fileClock()
		if _, err := f.WriteAt([]byte("x"), 0); err != nil {
			t.Fatal(err)
		}
		st := stampAt(f.Name())
		if st.ctime < time.Duration(at.UnixNano()) {
			t.Fatalf("a file changed after %v carries %v", at, time.Unix(0, int64(st.ctime)))
		}
		if st.ctime < time.Duration(ours.UnixNano()) {
			behind++
		}
	}
	if behind == 0 {
		t.Error("no file was behind the exact clock: nothing was held")
	}
}
