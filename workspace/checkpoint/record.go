package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// A Record is a checkpoint.
type Record struct {
	ID        string                   `json:"id"`
	Name      string                   `json:"name,omitempty"`
	Workspace string                   `json:"workspace"` // name of the workspace that it was made of; empty for an imported one
	Sandbox   string                   `json:"sandbox,omitempty"`
	Tenant    string                   `json:"tenant,omitempty"`
	Agent     string                   `json:"agent,omitempty"`
	Session   string                   `json:"session,omitempty"`
	Parent    string                   `json:"parent,omitempty"` // id of the checkpoint before
	CreatedAt time.Time                `json:"createdAt"`
	Auto      bool                     `json:"auto,omitempty"` // made by the program, not asked for
	Busy      bool                     `json:"busy,omitempty"` // commands ran, or the process was killed that made it, so files may be of different moments
	Means     Means                    `json:"means"`
	UserXattr bool                     `json:"userXattr,omitempty"`
	Trees     []Tree                   `json:"trees"`
	Shells    []sandbox.ShellState     `json:"shells,omitempty"`
	Running   []sandbox.RunningCommand `json:"running,omitempty"` // reported, not kept
	Files     int64                    `json:"files"`             // entries of the layer that this checkpoint added, folders included; -1 where Create did not look, which Get and List do
	Bytes     int64                    `json:"bytes"`             // that they take on the disk
	LeftOut   LeftOut                  `json:"leftOut,omitzero"`
	SpecHash  string                   `json:"specHash,omitempty"`
	Image     string                   `json:"image,omitempty"`
}

// WorkspaceTree is the name of the tree that the workspace is kept as.
const WorkspaceTree = "workspace"

// A Tree is a folder that a checkpoint keeps: as layers, or as an archive.
type Tree struct {
	Name      string          `json:"name"`   // "workspace", "home" and the like
	Target    string          `json:"target"` // path in the sandbox
	Layers    []Layer         `json:"layers,omitempty"`
	Base      string          `json:"base,omitempty"` // host folder below the layers
	BaseOwner workspace.Owner `json:"baseOwner,omitzero"`
	BaseLayer string          `json:"baseLayer,omitempty"` // copy of Base as it was, where the means are not overlay
	Bases     string          `json:"bases,omitempty"`     // notes about Base
	Archive   string          `json:"archive,omitempty"`   // layer that holds a tar file, compressed with zstd
}

// LeftOut counts what a copy does not keep, and names the first of each.
type LeftOut struct {
	Special    int      `json:"special,omitempty"`    // pipes, sockets and devices
	Unreadable int      `json:"unreadable,omitempty"` // files that this process may not read
	Vanished   int      `json:"vanished,omitempty"`   // removed while they were copied
	Changed    int      `json:"changed,omitempty"`    // kept, but written to while they were copied
	Paths      []string `json:"paths,omitempty"`      // at most 20, quoted where they are not plain text
}

// maxNamed is how many paths a report names.
const maxNamed = 20

// tree returns the tree of that name.
func (r *Record) tree(name string) (Tree, bool) {
	i := slices.IndexFunc(r.Trees, func(t Tree) bool { return t.Name == name })
	if i < 0 {
		return Tree{}, false
	}
	return r.Trees[i], true
}

// toRestore returns the id of r where it has archives, and else "".
func (r *Record) toRestore() string {
	if slices.ContainsFunc(r.Trees, func(t Tree) bool { return t.Archive != "" }) {
		return r.ID
	}
	return ""
}

// refer adds the layers and notes that r needs to refs.
func (r *Record) refer(refs map[string]bool) {
	for _, t := range r.Trees {
		for _, l := range t.Layers {
			refs[l.ID] = true
		}
		for _, id := range []string{t.Archive, t.BaseLayer, t.Bases} {
			if id != "" {
				refs[id] = true
			}
		}
	}
}

func (s *Store) recordPath(id string) string { return s.path("records", id+".json") }

func (s *Store) readRecord(id string) (Record, bool, error) {
	var r Record
	ok, err := readJSON(s.recordPath(id), &r)
	return r, ok, err
}

// records reads all records, the oldest first.
func (s *Store) records() ([]Record, error) {
	entries, err := os.ReadDir(s.path("records"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, statedir.Unavailable("read checkpoints", s.path("records"), err)
	}
	var list []Record
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || !checkID(id) {
			continue
		}
		r, ok, err := s.readRecord(id)
		if err != nil {
			return nil, err
		}
		if ok {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b Record) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// List returns the checkpoints for which keep, unless it is nil, returns true,
// the oldest first.
func (s *Store) List(ctx context.Context, keep func(Record) bool) ([]Record, error) {
	list, err := s.records()
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(r Record) bool { return keep != nil && !keep(r) })
	for i := range list {
		if err := s.measure(ctx, &list[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Get returns the checkpoint with that id or name.
func (s *Store) Get(ctx context.Context, ref string) (Record, error) {
	return s.Find(ctx, ref, nil)
}

// Find returns the checkpoint with that id or name among those for which keep,
// unless it is nil, returns true. Of several with the name none is returned.
func (s *Store) Find(ctx context.Context, ref string, keep func(Record) bool) (Record, error) {
	r, err := s.find(ref, keep)
	if err != nil {
		return Record{}, err
	}
	return r, s.measure(ctx, &r)
}

func (s *Store) find(ref string, keep func(Record) bool) (Record, error) {
	const op = "find checkpoint"
	missing := &sandbox.Error{
		Code: sandbox.CodeNotFound, Op: op, Resource: termsafe.Line(ref),
		Message: fmt.Sprintf("there is no checkpoint %q", termsafe.Line(ref)), Hint: "list them with: sandbox checkpoint list",
	}
	if checkID(ref) {
		r, ok, err := s.readRecord(ref)
		if err != nil {
			return Record{}, err
		}
		if ok && (keep == nil || keep(r)) {
			return r, nil
		}
	}
	if ref == "" {
		return Record{}, missing
	}
	list, err := s.records()
	if err != nil {
		return Record{}, err
	}
	list = slices.DeleteFunc(list, func(r Record) bool { return r.Name != ref || keep != nil && !keep(r) })
	switch len(list) {
	case 0:
		return Record{}, missing
	case 1:
		return list[0], nil
	}
	ids := make([]string, len(list))
	for i, r := range list {
		ids[i] = r.ID
	}
	return Record{}, invalid(op, "checkpoint", ref, fmt.Sprintf("%d checkpoints are called %q", len(list), ref), "name one by its id: "+strings.Join(ids[:min(len(ids), maxNamed)], ", "))
}

// CheckLabel refuses a name of a checkpoint that is not made of letters, digits,
// dots, dashes and underscores, begins with none of the first two, is longer
// than 63 bytes, or looks like an id.
func CheckLabel(name string) error {
	ok := name != "" && len(name) <= 63 && !checkID(name) && name[0] != '.' && name[0] != '-' && name[0] != '_'
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_'
	}
	if ok {
		return nil
	}
	return invalid("create checkpoint", "name", termsafe.Line(name), fmt.Sprintf("%q cannot be the name of a checkpoint", termsafe.Line(name)),
		"use at most 63 letters, digits, dots, dashes and underscores, beginning with a letter or digit, and not 16 hexadecimal digits")
}
