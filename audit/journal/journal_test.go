package journal

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
)

func TestAppendAndRead(t *testing.T) {
	j := open(t, t.TempDir(), Options{})
	if got, damage := read(t, j, Range{}); got != nil || damage != nil {
		t.Fatalf("a new journal holds %v, %v", got, damage)
	}
	if r := wantWhole(t, j); r.Records != 0 || r.Files != 0 {
		t.Errorf("a new journal reports %+v", r)
	}
	appendNotes(t, j, "a", 0, 3, "")
	if err := j.Append(context.Background(), note{"a", 3, ""}, json.RawMessage(" {\"who\": \"a\",\n\"n\": 4} ")); err != nil {
		t.Fatal(err)
	}
	wantNotes(t, j, "a", 0, 5)
	r := wantWhole(t, j)
	if r.Records != 5 || r.Files != 1 || r.Dropped != 0 || r.First.Seq != 1 || r.Last.Seq != 6 || len(r.Last.Hash) != 64 {
		t.Errorf("report %+v", r)
	}
	if got, _ := read(t, j, Range{First: 3, Last: 4}); len(got) != 2 || got[0] != "a 1" {
		t.Errorf("lines 3 and 4 are %v", got)
	}
	for name, mode := range map[string]os.FileMode{fileName(1): 0o600, headName: 0o600, lockName: 0o600, "": os.ModeDir | 0o700} {
		fi, err := os.Lstat(filepath.Join(j.dir, name))
		if err != nil || fi.Mode() != mode && name != "" {
			t.Errorf("%s: %v, %v", name, fi.Mode(), err)
		}
	}
}

func TestAnotherOneGoesOn(t *testing.T) {
	dir := t.TempDir()
	for n := range 4 {
		appendNotes(t, open(t, dir, Options{Sync: n%2 == 0}), "a", n, n+1, "")
	}
	j := open(t, dir, Options{})
	wantNotes(t, j, "a", 0, 4)
	wantWhole(t, j)
}

func TestRotationIsBounded(t *testing.T) {
	j := open(t, t.TempDir(), small(3))
	fill := strings.Repeat("x", 8<<10)
	appendNotes(t, j, "a", 0, 60, fill)
	numbers, strangers, err := list(j.dir)
	if err != nil || len(strangers) > 0 || len(numbers) > 3 {
		t.Fatalf("files %v and %v, %v", numbers, strangers, err)
	}
	var total int64
	for _, n := range numbers {
		fi, err := os.Stat(filepath.Join(j.dir, fileName(n)))
		if err != nil || fi.Size() > minFile {
			t.Errorf("file %d: %v bytes, %v", n, fi.Size(), err)
		}
		total += fi.Size()
	}
	if total > 3*minFile {
		t.Errorf("%d bytes in all", total)
	}
	r := wantWhole(t, j)
	if r.Dropped != numbers[0]-1 || r.Dropped == 0 || r.First.File != fileName(numbers[0]) {
		t.Errorf("report %+v, files %v", r, numbers)
	}
	wantNotes(t, j, "a", 60-int(r.Records), 60)
}

func TestRotateByHand(t *testing.T) {
	j := open(t, t.TempDir(), small(4))
	appendNotes(t, j, "a", 0, 1, "")
	for range 3 { // an empty file is not followed by another one
		if err := j.Rotate(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	appendNotes(t, j, "a", 1, 2, "")
	wantNotes(t, j, "a", 0, 2)
	if r := wantWhole(t, j); r.Files != 2 {
		t.Errorf("%d files", r.Files)
	}
}

func TestRefusedRecords(t *testing.T) {
	j := open(t, t.TempDir(), small(2))
	tests := []struct {
		name string
		r    any
		says string
	}{
		{"too large", strings.Repeat("x", MaxRecord), "larger than"},
		{"no JSON", json.RawMessage("{"), "cannot be encoded"},
		{"not encodable", make(chan int), "cannot be encoded"},
		{"invalid UTF-8", json.RawMessage("\"\xff\""), "UTF-8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantCode(t, j.Append(context.Background(), note{"a", 0, ""}, tt.r), sandbox.CodeValidation, tt.says)
		})
	}
	batch := make([]any, 5)
	for i := range batch {
		batch[i] = strings.Repeat("x", MaxRecord-2)
	}
	wantCode(t, j.Append(context.Background(), batch...), sandbox.CodeValidation, "one file")
	if err := j.Append(context.Background(), batch[:3]...); err != nil {
		t.Error(err)
	}
	if r := wantWhole(t, j); r.Records != 3 {
		t.Errorf("%d records, want the last batch only", r.Records)
	}
}

func TestRefusedOptions(t *testing.T) {
	for _, o := range []Options{{MaxFile: 1}, {MaxFile: -1}, {MaxFile: minFile, MaxTotal: minFile}, {MaxFile: minFile, MaxTotal: minFile * (maxFiles + 1)}} {
		_, err := Open(t.TempDir(), o)
		wantCode(t, err, sandbox.CodeValidation, "")
	}
}

func TestRefusedFolders(t *testing.T) {
	dir := t.TempDir()
	public := filepath.Join(dir, "public")
	if err := os.Mkdir(public, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(public, 0o777); err != nil {
		t.Fatal(err)
	}
	_, err := Open(public, Options{})
	wantCode(t, err, sandbox.CodePermissionDeny, "written by other users")
}

// TestClockGoesBackwards checks that order is by number and not by time.
func TestClockGoesBackwards(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	o := small(2)
	o.Now = func() time.Time { at = at.Add(-time.Hour); return at }
	j := open(t, t.TempDir(), o)
	appendNotes(t, j, "a", 0, 9, "")
	wantNotes(t, j, "a", 0, 9)
	wantWhole(t, j)
}

func TestWaitingEndsWithContext(t *testing.T) {
	j := open(t, t.TempDir(), Options{})
	appendNotes(t, j, "a", 0, 1, "")
	f, err := os.Open(filepath.Join(j.dir, lockName))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	wantCode(t, j.Append(ctx, note{}), sandbox.CodeBusy, "others write")
	_, err = j.Verify(ctx)
	wantCode(t, err, sandbox.CodeBusy, "others write")
	f.Close()
	appendNotes(t, j, "a", 1, 2, "")
	wantNotes(t, j, "a", 0, 2)
}

// TestFolderIsDeleted checks that a journal begins anew after its folder was
// deleted.
func TestFolderIsDeleted(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "j"), Options{})
	appendNotes(t, j, "a", 0, 1, "")
	if err := os.RemoveAll(j.dir); err != nil {
		t.Fatal(err)
	}
	if got, damage := read(t, j, Range{}); got != nil || damage != nil {
		t.Errorf("read %v, %v", got, damage)
	}
	appendNotes(t, j, "a", 5, 7, "")
	wantNotes(t, j, "a", 5, 7)
	wantWhole(t, j)
}

func TestClear(t *testing.T) {
	ctx := context.Background()
	j := open(t, t.TempDir(), small(8))
	odd := func(r Record) bool {
		var n note
		return json.Unmarshal(r.Data, &n) == nil && n.N%2 == 1
	}
	if n, err := j.Clear(ctx, "me", "", odd); n != 0 || err != nil {
		t.Fatalf("clearing nothing: %d, %v", n, err)
	}
	if names, err := os.ReadDir(j.dir); err != nil || len(names) > 1 {
		t.Errorf("clearing nothing leaves %v, %v", names, err)
	}
	appendNotes(t, j, "a", 0, 40, strings.Repeat("x", 8<<10))
	before := verify(t, j)
	n, err := j.Clear(ctx, "uid 0", "every odd one", odd)
	if n != 20 || err != nil {
		t.Fatalf("removed %d, %v", n, err)
	}
	r := wantWhole(t, j)
	if len(r.Clearings) != 1 || r.Files != 1 || r.First.Seq != before.Last.Seq+1 {
		t.Fatalf("report %+v", r)
	}
	if c := r.Clearings[0]; c.By != "uid 0" || c.Reason != "every odd one" || c.Removed != 20 || c.Kept != 20 || c.Time.IsZero() {
		t.Errorf("clearing %+v", c)
	}
	got, _ := read(t, j, Range{})
	if len(got) != 20 || got[0] != "a 0" || got[19] != "a 38" {
		t.Errorf("left %v", got)
	}
	if n, err := j.Clear(ctx, "uid 0", "again", odd); n != 0 || err != nil {
		t.Errorf("again: %d, %v", n, err)
	}
	appendNotes(t, j, "b", 0, 30, strings.Repeat("x", 8<<10))
	wantWhole(t, j)
	if n, err := j.Clear(ctx, "uid 0", "all", nil); n != 50 || err != nil {
		t.Errorf("all: %d, %v", n, err)
	}
	if r := wantWhole(t, j); r.Records != 0 || r.Clearings[0].Noted != 1 {
		t.Errorf("report %+v", r)
	}
	if _, strangers, _ := list(j.dir); len(strangers) > 0 {
		t.Errorf("left over: %v", strangers)
	}
}

func TestClearTellsOfDamage(t *testing.T) {
	j := open(t, t.TempDir(), Options{})
	appendNotes(t, j, "a", 0, 5, "")
	lines := load(t, j, 1)
	lines[2][100] ^= 1
	save(t, j, 1, lines...)
	if n, err := j.Clear(context.Background(), "me", "", nil); n != 4 || err != nil {
		t.Fatalf("removed %d, %v", n, err)
	}
	if r := wantWhole(t, j); r.Clearings[0].Damaged != 1 {
		t.Errorf("clearing %+v", r.Clearings)
	}
}

// TestReadingIsBounded reads 20 MB in both directions and looks at how large
// the heap becomes.
func TestReadingIsBounded(t *testing.T) {
	j := open(t, t.TempDir(), Options{MaxFile: 16 << 20, MaxTotal: 256 << 20})
	fillUp(t, j, 36000)
	var most uint64
	look := func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapInuse)
	}
	runtime.GC()
	look()
	before := most
	for _, r := range []Range{{}, {Backward: true}} {
		n := 0
		for _, err := range j.Records(t.Context(), r) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n%2000 == 0 {
				look()
			}
		}
		if n != 36000 {
			t.Errorf("%d records", n)
		}
	}
	if grown := most - min(before, most); grown > 8<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	} else {
		t.Logf("the heap has grown by %d bytes", grown)
	}
}
