// This file reports what changes in a folder of a sandbox.
//
// The guest inside is notified by the kernel of each change. Where there is none,
// as with fsTransport script, or where its kernel has no inotify, the folder is
// scanned again and again through the sandbox's own files, and the watch says so.
// A scan misses what is created and removed between two of them, and a change that
// leaves size and time as they were. It is bounded in entries and in the bytes of
// their paths, because programs in the sandbox choose the names and the daemon
// pays with its memory; the watch reports what lies beyond these bounds. Such a
// watch rests nine times as long as a scan and its comparison took, so that a
// large tree costs no more than a tenth of one caller's time; but at most ten
// seconds: a scan may also take long because it had to wait, and the watch should
// not miss changes for minutes after it.

package resource

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
)

// A watchEntry is the state of one path in a scan.
type watchEntry struct {
	Mode     fs.FileMode
	Size     int64 // bytes; of a folder 0
	Modified time.Time
}

// A watchChange is one change. For a removed path, Entry is its last state.
type watchChange struct {
	Kind  fsbridge.ChangeKind
	Path  string // inside
	Entry watchEntry
	To    string // of a rename: the new path inside, or empty
	Gone  bool   // nothing is known of the entry
}

// A watchHearer receives the events of a watch. An error that it returns ends
// the watch.
type watchHearer interface {
	// Ready is called once, with the number of entries: changes from then on are
	// reported.
	Ready(entries int, polls bool) error
	// Changes receives changes. Of a watch that polls they are those between two
	// scans, in the order of a walk, and it is called after every scan, also with
	// none.
	Changes([]watchChange) error
	// Note receives what the watch cannot see, when that begins.
	Note(code sandbox.Code, folder, message string) error
	// Overflow is called when changes were lost.
	Overflow() error
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

// runWatch watches the folder root, and with recursive what is below it, until ctx
// ends, which is no error. A root that does not exist at the beginning is
// [sandbox.CodeNotFound], and so is the end of a watch whose root has gone. It does
// not follow links.
func runWatch(ctx context.Context, f sandbox.Files, root string, recursive bool, o WatchOptions, h watchHearer) error {
	err := notifyWatch(ctx, f, root, recursive, h)
	if sandbox.CodeOf(err) == sandbox.CodeUnsupported {
		err = o.poll(ctx, f, root, recursive, h)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// notifyWatch is a watch of which the transport is notified of changes. It returns
// [sandbox.CodeUnsupported], and has called nothing, where it is not.
func notifyWatch(ctx context.Context, f sandbox.Files, root string, recursive bool, h watchHearer) error {
	w, ok := f.(fsbridge.ChangeWatcher)
	if !ok {
		return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "watch"}
	}
	changes, err := w.Changes(ctx, root, recursive)
	if err != nil {
		return err
	}
	defer changes.Close()
	err = h.Ready(changes.Entries(), false)
	for err == nil {
		var c fsbridge.Change
		if c, err = changes.Next(); err != nil {
			break
		}
		switch c.Kind {
		case fsbridge.ChangeOverflow:
			err = h.Overflow()
		case fsbridge.ChangeUnwatched:
			err = h.Note(sandbox.CodeOf(c.Err), c.Name, "what is in this folder is not watched: "+messageOf(c.Err))
		default:
			if !utf8.ValidString(c.Name) || !utf8.ValidString(c.To) {
				err = h.Note(sandbox.CodeValidation, "", "a "+string(c.Kind)+" is not reported, because JSON cannot represent the name "+strconv.QuoteToASCII(c.Name+" "+c.To))
				break
			}
			err = h.Changes([]watchChange{notified(root, c)})
		}
	}
	if sandbox.CodeOf(err) == sandbox.CodeUnsupported {
		err = &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "watch", Message: "the watch has ended", Err: err}
	}
	return err
}

// messageOf returns what is wrong, without the name of the folder.
func messageOf(err error) string {
	if e, ok := errors.AsType[*sandbox.Error](err); ok && e.Err != nil {
		return e.Err.Error()
	}
	return err.Error()
}

func notified(root string, c fsbridge.Change) watchChange {
	out := watchChange{Kind: c.Kind, Path: path.Join(root, c.Name), Gone: c.Info == nil}
	if c.To != "" {
		out.To = path.Join(root, c.To)
	}
	if c.Info != nil {
		out.Entry = entryOf(c.Info)
	}
	return out
}

func entryOf(info fs.FileInfo) watchEntry {
	e := watchEntry{Mode: info.Mode(), Size: info.Size(), Modified: info.ModTime()}
	if info.IsDir() {
		e.Size = 0
	}
	return e
}

// notePolls says why a watch sees less than one that is notified.
const notePolls = "the sandbox's file transport is not notified of changes, so the watch looks about once a second: what comes and goes in between is missed, " +
	"and a rename is a remove and a create; for all changes recreate the sandbox with fsTransport auto or guest"

// poll is a watch that scans.
func (o WatchOptions) poll(ctx context.Context, f sandbox.Files, root string, recursive bool, h watchHearer) error {
	o = o.orDefaults()
	info, err := f.Stat(ctx, root)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fsbridge.NewError("watch", root, syscall.ENOTDIR)
	}
	have, _, took, err := o.look(ctx, f, root, recursive, nil)
	if err == nil {
		err = h.Ready(len(have.entries), true)
	}
	if err == nil {
		err = h.Note(sandbox.CodeUnsupported, "", notePolls)
	}
	reported := ""
	for err == nil {
		if have.note != reported && have.note != "" {
			err = h.Note(noteCode(have.note), "", have.note)
		}
		reported = have.note
		if err != nil || !rest(ctx, max(o.Interval, min(resting*took, longestRest))) {
			break
		}
		var changes []watchChange
		if have, changes, took, err = o.look(ctx, f, root, recursive, have); err != nil {
			break
		}
		err = h.Changes(changes)
	}
	return err
}

func noteCode(note string) sandbox.Code {
	if note == noteClosed {
		return sandbox.CodeCapabilityBlocked
	}
	return sandbox.CodeBudgetExceeded
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
func (o WatchOptions) look(ctx context.Context, f sandbox.Files, root string, recursive bool, before *snapshot) (s *snapshot, changes []watchChange, took time.Duration, err error) {
	release, err := o.Turn(ctx)
	if err != nil {
		return nil, nil, 0, err
	}
	defer release()
	begun := time.Now()
	s, err = o.walk(ctx, f, root, recursive)
	if err == nil && before != nil {
		changes = diff(before, s)
		s = s.remembering(before)
	}
	return s, changes, time.Since(begun), err
}

// walk scans the tree.
func (o WatchOptions) walk(ctx context.Context, f sandbox.Files, root string, recursive bool) (*snapshot, error) {
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
		s.entries[name] = entryOf(info)
		s.bytes += len(name)
		if !recursive && name != root && d.IsDir() {
			return fs.SkipDir
		}
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
			out = append(out, watchChange{Kind: fsbridge.ChangeCreate, Path: name, Entry: e})
		case there && was.Mode.Type() != e.Mode.Type():
			out = append(out, watchChange{Kind: fsbridge.ChangeRemove, Path: name, Entry: was}, watchChange{Kind: fsbridge.ChangeCreate, Path: name, Entry: e})
		case there && rewritten(was, e):
			out = append(out, watchChange{Kind: fsbridge.ChangeWrite, Path: name, Entry: e})
		case there && was.Mode != e.Mode:
			out = append(out, watchChange{Kind: fsbridge.ChangeMode, Path: name, Entry: e})
		}
	}
	for name, was := range before.entries {
		if _, there := now.entries[name]; !there && now.knows(name) {
			out = append(out, watchChange{Kind: fsbridge.ChangeRemove, Path: name, Entry: was})
		}
	}
	slices.SortStableFunc(out, func(a, b watchChange) int { return order(a.Path, b.Path) })
	return out
}

// rewritten compares the content of an entry, as far as a scan sees it. It ignores
// the size and time of a folder, which change with its entries: those are reported
// themselves.
func rewritten(a, b watchEntry) bool {
	return !a.Mode.IsDir() && (a.Size != b.Size || !a.Modified.Equal(b.Modified))
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
