package registry

import (
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// A Stamp tells cheaply whether records have changed: two that are the [Stamp.Same]
// were taken with no record put, changed or deleted between them. It is for who
// looks at all of them again and again.
type Stamp struct {
	folders [2]folderStamp
	settled bool
}

// A folderStamp changes with every entry that is made, renamed or removed, which
// is how records are written.
type folderStamp struct {
	inode    uint64
	modified time.Time
}

// settling is how long a folder must have been left alone before its time of
// change tells of the next change: file systems count it in steps, some of
// them in whole seconds.
const settling = 2 * time.Second

// Stamp returns the Stamp of now.
func (s *Store) Stamp() (Stamp, error) {
	out := Stamp{settled: len(s.elsewhere) == 0} // what others record elsewhere is known only by asking
	for i, sub := range []string{containersDir, browsersDir} {
		path := filepath.Join(s.root, sub)
		fi, err := os.Stat(path)
		if err != nil {
			return Stamp{}, statedir.Unavailable("look at the registry", path, err)
		}
		one := folderStamp{modified: fi.ModTime()}
		if st, ok := fi.Sys().(*syscall.Stat_t); ok {
			one.inode = st.Ino
		}
		out.folders[i] = one
		out.settled = out.settled && time.Since(one.modified) > settling // one of the future never is
	}
	return out, nil
}

// Same reports whether nothing has been recorded between a and b. It is false
// where that is unknown because a record had just been written.
func (a Stamp) Same(b Stamp) bool {
	return a.settled && b.settled && a.folders == b.folders
}
