// This file reports what changes below a path of a sandbox, by scanning it again
// and again through the sandbox's own files.
//
// It does not use the kernel's notifications inside, so it works with every
// provider and file transport. It misses what is created and removed between two
// scans, and a change that leaves size and time as they were. A scan is bounded
// in entries and in the bytes of their paths, because programs in the sandbox
// choose the names and the daemon pays with its memory; the watch reports what
// lies beyond these bounds. The watch rests nine times as long as a scan and its
// comparison took, so that a large tree costs no more than a tenth of one
// caller's time; but at most ten seconds: a scan may also take long because it
// had to wait, and the watch should not miss changes for minutes after it.

package resource

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
)

// Kinds of changes.
const (
	watchCreated  = "created"
	watchModified = "modified"
	watchRemoved  = "removed"
)

// A watchEntry is the state of one path in a scan.
type watchEntry struct {
	Mode     fs.FileMode
	Size     int64 // bytes; of a folder 0
	Modified time.Time
}

// A watchChange is one change. For a removed path, Entry is its last state.
type watchChange struct {
	Kind  string
	Path  string // inside
	Entry watchEntry
}

// A watchHearer receives the events of a watch. An error that it returns ends
// the watch.
type watchHearer interface {
	// Ready is called once, after the first scan, with the number of entries:
	// changes from then on are reported.
	Ready(entries int) error
	// Changes receives the changes between two scans, in the order of a walk. It
	// is called after every scan, also with none.
	Changes([]watchChange) error
	// Note receives what the watch cannot see, when that begins.
	Note(message string) error
}

// WatchOptions are the bounds of a watch. Zero values are the defaults.
type WatchOptions struct {
	Interval time.Duration // between two looks, at least; 1 s
	Entries  int           // that one look takes in; 20,000
	Bytes    int           // of their paths; 2 MiB

	// Turn is called before each scan and its release after it: a scan holds the
	// entries of a folder in memory, and comparing it to the one before takes
	// the processor. Nil does not wait.
	Turn func(context.Context) (release func(), err error)
}

func (o WatchOptions) orDefaults() WatchOptions {
	if o.Interval <= 0 {
		o.Interval = time.Second
	}
	if o.Entries <= 0 {
		o.Entries = 20_000
	}
	if o.Bytes <= 0 {
		o.Bytes = 2 << 20
	}
	if o.Turn == nil {
		o.Turn = func(context.Context) (func(), error) { return func() {}, nil }
	}
	return o
}

const (
	// resting is the ratio of the rest after a scan to the duration of the scan.
	resting = 9
	// longestRest is the longest rest for that reason.
	longestRest = 10 * time.Second
)

// runWatch watches root and what is below it until ctx ends, which is no error.
// A root that does not exist at the beginning is [sandbox.CodeNotFound]; one
// that disappears later is reported as removed, and may come again. It does not
// follow links.
func runWatch(ctx context.Context, f sandbox.Files, root string, o WatchOptions, h watchHearer) error {
	o = o.orDefaults()
	if _, err := f.Stat(ctx, root); err != nil {
		return err
	}
	have, _, took, err := o.look(ctx, f, root, nil)
	if err == nil {
		err = h.Ready(len(have.entries))
	}
	reported := ""
	for err == nil {
		if have.note != reported && have.note != "" {
			err = h.Note(have.note)
		}
		reported = have.note
		if err != nil || !rest(ctx, max(o.Interval, min(resting*took, longestRest))) {
			break
		}
		var changes []watchChange
		if have, changes, took, err = o.look(ctx, f, root, have); err != nil {
			break
		}
		err = h.Changes(changes)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// rest waits, and reports whether the watch goes on.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// look scans the tree once, after waiting for its turn, and returns the changes
// since before, the last scan, which is nil for the first, and how long all that
// took.
func (o WatchOptions) look(ctx context.Context, f sandbox.Files, root string, before *snapshot) (s *snapshot, changes []watchChange, took time.Duration, err error) {
	release, err := o.Turn(ctx)
	if err != nil {
		return nil, nil, 0, err
	}
	defer release()
	begun := time.Now()
	s, err = o.walk(ctx, f, root)
	if err == nil && before != nil {
		changes = diff(before, s)
		s = s.remembering(before)
	}
	return s, changes, time.Since(begun), err
}

// walk scans the tree.
func (o WatchOptions) walk(ctx context.Context, f sandbox.Files, root string) (*snapshot, error) {
	s := &snapshot{entries: map[string]watchEntry{}, closed: map[string]bool{}}
	err := fsbridge.Walk(ctx, f, root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return s.unseen(name, root, err)
		}
		if len(s.entries) == o.Entries || s.bytes+len(name) > o.Bytes {
			s.last, s.note = name, noteMore
			return fs.SkipAll
		}
		info, err := d.Info()
		if err != nil {
			return s.unseen(name, root, err)
		}
		e := watchEntry{Mode: info.Mode(), Size: info.Size(), Modified: info.ModTime()}
		if info.IsDir() {
			e.Size = 0
		}
		s.entries[name] = e
		s.bytes += len(name)
		return nil
	})
	return s, err
}

// The notes about what a watch cannot see.
const (
	noteMore   = "there are more entries, or longer paths, than a watch takes in; what comes after them is not watched"
	noteClosed = "some folders cannot be read; what is in them is not watched"
	noteMany   = "some folders have more entries than one look may hold; what is in them is not watched"
)

// A snapshot is the result of one scan.
type snapshot struct {
	entries map[string]watchEntry
	bytes   int             // of their paths
	last    string          // not empty: the scan ended here, and later names are not known
	closed  map[string]bool // folders whose entries are not known
	asked   int             // number of lookups in closed, which is the cost of a comparison
	note    string
}

// unseen handles the error of one path: a path that is gone is left out, a
// folder that is closed or holds too much is passed over, and any other error
// ends the watch.
func (s *snapshot) unseen(name, root string, err error) error {
	switch {
	case sandbox.IsNotFound(err), errors.Is(err, fs.ErrNotExist):
		if _, seen := s.entries[name]; seen {
			delete(s.entries, name)
			s.bytes -= len(name)
		}
	case name != root && (errors.Is(err, fs.ErrPermission) || sandbox.CodeOf(err) == sandbox.CodeCapabilityBlocked || sandbox.CodeOf(err) == sandbox.CodeValidation):
		s.pass(name, noteClosed)
	case tooMany(err):
		s.pass(name, noteMany)
	default:
		return err
	}
	return fs.SkipDir
}

// pass leaves out the entries of a folder.
func (s *snapshot) pass(folder, note string) {
	s.closed[folder] = true
	if s.note == "" {
		s.note = note
	}
}

// tooMany reports whether a folder has more entries than a walk holds. A spent
// budget has the same code, and ends the watch.
func tooMany(err error) bool {
	e, ok := errors.AsType[*sandbox.Error](err)
	return ok && e.Code == sandbox.CodeBudgetExceeded && e.Op == "walk"
}

// knows reports whether the scan would have seen name if it existed. It looks up
// each folder above name instead of comparing name with each closed folder:
// programs in the sandbox can close thousands.
func (s *snapshot) knows(name string) bool {
	if s.last != "" && order(name, s.last) >= 0 {
		return false
	}
	if len(s.closed) == 0 {
		return true
	}
	for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name, '/') {
		name = name[:i]
		s.asked++
		if s.closed[name] {
			return false
		}
	}
	return true
}

// remembering copies from the scan before the entries that this one could not
// see, so that a later scan can report them as modified, or as removed.
func (s *snapshot) remembering(before *snapshot) *snapshot {
	if s.last == "" && len(s.closed) == 0 {
		return s
	}
	room, bytes := len(s.entries), s.bytes // so that the memory stays bounded
	for name, e := range before.entries {
		if _, seen := s.entries[name]; seen || s.knows(name) || len(name) > bytes {
			continue
		}
		if room == 0 {
			break
		}
		s.entries[name] = e
		room, bytes = room-1, bytes-len(name)
	}
	return s
}

// diff returns the changes between two scans, in the order of a walk.
func diff(before, now *snapshot) []watchChange {
	var out []watchChange
	for name, e := range now.entries {
		was, there := before.entries[name]
		switch {
		case !there && before.knows(name):
			out = append(out, watchChange{watchCreated, name, e})
		case there && was.Mode.Type() != e.Mode.Type():
			out = append(out, watchChange{watchRemoved, name, was}, watchChange{watchCreated, name, e})
		case there && changed(was, e):
			out = append(out, watchChange{watchModified, name, e})
		}
	}
	for name, was := range before.entries {
		if _, there := now.entries[name]; !there && now.knows(name) {
			out = append(out, watchChange{watchRemoved, name, was})
		}
	}
	slices.SortStableFunc(out, func(a, b watchChange) int { return order(a.Path, b.Path) })
	return out
}

// changed compares the reported properties of an entry. It ignores the size and
// time of a folder, which change with its entries: those are reported themselves.
func changed(a, b watchEntry) bool {
	return a.Mode != b.Mode || !a.Mode.IsDir() && (a.Size != b.Size || !a.Modified.Equal(b.Modified))
}

// order compares paths by the order of a walk: a folder, its entries, and only
// then longer names.
func order(a, b string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		if a[i] == b[i] {
			continue
		}
		switch {
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		case a[i] < b[i]:
			return -1
		}
		return 1
	}
	return len(a) - len(b)
}
