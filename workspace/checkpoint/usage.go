package checkpoint

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// Usage is what the checkpoints of a store take.
type Usage struct {
	Checkpoints int
	Layers      int
	Bytes       int64 // on the disk; a file that several layers have counts once
	Files       int64 // names in all layers
}

// Usage measures the layers that checkpoints refer to, by walking over them.
func (s *Store) Usage(ctx context.Context) (Usage, error) {
	list, err := s.records()
	if err != nil {
		return Usage{}, err
	}
	ids := layersOf(list)
	u := Usage{Checkpoints: len(list), Layers: len(ids)}
	u.Bytes, u.Files, err = s.walkLayers(ctx, ids)
	return u, err
}

func (s *Store) walkLayers(ctx context.Context, ids []string) (bytes, files int64, err error) {
	var dirs []string
	for _, id := range ids {
		if _, err := os.Lstat(s.layerDir(id)); err == nil {
			dirs = append(dirs, s.layerDir(id))
		}
	}
	if len(dirs) == 0 {
		return 0, 0, nil
	}
	u, err := workspace.DiskUsage(ctx, dirs[0], dirs[1:]...)
	return u.Bytes, u.Files, err
}

// layersOf returns the layers of records, each once.
func layersOf(list []Record) []string {
	var ids []string
	for _, r := range list {
		for _, t := range r.Trees {
			for _, l := range t.Layers {
				ids = append(ids, l.ID)
			}
			for _, id := range []string{t.Archive, t.BaseLayer} {
				if id != "" {
					ids = append(ids, id)
				}
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// used returns how many bytes the layers of the records take. Where the sum of
// their sizes leaves room, files that several of them have are not looked for.
func (s *Store) used(ctx context.Context, list []Record) (int64, error) {
	ids := layersOf(list)
	sum := int64(0)
	for _, id := range ids {
		info, err := s.sizeOf(ctx, id)
		if err != nil {
			return 0, err
		}
		sum += info.Bytes
	}
	if sum < s.o.MaxBytes/2 {
		return sum, nil
	}
	bytes, _, err := s.walkLayers(ctx, ids)
	return bytes, err
}

// measure fills in the size of a checkpoint that was made without a look at its
// files.
func (s *Store) measure(ctx context.Context, r *Record) error {
	if r.Files >= 0 {
		return nil
	}
	r.Files, r.Bytes = 0, 0
	t, ok := r.tree(WorkspaceTree)
	if !ok || len(t.Layers) == 0 {
		return nil
	}
	info, err := s.sizeOf(ctx, t.Layers[0].ID)
	r.Files, r.Bytes = info.Files, info.Bytes
	return err
}

// Remove removes the checkpoint with that id or name. Layers that other
// checkpoints or workspaces have stay.
func (s *Store) Remove(ctx context.Context, ref string) error {
	r, err := s.find(ref, nil)
	if err != nil {
		return err
	}
	return s.remove(ctx, []Record{r})
}

func (s *Store) remove(ctx context.Context, list []Record) error {
	for _, r := range list {
		if err := os.Remove(s.recordPath(r.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return statedir.Unavailable("remove checkpoint", s.recordPath(r.ID), err)
		}
		s.o.step("remove: record removed")
	}
	return s.sweep(ctx)
}

// PruneOptions say which checkpoints go.
type PruneOptions struct {
	Match     func(Record) bool // only of these; nil is all
	OlderThan time.Duration     // only those of that age; 0 is any
	KeepLast  int               // of each workspace, the newest of those that match stay
	Named     bool              // those with a name, too
	DryRun    bool              // remove nothing
}

// Prune removes checkpoints and returns them. One that a workspace is at stays,
// and layers that others refer to stay in any case. It also removes what killed
// processes have left.
func (s *Store) Prune(ctx context.Context, o PruneOptions) ([]Record, error) {
	list, err := s.records()
	if err != nil {
		return nil, err
	}
	heads, err := s.heads()
	if err != nil {
		return nil, err
	}
	current := map[string]bool{}
	for _, h := range heads {
		current[h.Parent] = true
		if h.Pending != nil {
			current[h.Pending.Record] = true
			if h.Pending.Prev != nil {
				current[h.Pending.Prev.Parent] = true
			}
		}
	}
	kept := map[string]int{}
	var gone []Record
	for _, r := range slices.Backward(list) { // the newest first
		if o.Match != nil && !o.Match(r) || r.Name != "" && !o.Named {
			continue
		}
		if kept[r.Workspace]++; kept[r.Workspace] <= o.KeepLast || current[r.ID] || s.o.Now().Sub(r.CreatedAt) < o.OlderThan {
			continue
		}
		gone = append(gone, r)
	}
	slices.Reverse(gone)
	for i := range gone {
		if err := s.measure(ctx, &gone[i]); err != nil {
			return nil, err
		}
	}
	if o.DryRun {
		return gone, nil
	}
	if _, err := os.Lstat(s.path("locks", "refs")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return gone, s.remove(ctx, gone)
}
