package resource

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// TestRemembersWithinBounds holds that what a watch keeps of earlier scans does
// not grow beyond what the last one has seen, in entries and in bytes: programs
// in the sandbox choose the names, and in which scan they are seen.
func TestRemembersWithinBounds(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	seen := func(entries, length int, before *snapshot) *snapshot {
		s := &snapshot{entries: map[string]watchEntry{}, last: "/"}
		for i := range entries {
			name := fmt.Sprintf("/%08d%s", i, strings.Repeat("x", length-9))
			s.entries[name], s.bytes = watchEntry{}, s.bytes+length
		}
		return s.remembering(before)
	}
	have := &snapshot{entries: map[string]watchEntry{}}
	for length := 4096; length >= 64; length /= 2 {
		have = seen(most/length, length, have)
		held := 0
		for name := range have.entries {
			held += len(name)
		}
		if held > 2*most || len(have.entries) > 2*most/length {
			t.Fatalf("at %d: %d entries, %d bytes of names", length, len(have.entries), held)
		}
		if length < 4096 && held == most {
			t.Fatalf("at %d: nothing is remembered", length)
		}
	}
}

// oneAtATime fails when a folder of the host is listed without its turn.
type oneAtATime struct {
	sandbox.Files // nil: a walk uses only the methods below
	t             *testing.T
	held          *sync.Mutex
}

func (f oneAtATime) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	if f.held.TryLock() {
		f.t.Error("a folder is listed without a turn")
		f.held.Unlock()
	}
	return os.ReadDir(name)
}

func (f oneAtATime) Stat(_ context.Context, name string) (fs.FileInfo, error) { return os.Stat(name) }

// A watchCounter counts the reports of scans, and ends the watch after some.
type watchCounter struct{ left int }

func (c *watchCounter) Ready(int, bool) error                   { return nil }
func (c *watchCounter) Note(sandbox.Code, string, string) error { return nil }
func (c *watchCounter) Overflow() error                         { return nil }
func (c *watchCounter) Changes([]watchChange) error {
	if c.left--; c.left == 0 {
		return fs.ErrClosed
	}
	return nil
}

// A crowded folder has more entries than a walk holds.
type crowded struct {
	sandbox.Files
	folder string
	spent  bool // instead nothing is left of a budget
}

func (f crowded) Stat(_ context.Context, name string) (fs.FileInfo, error) { return os.Stat(name) }

func (f crowded) ReadDir(_ context.Context, name string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(name)
	switch {
	case name != f.folder:
	case f.spent:
		return nil, &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "files"}
	default:
		entries = slices.Repeat(entries, 1<<20)
	}
	return entries, err
}

// TestPassesCrowdedFolders holds that a folder with too many entries is reported
// and does not end the watch, that its entries are not reported as coming and
// going, and that a spent budget ends the watch.
func TestPassesCrowdedFolders(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	in := filepath.Join(root, "in")
	for _, name := range []string{in, filepath.Join(in, "x"), filepath.Join(root, "later")} {
		if err := os.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for folder, seen := range map[string]int{root: 1, in: 3} {
		s, err := WatchOptions{}.orDefaults().walk(t.Context(), crowded{folder: folder}, root, true)
		if err != nil || s.note != noteMany || len(s.entries) != seen {
			t.Fatalf("%s: %q, %d entries, %v", folder, s.note, len(s.entries), err)
		}
		if s.knows(filepath.Join(folder, "x")) || !s.knows(folder) || s.knows(filepath.Join(root, "later")) != (folder == in) {
			t.Errorf("%s: %v is not known", folder, s.closed)
		}
		if _, err = (WatchOptions{}).orDefaults().walk(t.Context(), crowded{folder: folder, spent: true}, root, true); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
			t.Errorf("%s, with a budget that is spent: %v", folder, err)
		}
	}
}

// TestTakesTurns holds that each scan, and nothing but scans, waits for a turn.
func TestTakesTurns(t *testing.T) {
	t.Parallel()
	var held sync.Mutex
	files, dir := oneAtATime{t: t, held: &held}, t.TempDir()
	turn := func(context.Context) (func(), error) { held.Lock(); return held.Unlock, nil }
	done := make(chan error)
	for range 2 {
		go func() {
			done <- runWatch(t.Context(), files, dir, true, WatchOptions{Interval: time.Millisecond, Turn: turn}, &watchCounter{left: 5})
		}()
	}
	for range 2 {
		if err := <-done; err != fs.ErrClosed {
			t.Error(err)
		}
	}
	if !held.TryLock() {
		t.Error("a turn was not given back")
	}
	refused := func(context.Context) (func(), error) { return nil, fs.ErrPermission }
	if err := runWatch(t.Context(), files, dir, true, WatchOptions{Turn: refused}, &watchCounter{}); err != fs.ErrPermission {
		t.Errorf("without a turn: %v", err)
	}
}

// TestComparesWithinBounds holds that the cost of comparing two scans grows with
// the depth of their entries, and not with the number of closed folders.
func TestComparesWithinBounds(t *testing.T) {
	t.Parallel()
	const many, depth = 1000, 3
	look := func(file string) *snapshot {
		s := &snapshot{entries: map[string]watchEntry{}, closed: map[string]bool{}}
		for i := range many {
			closed := fmt.Sprintf("/w/closed%d", i)
			s.entries[closed], s.closed[closed] = watchEntry{Mode: fs.ModeDir}, true
			s.entries[fmt.Sprintf("/w/in/%s%d", file, i)] = watchEntry{}
			s.bytes += 100
		}
		return s
	}
	before, now := look("a"), look("b")
	before.entries["/w/closed7/kept"] = watchEntry{}
	changes := diff(before, now)
	if len(changes) != 2*many {
		t.Errorf("%d changes", len(changes))
	}
	now.remembering(before)
	if _, kept := now.entries["/w/closed7/kept"]; !kept || len(now.entries) != 2*many+1 {
		t.Errorf("%d entries are remembered", len(now.entries))
	}
	if asked := before.asked + now.asked; asked == 0 || asked > depth*(3*many+2) {
		t.Errorf("asked %d times", asked)
	}
}

// TestKnowsWhatIsClosed holds that knows is false for names below a closed
// folder, at any depth, and true for all others: the folder itself, and names
// that only have it as a prefix.
func TestKnowsWhatIsClosed(t *testing.T) {
	t.Parallel()
	s := &snapshot{closed: map[string]bool{"/w/a": true, "/w/b/c": true}}
	for name, want := range map[string]bool{
		"/": true, "/w": true, "/w/a": true, "/w/ab": true, "/w/a.b/c": true, "/w/b": true, "/w/b/c": true, "/w/b/d": true, "/x/w/a/y": true,
		"/w/a/x": false, "/w/a/x/y/z": false, "/w/b/c/d": false,
	} {
		if got := s.knows(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A standing is files in which each scan takes a given time.
type standing struct {
	sandbox.Files
	takes  []time.Duration // one look after the other
	over   time.Time       // the look before
	rested []time.Duration // before each look but the first
}

func (f *standing) Stat(_ context.Context, name string) (fs.FileInfo, error) { return os.Stat(name) }

func (f *standing) ReadDir(context.Context, string) ([]fs.DirEntry, error) {
	if !f.over.IsZero() {
		f.rested = append(f.rested, time.Since(f.over))
	}
	<-time.After(f.takes[0]) // of a bubble
	f.takes, f.over = f.takes[1:], time.Now()
	return nil, nil
}

// TestRestsWithinBounds holds that the rest of a watch grows with the duration
// of a scan, and that a scan that was blocked is followed by no more than
// seconds of rest.
func TestRestsWithinBounds(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := &standing{takes: []time.Duration{0, time.Second / 2, time.Minute, time.Second / 9, 0}}
		if err := runWatch(t.Context(), f, dir, true, WatchOptions{}, &watchCounter{left: 4}); err != fs.ErrClosed {
			t.Fatal(err)
		}
		want := []time.Duration{time.Second, 9 * time.Second / 2, 10 * time.Second, time.Second}
		if !slices.Equal(f.rested, want) {
			t.Errorf("it rests %v, want %v", f.rested, want)
		}
	})
}
