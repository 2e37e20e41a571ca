package fsbridge

import (
	"runtime"
	"testing"
	"time"
)

// TestEntriesTakeWhatTheyCount holds what a walk counts for an entry beside its
// name against what one takes in memory.
func TestEntriesTakeWhatTheyCount(t *testing.T) {
	const n = 100_000
	infos := make([]Info, n)
	for i := range infos {
		infos[i] = NewInfo("name", 0o100644, 0, time.Time{})
	}
	taken := uint64(1 << 40)
	for range 3 { // others may take something meanwhile
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		entries := Entries(infos)
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(entries)
		taken = min(taken, (after.TotalAlloc-before.TotalAlloc+n/2)/n)
	}
	if taken != entrySize {
		t.Errorf("an entry takes %d bytes and counts %d", taken, entrySize)
	}
}
