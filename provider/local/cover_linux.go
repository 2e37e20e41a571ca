package local

import (
	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// A cover is what of the host the mounts of an instance lie on.
type cover struct {
	built  string            // what was mounted when the instance was proven
	closed map[string]string // paths of the host, by the mounts that close them
	ways   []string          // of the host, along which such a mount is carried off
	lies   []lying
}

// A lying is what a mount lies on.
type lying struct {
	path     string
	dev, ino uint64
}

// coverOf looks at what the mounts of p are going to lie on.
func coverOf(p plan.Plan) cover {
	var c cover
	c.closed, c.ways = plan.Covered(p)
	for _, path := range c.closed {
		c.lies = append(c.lies, lyingAt(path))
	}
	return c
}

func lyingAt(path string) lying {
	var st unix.Stat_t
	_ = unix.Lstat(path, &st) // what is not there is nothing
	return lying{path, st.Dev, st.Ino}
}

// unmoved reports whether what the mounts lie on is where it was.
func (c cover) unmoved() bool {
	for _, l := range c.lies {
		if lyingAt(l.path) != l {
			return false
		}
	}
	return true
}

// lost returns which mounts that close something are not where they were built.
func (w *instance) lost() ([]string, error) {
	now, err := w.watch.Text()
	if err != nil {
		return nil, err
	}
	return plan.Lost(w.plan, w.cover.built, now)
}

// covers reports whether each mount lies on what is now at its place on the
// host: who renames a file there takes the mount over it to the new name. On
// some file systems numbers of files do not last, so the mounts have the last
// word.
func (w *instance) covers() bool {
	if w.cover.unmoved() {
		return true
	}
	lost, err := w.lost()
	return err == nil && len(lost) == 0
}
