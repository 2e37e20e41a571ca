package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

const (
	// interval is the time between two looks at the folder while a caller
	// waits. Looking works for changes by any process on any file system; a
	// kernel watch takes inotify instances, which are scarce.
	interval = 50 * time.Millisecond

	// coarse is how far apart two changes of a folder may be and still carry
	// the same time.
	coarse = 2 * time.Second

	// tidying is the time between two sweeps of one process.
	tidying = 10 * time.Minute

	// maxKnown bounds the derived grants that a process remembers.
	maxKnown = 4096

	linksDir = "derived"
)

// A Folder keeps revocations on disk, for all processes of the host: one small
// file per revoked grant, whose existence is the revocation, whatever its
// contents, and one per derived grant. It is safe for concurrent use, keeps no
// file open, and is a [Watcher]; while a caller watches, one goroutine looks at
// the folder.
type Folder struct {
	dir  string
	hub  hub
	mine Memory // what this process has revoked, even where the disk failed

	passed *statedir.Clock

	mu      sync.Mutex
	swept   time.Time
	parents map[string]string // of derived grants that were looked up: they stay what they are
	counts  map[string]int    // notes, by folder and account; see room
	counted time.Time
}

// Most notes of one tenant, and of those that one of its agents has made.
const (
	maxMarks      = 16384
	maxAgentMarks = 2048
	maxLinks      = 65536

	recounting = time.Minute // between two counts where an account is full
)

// accountOf returns the account for which a note about the name counts, and the
// maximum for it. Names without a tenant belong to the administrator and are
// not counted.
func accountOf(name string, links bool) (account string, most int) {
	tenant, id, ok := strings.Cut(strings.TrimPrefix(name, "\x00"), "\x00")
	if !ok || name[0] != 0 || tenant == "" {
		return "", 0
	}
	agent, _, scoped := strings.Cut(strings.TrimPrefix(id, "\x01"), "\x01")
	switch {
	case links:
		return tenant, maxLinks
	case scoped && id[0] == 1:
		return tenant + "\x00" + agent, maxAgentMarks
	}
	return tenant, maxMarks
}

// room counts a note about the name in dir, unless it is there already, or refuses
// where its account has too many. What has expired is swept before that.
func (f *Folder) room(dir, path, name string) error {
	account, most := accountOf(name, dir != f.dir)
	if account == "" {
		return nil
	}
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	key := dir + "\x00" + account
	f.mu.Lock()
	full := f.counts == nil || f.counts[key] >= most && time.Since(f.counted) > recounting
	f.mu.Unlock()
	if full {
		if _, err := f.Sweep(); err != nil {
			return err
		}
		if err := f.recount(); err != nil {
			return statedir.Unavailable("count grants", dir, err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts[key] >= most {
		return &sandbox.Error{
			Code: sandbox.CodeBudgetExceeded, Op: "note grant", Resource: dir, Retryable: true,
			Message: "too many grants of the tenant or agent are noted that have not expired", Hint: "give grants, and revocations, shorter times",
		}
	}
	f.counts[key]++
	return nil
}

// recount counts the existing notes by account.
func (f *Folder) recount() error {
	counts := map[string]int{}
	for _, dir := range []string{f.dir, filepath.Join(f.dir, linksDir)} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if n, err := get(filepath.Join(dir, e.Name()), ""); err == nil { // an unreadable file has no owner
				account, _ := accountOf(n.ID, dir != f.dir)
				counts[dir+"\x00"+account]++
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts, f.counted = counts, time.Now()
	return nil
}

// Open returns the revocations in the folder dir, which is made with mode 0700
// when it is missing and refused as [statedir.MakePrivate] does. When it goes
// away later every grant counts as revoked.
func Open(dir string) (*Folder, error) {
	path, err := statedir.MakePrivate(dir)
	if err != nil {
		return nil, err
	}
	if _, err := statedir.MakePrivate(filepath.Join(path, linksDir)); err != nil {
		return nil, err
	}
	f := &Folder{dir: path, passed: statedir.In(path)}
	f.hub.begin = f.poll
	return f, nil
}

// Revoke revokes the grant, and with it all grants that were or will be derived
// from it. The revocation is kept until the grant has expired; a zero time
// means for ever. Revoke returns when the revocation will survive a loss of
// power. After a disk error the revocation is still effective in this process,
// and may be in others; [sandbox.CodeBudgetExceeded] says that the tenant has
// too many, and the revocation has no effect.
func (f *Folder) Revoke(id string, expires time.Time) error {
	if err := checkID(id); err != nil {
		return err
	}
	if err := f.room(f.dir, f.mark(id), id); err != nil {
		return err
	}
	if err := f.mine.Revoke(id, expires); err != nil {
		return err
	}
	f.look(time.Time{}) // here it holds now, however slow the disk is
	err := putMark(f.mark(id), note{ID: id, Until: millis(expires)})
	f.tidy()
	return statedir.Unavailable("revoke grant", f.mark(id), err)
}

// Derived notes that child was derived from parent and expires then. It has to
// be called before the child is used, and returns when the note will survive a
// loss of power.
func (f *Folder) Derived(child, parent string, expires time.Time) error {
	if err := checkIDs(child, parent); err != nil {
		return err
	}
	path := f.link(child)
	had, err := get(path, child)
	switch {
	case err == nil && had.Parent != parent:
		return another(child)
	case errors.Is(err, fs.ErrNotExist):
		if err := f.room(filepath.Dir(path), path, child); err != nil {
			return err
		}
		err = replace(path, note{ID: child, Parent: parent, Until: millis(expires)})
	case err == nil && later(expires, had.until()):
		err = replace(path, note{ID: child, Parent: parent, Until: millis(expires)})
	}
	f.tidy()
	return statedir.Unavailable("note derived grant", path, err)
}

// Revoked is that of [Watcher].
func (f *Folder) Revoked(id string) (bool, error) {
	line, err := lineage(id, f.parent)
	if err == nil {
		var gone bool
		if gone, err = f.any(line); err == nil {
			return gone, nil
		}
	}
	return true, statedir.Unavailable("look up grant", f.dir, err)
}

// Watch is that of [Watcher].
func (f *Folder) Watch(ctx context.Context, id string) <-chan struct{} {
	line, err := lineage(id, f.parent)
	w := &watch{line: line, closed: make(chan struct{})}
	f.hub.add(ctx, w)
	if gone, anyErr := f.any(line); gone || err != nil || anyErr != nil {
		f.hub.letGo(w)
	}
	return w.closed
}

// Forgotten is that of [Watcher].
func (f *Folder) Forgotten() (time.Time, error) { return f.passed.Time() }

// any reports whether one of the line was revoked.
func (f *Folder) any(line []string) (bool, error) {
	f.mine.mu.Lock()
	gone := f.mine.any(line)
	f.mine.mu.Unlock()
	if gone {
		return true, nil
	}
	for _, id := range line {
		if _, err := os.Lstat(f.mark(id)); err == nil {
			return true, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return true, err
		}
	}
	if _, err := os.Lstat(f.dir); err != nil { // else nothing is there because nothing can be
		return true, err
	}
	return false, nil
}

// parent is what the grant was derived from.
func (f *Folder) parent(id string) (string, error) {
	f.mu.Lock()
	known := f.parents[id]
	f.mu.Unlock()
	if known != "" {
		return known, nil
	}
	n, err := get(f.link(id), id)
	if errors.Is(err, fs.ErrNotExist) {
		_, err = os.Lstat(filepath.Join(f.dir, linksDir))
		return "", err
	}
	if err == nil {
		f.mu.Lock()
		if f.parents == nil || len(f.parents) >= maxKnown {
			f.parents = map[string]string{}
		}
		f.parents[id] = n.Parent
		f.mu.Unlock()
	}
	return n.Parent, err
}

// poll looks at the folder until ctx ends.
func (f *Folder) poll(ctx context.Context) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			last = f.look(last)
		}
	}
}

// look releases the watches of revoked grants, unless the folder is unchanged
// since the time of change last. It returns the time of its change, or zero
// when later changes may have the same time.
func (f *Folder) look(last time.Time) time.Time {
	fi, err := os.Lstat(f.dir)
	if err == nil && !last.IsZero() && fi.ModTime().Equal(last) {
		return last
	}
	now := time.Now()
	f.hub.release(func(line []string) bool {
		gone, err := f.any(line)
		return gone || err != nil
	})
	if err != nil || now.Sub(fi.ModTime()).Abs() < coarse {
		return time.Time{}
	}
	return fi.ModTime()
}

// mark is the file that says that the grant was revoked.
func (f *Folder) mark(id string) string { return filepath.Join(f.dir, fileName(id)) }

// link is the file that says what the grant was derived from.
func (f *Folder) link(id string) string { return filepath.Join(f.dir, linksDir, fileName(id)) }

// A Swept is the result of a sweep.
type Swept struct {
	Removed int
	Kept    int
	Damaged []string // paths of unreadable files, which stay and count
}

// Sweep forgets what is about grants that have certainly expired some minutes
// ago.
func (f *Folder) Sweep() (Swept, error) {
	var s Swept
	passed, late := f.passed.Advance(0)
	for _, dir := range []string{f.dir, filepath.Join(f.dir, linksDir)} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return s, statedir.Unavailable("sweep revocations", dir, err)
		}
		for _, e := range slices.DeleteFunc(entries, isNoNote) {
			path := filepath.Join(dir, e.Name())
			n, err := get(path, "")
			if strings.HasPrefix(e.Name(), ".") { // being written, or left by a process that was killed
				n, err = leftover(e)
			}
			switch {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				s.Damaged = append(s.Damaged, path)
			case !over(n.until(), passed):
				s.Kept++
			default:
				if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return s, statedir.Unavailable("sweep revocations", path, err)
				}
				s.Removed++
			}
		}
	}
	return s, late
}

// isNoNote reports whether e is neither a note nor what may become one.
func isNoNote(e fs.DirEntry) bool { return e.IsDir() || e.Name() == statedir.FileName }

// leftover is about a temporary file, which goes an hour after its last change.
func leftover(e fs.DirEntry) (note, error) {
	fi, err := e.Info()
	if err != nil {
		return note{}, err
	}
	return note{Until: millis(fi.ModTime().Add(time.Hour))}, nil
}

// tidy sweeps now and then. It reports no error, because the current caller
// does not depend on the result.
func (f *Folder) tidy() {
	f.mu.Lock()
	due := time.Since(f.swept) > tidying
	if due {
		f.swept = time.Now()
	}
	f.mu.Unlock()
	if due {
		_, _ = f.Sweep()
	}
}
