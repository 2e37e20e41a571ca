// Package registry records which sandboxes exist and when they were used
// last.
//
// There is one small file per sandbox, so that what is done to one record
// costs the same however many there are, and damage to one file stays there.
// The labels of a container are the truth about what exists; a record adds
// what changes: last use, claims, the workspace. A lost record can be rebuilt
// from labels, so a file that cannot be read is set aside and reported, and
// never stands in the way of the others.
//
// A record changes under a flock(2) lock on its own file, and only while that
// file still carries its name. So no update is lost between processes, and
// touching a record that was deleted meanwhile cannot bring it back.
package registry

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/google/renameio/v2"
)

// Format is the version of the file layout. A file of a newer version is
// reported and left alone: another, newer program of ours owns it.
const Format = 1

// TouchResolution is how exactly last use is kept. A touch that would move
// it by less writes nothing.
const TouchResolution = time.Second

// maxSkew is how far a last use may lie ahead of a touch and be believed.
const maxSkew = time.Minute

// Reasons for which a record cannot be read; test with [errors.Is].
var (
	// ErrCorrupt: the file was no record and has been set aside. The record
	// can be rebuilt from the labels of the container.
	ErrCorrupt = errors.New("not a record")
	// ErrNewer: the file was written by a newer version.
	ErrNewer = errors.New("written by a newer version")
)

// A Record is what is kept about one sandbox.
type Record struct {
	Name       string        `json:"name"`
	Kind       sandbox.Kind  `json:"kind"`
	Provider   string        `json:"provider"`
	Instance   string        `json:"instance"`
	Tenant     string        `json:"tenant"`
	Agent      string        `json:"agent"`
	Session    string        `json:"session"`
	Scope      sandbox.Scope `json:"scope"`
	ScopeKey   string        `json:"scopeKey"`
	Image      string        `json:"image"`
	ImageID    string        `json:"imageId"`
	ConfigHash string        `json:"configHash"`
	Workspace  string        `json:"workspace"` // host path
	CreatedAt  time.Time     `json:"createdAt"`
	LastUsedAt time.Time     `json:"lastUsedAt"`

	// Frozen says that a process has frozen the sandbox, or was about to, and
	// that the sandbox has not been used since. It is a hint: a process that
	// reads it thaws the sandbox whatever state the sandbox is in. A touch
	// clears it.
	Frozen bool `json:"frozen,omitempty"`

	// ExpiresAt is until when the sandbox is kept however idle it is, and
	// after which it goes; zero leaves that to the rules of prune.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`

	// OnTimeout is what happens at ExpiresAt whatever runs in the sandbox, "kill" or
	// "pause"; where it is empty the sandbox goes then unless something runs in it.
	// Timeout is how long ExpiresAt lay ahead when it was set, in seconds.
	OnTimeout string `json:"onTimeout,omitempty"`
	Timeout   int64  `json:"timeout,omitempty"`

	// Held, of one that is Frozen, says that no use thaws it: it is resumed by
	// request. A touch does not clear it.
	Held bool `json:"held,omitempty"`

	// Ending says that the sandbox is being removed because its time is over.
	Ending bool `json:"ending,omitempty"`

	// Shape, of a slot of the pool, is what sandboxes it can become.
	Shape string `json:"shape,omitempty"`

	// Spec is what the sandbox was created from. It explains what has
	// changed since and decides nothing. It lies in a file of its own, so
	// that touching and listing need not read it: [Store.List] leaves it
	// nil, and so does [Store.Get] when that file is gone or stale.
	Spec *sandbox.Spec `json:"-"`
}

// Owner returns whose the recorded sandbox is.
func (r Record) Owner() sandbox.Owner {
	return sandbox.Owner{
		Instance: r.Instance, Tenant: r.Tenant, Agent: r.Agent, Session: r.Session,
		Scope: r.Scope, ScopeKey: r.ScopeKey,
	}
}

// A Store is a folder of records. It is safe for concurrent use by many
// processes. Its errors are of type *[sandbox.Error].
//
// A record belongs to a provider: a session that is used with two of them has two
// sandboxes of one name, and a record of each. See [Store.Of].
type Store struct {
	root     string
	provider string // whose records are read and written; empty is whichever there is
	cache    *cache // nil reads files each time

	elsewhere map[string]Documents // by provider, of those whose records are not in the folder
}

// Of returns a view that reads and writes the records of one provider alone.
// Without it the record of a name is whichever there is, the one first that
// was there first.
//
// The record of a provider lies in NAME.json or, where that is another one's, in
// NAME@PROVIDER.json.
func (s *Store) Of(provider string) *Store {
	return &Store{root: s.root, provider: provider, cache: s.cache, elsewhere: s.elsewhere}
}

const (
	containersDir = "containers"
	browsersDir   = "browsers"
	specsDir      = "specs"
)

// Open returns the records below the folder root, which must exist.
func Open(root string) (*Store, error) {
	s := &Store{root: root}
	return s, s.makeFolders()
}

func (s *Store) makeFolders() error {
	for _, sub := range []string{containersDir, browsersDir, specsDir} {
		p := filepath.Join(s.root, sub)
		if err := os.Mkdir(p, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return statedir.Unavailable("open registry", p, err)
		}
	}
	return nil
}

// Put inserts r or replaces the record of its kind, name and provider. It makes
// missing folders again.
func (s *Store) Put(r Record) error {
	if r.Provider != "" {
		s = s.Of(r.Provider)
	}
	if in, ok := s.in(); ok {
		return in.put(r)
	}
	if err := s.makeFolders(); err != nil {
		return err
	}
	path, err := s.path(r.Kind, r.Name)
	if err != nil {
		return err
	}
	spec, digest, err := encodeSpec(r.Spec)
	if err != nil {
		return err
	}
	data, err := encode(file{Format: Format, Record: r, SpecDigest: digest})
	if err != nil {
		return err
	}
	for {
		if err := s.insert(path, stem(path), data, spec); !errors.Is(err, fs.ErrExist) {
			return statedir.Unavailable("write record", path, err)
		}
		err := locked(path, func() error {
			if err := s.writeSpec(stem(path), spec); err != nil {
				return err
			}
			return replace(path, data)
		})
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted between the two
		}
		if errors.Is(err, ErrCorrupt) { // a link or the like in its place
			if _, err := setAside(path, r.Name, r.Kind); err != nil {
				return statedir.Unavailable("write record", path, err)
			}
			continue
		}
		if err != nil {
			return statedir.Unavailable("write record", path, err)
		}
		return statedir.Unavailable("write record", path, statedir.SyncDir(filepath.Dir(path)))
	}
}

// insert writes a record that must not exist yet; link(2) says fs.ErrExist
// if it does.
func (s *Store) insert(path, name string, data, spec []byte) error {
	if _, err := os.Lstat(path); err == nil {
		return fs.ErrExist
	}
	if err := s.writeSpec(name, spec); err != nil {
		return err
	}
	dir := filepath.Dir(path)
	tmp, err := renameio.NewPendingFile(path, renameio.WithTempDir(dir), renameio.WithStaticPermissions(0o600))
	if err != nil {
		return err
	}
	defer tmp.Cleanup()
	if _, err := tmp.Write(data); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := os.Link(tmp.Name(), path); err != nil {
		return err
	}
	return statedir.SyncDir(dir)
}

// Get returns the record of that kind and name. A missing one is
// [sandbox.CodeNotFound]. One that is no record is set aside, and the error
// wraps [ErrCorrupt]; one of a newer version stays, and the error wraps
// [ErrNewer].
func (s *Store) Get(kind sandbox.Kind, name string) (Record, error) {
	s, err := s.behindRecord(kind, name)
	if err != nil {
		return Record{}, err
	}
	if in, ok := s.in(); ok {
		f, d, err := in.read(kind, name)
		if err == nil {
			f.Record.Spec = specIn(d.Spec, f.SpecDigest)
		}
		return f.Record, err
	}
	f, err := s.read(kind, name)
	if err != nil {
		return Record{}, err
	}
	path, err := s.path(kind, name)
	if err == nil {
		f.Record.Spec = s.readSpec(stem(path), f.SpecDigest)
	}
	return f.Record, nil
}

// Look is Get without the Spec, which is most of what there is to read.
func (s *Store) Look(kind sandbox.Kind, name string) (Record, error) {
	s, err := s.behindRecord(kind, name)
	if err != nil {
		return Record{}, err
	}
	f, err := s.read(kind, name)
	return f.Record, err
}

// readDisk returns the record as it lies on disk, and where that is.
func (s *Store) readDisk(kind sandbox.Kind, name string) (f file, path string, err error) {
	path, data, err := s.locate(kind, name)
	if err != nil {
		return file{}, path, err
	}
	if data != nil {
		f, err = decode(data, name, kind)
	} else {
		f, err = readFile(path, name, kind)
	}
	if err != nil {
		return file{}, path, s.problem(path, name, kind, err).Err
	}
	return f, path, nil
}

// Touch sets the last use of a record to now, unless another process set a
// later one meanwhile, and notes that the sandbox is not frozen. A last use
// that lies further ahead than the clocks of processes can differ comes from a
// wrong clock, and Touch corrects it. The cost of Touch does not depend on the
// number of records. Touch returns [sandbox.CodeNotFound] for a record that was
// removed and does not make it again.
func (s *Store) Touch(kind sandbox.Kind, name string, now time.Time) error {
	return s.changeLater(kind, name, func(f *file) bool { return f.touch(now) })
}

// Use is Touch for a caller that is about to use the sandbox. Where it is
// recorded as frozen nothing is written and frozen is true: the caller thaws it,
// and touches the record then. Otherwise last is the last use that is on record
// now. The caller holds a lease, without which a sandbox is not frozen, so that
// Use takes the lock of the record only where it writes.
func (s *Store) Use(kind sandbox.Kind, name string, now time.Time) (frozen bool, last time.Time, err error) {
	f, err := s.read(kind, name)
	if err != nil {
		return false, time.Time{}, err
	}
	if !f.Record.Frozen && Recent(f.Record.LastUsedAt, now) {
		return false, f.Record.LastUsedAt, nil
	}
	err = s.changeLater(kind, name, func(f *file) bool {
		frozen = f.Record.Frozen
		changed := !frozen && f.touch(now)
		last = f.Record.LastUsedAt
		return changed
	})
	return frozen, last, err
}

// Recent reports whether a use at now is noted by a record whose last use is
// last: the record is not written for it.
func Recent(last, now time.Time) bool {
	since := now.Sub(last)
	return since < TouchResolution && since > -maxSkew
}

// touch notes a use at now and reports whether that changes anything worth
// writing.
func (f *file) touch(now time.Time) bool {
	recent := Recent(f.Record.LastUsedAt, now)
	frozen := f.Record.Frozen && !f.Record.Held
	if recent && !frozen {
		return false
	}
	if !recent {
		f.Record.LastUsedAt = now
	}
	if frozen {
		f.Record.Thaw(now)
	}
	return true
}

// Thaw notes that the sandbox runs again at now. A timeout at whose end it was paused
// begins anew.
func (r *Record) Thaw(now time.Time) {
	r.Frozen, r.Held = false, false
	if r.Timeout > 0 && r.OnTimeout == "pause" && !now.Before(r.ExpiresAt) {
		r.ExpiresAt = now.Add(time.Duration(r.Timeout) * time.Second).UTC()
	}
}

// Update lets fn change a record while no other process can. Name, kind,
// provider and Spec cannot be changed. A record that is gone is [sandbox.CodeNotFound]
// and fn is not called. An error of fn is returned and nothing is written.
func (s *Store) Update(kind sandbox.Kind, name string, fn func(*Record) error) error {
	var failed error
	err := s.change(kind, name, func(f *file) bool {
		r := f.Record
		if failed = fn(&r); failed != nil {
			return false
		}
		r.Name, r.Kind, r.Provider, r.Spec = f.Record.Name, f.Record.Kind, f.Record.Provider, nil
		f.Record = r
		return true
	})
	return errors.Join(failed, err)
}

// change rewrites a record under its lock if fn says so. The content is
// synced and the folder is not: a crash may forget the last touch, and never
// leaves half a record.
func (s *Store) change(kind sandbox.Kind, name string, fn func(*file) bool) error {
	s, err := s.behindRecord(kind, name)
	if err != nil {
		return err
	}
	if in, ok := s.in(); ok {
		return in.change(kind, name, false, fn)
	}
	path, err := s.path(kind, name)
	if err != nil {
		return err
	}
	err = locked(path, func() error {
		f, err := readFile(path, name, kind)
		if err != nil || !fn(&f) {
			return err
		}
		data, err := encode(f)
		if err != nil {
			return err
		}
		return replace(path, data)
	})
	if err != nil {
		return s.problem(path, name, kind, err).Err
	}
	return nil
}

// changeLater is change for what need not outlast this process. A folder has it at
// once; what is kept elsewhere is written when the change costs little.
func (s *Store) changeLater(kind sandbox.Kind, name string, fn func(*file) bool) error {
	s, err := s.behindRecord(kind, name)
	if err != nil {
		return err
	}
	if in, ok := s.in(); ok {
		return in.change(kind, name, true, fn)
	}
	return s.change(kind, name, fn)
}

// Delete removes a record. Removing what is gone is not an error. The folder
// is not synced: a record that comes back after a crash names a sandbox that
// is gone, and is pruned as such.
func (s *Store) Delete(kind sandbox.Kind, name string) error {
	s, err := s.behindRecord(kind, name)
	if err != nil {
		return err
	}
	if in, ok := s.in(); ok {
		return in.delete(kind, name)
	}
	path, err := s.path(kind, name)
	if err != nil {
		return err
	}
	err = locked(path, func() error {
		if err := os.Remove(path); err != nil {
			return err
		}
		if err := os.Remove(s.specPath(stem(path))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return statedir.Unavailable("delete record", path, err)
}

// path returns where the record lies.
func (s *Store) path(kind sandbox.Kind, name string) (string, error) {
	path, _, err := s.locate(kind, name)
	return path, err
}

// locate is path, and returns what the file holds where finding it meant to
// read it; else data is nil.
func (s *Store) locate(kind sandbox.Kind, name string) (path string, data []byte, err error) {
	if err := statedir.CheckName(name); err != nil {
		return "", nil, err
	}
	sub, err := kindDir(kind)
	if err != nil {
		return "", nil, err
	}
	path, data = s.among(filepath.Join(s.root, sub), name)
	return path, data, nil
}

// among returns the place of the record of a name in dir, and what it holds
// where that was read.
func (s *Store) among(dir, name string) (path string, data []byte) {
	first := filepath.Join(dir, name+".json")
	if s.provider == "" {
		if _, err := os.Lstat(first); errors.Is(err, fs.ErrNotExist) {
			if others, err := filepath.Glob(filepath.Join(dir, name+"@*.json")); err == nil && len(others) > 0 { // in order of names
				return others[0], nil
			}
		}
		return first, nil
	}
	own := filepath.Join(dir, name+"@"+s.provider+".json")
	if _, err := os.Lstat(own); err == nil {
		return own, nil
	}
	data, err := readBounded(first, maxRecord)
	var there struct {
		Provider string `json:"provider"`
	}
	if err == nil && json.Unmarshal(data, &there) == nil && there.Provider != "" && there.Provider != s.provider {
		return own, nil
	}
	if err != nil {
		return first, nil // reading the file again returns the error
	}
	return first, data
}

// stem is the name of the file of a record without what tells its kind.
func stem(path string) string { return strings.TrimSuffix(filepath.Base(path), ".json") }

func kindDir(kind sandbox.Kind) (string, error) {
	switch kind {
	case sandbox.KindSandbox, sandbox.KindPool:
		return containersDir, nil
	case sandbox.KindBrowser:
		return browsersDir, nil
	}
	return "", sandbox.Errorf(sandbox.CodeValidation, "find record", "%q is not a kind of sandbox", kind)
}
