package config

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
)

// maxTries bounds how often a file is read that changes while it is read.
const maxTries = 5

// A Parse makes settings of the content of a file; name is its canonical path.
// [config.Parse] is one.
type settingsfileParse func(name string, data []byte) (*Settings, error)

// A Source is a settings file whose changes take effect at the next call. Each
// call examines the file's state, which takes a microsecond, and reads the
// file only when it has changed; a Source needs no goroutine and holds nothing
// open. It is safe for concurrent use.
type Source struct {
	path  string // absolute
	named bool
	parse settingsfileParse

	now  atomic.Pointer[state] // never nil
	mu   sync.Mutex            // held while the file is read
	seen atomic.Pointer[sighting]

	watch *hostpath.Watch // or nil
}

// A sighting is that a state was what is there, since mark for as long as nothing
// changes at the places.
type sighting struct {
	of   *state
	mark uint64
	at   hostpath.Places
}

// Watch has Current examine the file only when w reports that something has
// changed on the way to it or in it. It is called before the first Current.
func (s *Source) Watch(w *hostpath.Watch) { s.watch = w }

// A state is what was found, and is not changed.
type state struct {
	stamp   stamp
	settled bool // what has this stamp is as it was read

	good    *Settings // the last that could be read and parsed; nil where there was no file
	path    string    // of the file with them
	data    []byte    // of the file with them
	problem error     // why they are not what is there now
}

// NewSource returns the settings file that [Load] reads for flag. The file
// must be valid now; errors are those of Load and of parse. A file at the
// default path may be missing, and is read once it exists.
func NewSource(flag string, parse settingsfileParse) (*Source, error) {
	s := &Source{parse: parse}
	path, named, err := locateSettingsfile(flag, systemFile)
	if err == nil { // without a home folder there is no default path
		s.named = named
		if s.path, err = filepath.Abs(path); err != nil {
			return nil, refuse(sandbox.CodeUnavailable, path, "the settings file cannot be found", "check the path", err)
		}
	}
	s.now.Store(s.read(&state{}))
	if err := s.now.Load().problem; err != nil {
		return nil, err
	}
	return s, nil
}

// Path is the canonical path of the file that the settings in force are from,
// empty where there is none and the defaults hold.
func (s *Source) Path() string { return s.now.Load().path }

// Current returns the settings of the file as it is now, nil where there is
// none and the defaults hold. While the file keeps its content the pointer
// stays the same; what it points to is not to be changed.
//
// When the file cannot be read or parsed any more, or was removed, settings
// are the last valid ones and problem says what is wrong. problem stays the
// same value as long as the cause does. A caller never gets settings older
// than the file was at the time of the call: a call during another caller's
// read waits for that read.
func (s *Source) Current() (settings *Settings, problem error) {
	if st := s.now.Load(); s.holds(st) {
		return st.good, st.problem
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.now.Load()
	if !st.holds(s.path) {
		st = s.read(st)
		s.now.Store(st)
	}
	return st.good, st.problem
}

// holds is [state.holds] for the file of s.
func (s *Source) holds(st *state) bool {
	if seen := s.seen.Load(); seen != nil && seen.of == st && s.watch.Unchanged(seen.mark, seen.at) {
		return true
	}
	mark, ok := s.watch.Mark()
	if !st.holds(s.path) {
		return false
	}
	if !ok || s.path == "" {
		return true
	}
	canonical, via, err := hostpath.Trace(s.path)
	if err != nil {
		return true
	}
	files := []string{canonical}
	if all, err := s.watch.Add(mark, via, files); err == nil && all {
		s.seen.Store(&sighting{st, mark, hostpath.PlacesOf(via, files)})
	}
	return true
}

// holds reports whether nothing has changed at path since.
func (st *state) holds(path string) bool {
	return st.settled && (path == "" || st.stamp == stampAt(path))
}

// read looks at the file and returns what there is, of which old was the state
// before.
func (s *Source) read(old *state) *state {
	if s.path == "" {
		return &state{settled: true}
	}
	for range maxTries {
		at := fileClock()
		before := stampAt(s.path)
		f, err := readSettingsfile(s.path)
		if err == nil && f.seen != before || before != stampAt(s.path) {
			continue // what was read need not belong together
		}
		st := s.judge(old, f, err)
		st.stamp = before
		// What is wrong about the folder does not show in the file's stamp.
		st.settled = !before.fresh(at) && (err == nil || before.errno != 0)
		return st
	}
	return old.with(refuse(sandbox.CodeUnavailable, s.path, "the settings file changes while it is read", "write it beside and rename it", nil))
}

// judge makes a state of what was read, or of the error of reading.
func (s *Source) judge(old *state, f settingsfileFile, err error) *state {
	switch {
	case errors.Is(err, fs.ErrNotExist) && !s.named && old.path == "" && !dangling(s.path):
		return &state{}
	case errors.Is(err, fs.ErrNotExist):
		return old.with(missing(s.path, old.path != "", err))
	case err != nil:
		return old.with(err)
	case old.path == f.Path && bytes.Equal(old.data, f.Data):
		return &state{good: old.good, path: old.path, data: old.data}
	}
	settings, err := s.parse(f.Path, f.Data)
	if err != nil {
		return old.with(err)
	}
	return &state{good: settings, path: f.Path, data: f.Data}
}

// with is the state after old in which its settings are still the last good
// ones. A problem that is the same is the same value.
func (st *state) with(problem error) *state {
	if st.problem != nil && st.problem.Error() == problem.Error() {
		problem = st.problem
	}
	return &state{good: st.good, path: st.path, data: st.data, problem: problem}
}

func missing(path string, was bool, cause error) error {
	if was {
		return refuse(sandbox.CodeValidation, path, "the settings file was removed", "put it back, or start again without it", cause)
	}
	return refuse(sandbox.CodeValidation, path, "the settings file does not exist", "make it, or leave --config and SANDBOX_CONFIG out for the defaults", cause)
}
