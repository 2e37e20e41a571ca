package registry

import (
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
)

// maxCached bounds the records that are kept in memory.
const maxCached = 4096

// A cache keeps records that were read, for as long as a watch on their files
// reports no change. Records of all processes change by files that replace others,
// and a change is seen by the first call after it, as without the cache.
type cache struct {
	watch *hostpath.Watch
	mu    sync.Mutex
	of    map[cacheKey]cached
}

// A cacheKey is what is asked for: the place of a record whose provider is not
// considered, and the provider of the view.
type cacheKey struct{ first, provider string }

// cached is the answer, which holds since mark as long as nothing changes at the
// places.
type cached struct {
	mark    uint64
	at      hostpath.Places
	missing string // path of the record that there is not; or empty
	file    file
}

// Watch has the store, and every view of it that [Store.Of] returns afterwards,
// read records again only when w reports that they have changed.
func (s *Store) Watch(w *hostpath.Watch) { s.cache = &cache{watch: w} }

// get returns the answer that is kept.
func (c *cache) get(key cacheKey) (cached, bool) {
	c.mu.Lock()
	have, ok := c.of[key]
	c.mu.Unlock()
	return have, ok && c.watch.Unchanged(have.mark, have.at)
}

// put keeps an answer.
func (c *cache) put(key cacheKey, n cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil || len(c.of) >= maxCached {
		c.of = map[cacheKey]cached{}
	}
	c.of[key] = n
}

// read returns the record as it lies on disk, or where it is kept instead.
func (s *Store) read(kind sandbox.Kind, name string) (file, error) {
	if in, ok := s.in(); ok {
		f, _, err := in.read(kind, name)
		return f, err
	}
	sub, err := kindDir(kind)
	if err != nil || s.cache == nil {
		f, _, err := s.readDisk(kind, name)
		return f, err
	}
	key := cacheKey{filepath.Join(s.root, sub, name+".json"), s.provider}
	if have, ok := s.cache.get(key); ok {
		if have.missing != "" {
			return file{}, s.problem(have.missing, name, kind, fs.ErrNotExist).Err
		}
		return have.file, nil
	}
	mark, ok := s.cache.watch.Mark()
	f, path, err := s.readDisk(kind, name)
	n := cached{mark: mark, file: f}
	files := []string{key.first}
	switch {
	case s.provider != "":
		files = append(files, filepath.Join(s.root, sub, name+"@"+s.provider+".json"))
	case path != key.first:
		return f, err // of a provider that was found by looking at all names
	}
	switch {
	case sandbox.IsNotFound(err) && s.provider != "":
		n.missing = path
	case err != nil:
		return f, err
	}
	if !ok {
		return f, err
	}
	if all, addErr := s.cache.watch.Add(mark, nil, files); all && addErr == nil {
		n.at = hostpath.PlacesOf(files)
		s.cache.put(key, n)
	}
	return f, err
}
