package checkpoint

import (
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// unchangedFiles returns what a copier links instead of copying: the files of
// the workspace that are the same as when its last layer was made.
func (s *Store) unchangedFiles(name string, c *copier) (func(string, *unix.Stat_t) (string, bool), func(), error) {
	known := map[string]Entry{}
	layer, ok, err := readManifest(s.filesPath(name), func(e Entry) {
		if e.Type == typeFile {
			known[e.Path] = e
		}
	})
	if err != nil || !ok || !checkID(layer) {
		// Without the list all files are copied.
		return nil, func() {}, nil //nolint:nilerr
	}
	dir, err := openFolder(s.layerFS(layer))
	if err != nil {
		return nil, func() {}, nil //nolint:nilerr // the checkpoint was removed
	}
	c.prevDir = dir
	return func(rel string, st *unix.Stat_t) (string, bool) {
		e, ok := known[rel]
		if !ok || !e.unchanged(st) {
			return "", false
		}
		return e.Digest, true
	}, func() { dir.Close() }, nil
}

// tick is how exact the kernel's clock for files is, with a margin.
const tick = 20 * time.Millisecond

// distrust marks the files that changed when they were copied, or just before:
// a later change would leave the same times.
func distrust(entries []Entry, begun time.Time) {
	limit := begun.Add(-tick).UnixNano()
	for i := range entries {
		if entries[i].CTime >= limit {
			entries[i].CTime = 0
		}
	}
}

// writeFiles lists the files of a workspace that was copied from a layer just
// now. entries are those of the layer.
func (s *Store) writeFiles(h *head, layer Layer, root *os.File, entries []Entry) error {
	from := layer.ID
	if layer.Owner != h.Owner {
		from = "" // its files cannot be those of the next layer
	}
	dir, fd := "", -1
	defer func() {
		if fd >= 0 {
			unix.Close(fd)
		}
	}()
	list := make([]Entry, 0, len(entries))
	for _, e := range entries {
		if e.Type == typeFile {
			if d := path.Dir(e.Path); fd < 0 || d != dir {
				next, err := openBeneath(root, d)
				if err != nil {
					return err
				}
				if fd >= 0 {
					unix.Close(fd)
				}
				dir, fd = d, next
			}
			var st unix.Stat_t
			if err := unix.Fstatat(fd, path.Base(e.Path), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return err
			}
			now := entryOf(e.Path, typeFile, &st)
			if now.Size != e.Size || now.MTime != e.MTime {
				now.CTime = 0 // it was changed meanwhile
			}
			now.Digest, now.Link, now.Xattrs = e.Digest, e.Link, e.Xattrs
			e = now
		}
		list = append(list, e)
	}
	return writeManifest(s.filesPath(h.Name), from, list)
}
