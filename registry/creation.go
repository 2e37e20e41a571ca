package registry

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// creationsDir holds what the requests that created sandboxes asked for, by the
// names of the sandboxes.
const creationsDir = "creations"

// A CreationStamp tells whether what a sandbox was created with has changed since
// another stamp of it. The zero stamp is that of a sandbox with none.
type CreationStamp struct {
	inode    uint64
	size     int64
	modified time.Time
	digest   [sha256.Size]byte // of what is kept elsewhere than in a file
}

// A creation is the content of a file. A field that is unknown belongs to a newer
// version.
type creation struct {
	Format  int             `json:"format"`
	Name    string          `json:"name"`
	Request json.RawMessage `json:"request"`
}

func (s *Store) creationPath(name string) (string, error) {
	if err := statedir.CheckName(name); err != nil {
		return "", err
	}
	return filepath.Join(s.root, creationsDir, name+".json"), nil
}

// PutCreation keeps what the sandbox was created with, until DeleteCreation. It
// outlasts the record: a sandbox that is made anew has it again.
func (s *Store) PutCreation(name string, request json.RawMessage) error {
	path, err := s.creationPath(name)
	if err != nil {
		return err
	}
	data, err := encodeCreation(name, request)
	if err != nil {
		return err
	}
	if in, ok := s.in(); ok {
		return in.Change(name, func(d *Document) error { d.Creation = data; return nil })
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return statedir.Unavailable("write creation", path, err)
	}
	if err := renameio.WriteFile(path, data, 0o600, renameio.WithTempDir(filepath.Dir(path))); err != nil {
		return statedir.Unavailable("write creation", path, err)
	}
	return statedir.Unavailable("write creation", path, statedir.SyncDir(filepath.Dir(path)))
}

// StampCreation returns the stamp of what the sandbox was created with. It is one
// call of the system. Of a sandbox that is kept elsewhere than in a folder, the zero
// stamp may be out of date unless the caller holds the ensure lock of its name.
func (s *Store) StampCreation(name string) (CreationStamp, error) {
	path, err := s.creationPath(name)
	if err != nil {
		return CreationStamp{}, err
	}
	if in, ok := s.in(); ok {
		if in.absent(name) {
			return CreationStamp{}, nil
		}
		d, err := in.Get(name)
		return stampOf(d.Creation), err
	}
	var st unix.Stat_t
	switch err := unix.Lstat(path, &st); {
	case errors.Is(err, fs.ErrNotExist):
		return CreationStamp{}, nil
	case err != nil:
		return CreationStamp{}, statedir.Unavailable("read creation", path, err)
	}
	return CreationStamp{inode: st.Ino, size: st.Size, modified: time.Unix(st.Mtim.Unix())}, nil
}

// Creation returns what the sandbox was created with; ok is false where nothing is
// kept. What cannot be read is an error: without it the sandbox could be less
// confined than its creator asked for.
func (s *Store) Creation(name string) (request json.RawMessage, ok bool, err error) {
	path, err := s.creationPath(name)
	if err != nil {
		return nil, false, err
	}
	if in, elsewhere := s.in(); elsewhere {
		d, err := in.Get(name)
		if err != nil || d.Creation == nil {
			return nil, false, err
		}
		request, err = decodeCreation(name, d.Creation)
		return request, err == nil, err
	}
	data, err := readBounded(path, maxRecord)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, unreadableCreation(name, err)
	}
	request, err = decodeCreation(name, data)
	return request, err == nil, err
}

// Creations returns what the sandboxes were created with of which something is kept,
// by name. A value is nil where it has to be read by [Store.Creation].
func (s *Store) Creations() (map[string]json.RawMessage, error) {
	dir := filepath.Join(s.root, creationsDir)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, statedir.Unavailable("list creations", dir, err)
	}
	out := map[string]json.RawMessage{}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && statedir.CheckName(name) == nil {
			out[name] = nil
		}
	}
	for _, docs := range s.elsewhere {
		list, err := docs.List()
		if err != nil {
			return nil, err
		}
		for _, d := range list {
			if d.Creation == nil {
				continue
			}
			if out[d.Name], err = decodeCreation(d.Name, d.Creation); err != nil {
				out[d.Name] = nil // reading it returns the error
			}
		}
	}
	return out, nil
}

// DeleteCreation forgets what the sandbox was created with.
func (s *Store) DeleteCreation(name string) error {
	path, err := s.creationPath(name)
	if err != nil {
		return err
	}
	if in, ok := s.in(); ok {
		return in.Change(name, func(d *Document) error { d.Creation = nil; return nil })
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return statedir.Unavailable("delete creation", path, err)
	}
	return nil
}
