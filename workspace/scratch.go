package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// An Entry is one scratch workspace.
type Entry struct {
	Name    string            // of the sandbox
	Path    string            // for [Store.Remove]
	About   map[string]string // what [Store.Annotate] kept with it
	ModTime time.Time         // last sign of life that is cheap to see: made, seeded, or something at its top changed
}

// Scratch lists the workspaces that [Store.Ensure] made and that were not
// removed, by name. What other folders lie below the root does not count. An
// entry may be a workspace that is just being made: a caller that removes one
// holds the ensure lock of its name and checks again.
func (s *Store) Scratch(ctx context.Context) ([]Entry, error) {
	const op = "list workspaces"
	root, err := os.OpenRoot(s.path)
	if err != nil {
		return nil, statedir.Unavailable(op, s.path, err)
	}
	defer root.Close()
	notes, err := fs.ReadDir(root.FS(), metaDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // nothing was ever made
	}
	if err != nil {
		return nil, statedir.Unavailable(op, s.path, err)
	}
	var out []Entry
	for _, n := range notes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		name, ok := strings.CutSuffix(n.Name(), ".json")
		if !ok || statedir.CheckName(name) != nil {
			continue // a note that is being written
		}
		m, err := s.readMeta(name)
		if err != nil {
			return nil, err
		}
		if m.MadeAt.IsZero() {
			continue // removed meanwhile, or damaged: not known to be ours
		}
		e := Entry{Name: name, About: m.About, ModTime: m.MadeAt}
		if e.Path, err = s.Path(name); err != nil {
			return nil, err
		}
		if fi, err := n.Info(); err == nil && fi.ModTime().After(e.ModTime) {
			e.ModTime = fi.ModTime()
		}
		if fi, err := root.Lstat(name); err == nil && fi.ModTime().After(e.ModTime) {
			e.ModTime = fi.ModTime()
		}
		out = append(out, e)
	}
	return out, nil
}

// Annotate keeps texts about the folder that [Store.Ensure] made under that name,
// in place of earlier ones. It counts as a sign of life of the folder.
func (s *Store) Annotate(name string, about map[string]string) error {
	if _, err := s.Path(name); err != nil {
		return err
	}
	return s.updateMeta(name, func(m *meta) { m.About = about })
}
