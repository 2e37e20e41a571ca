package fsbridge_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
)

// reporting are files that report given changes of /workspace/w.
type reporting struct {
	sandbox.Files
	list []fsbridge.Change
}

func (r *reporting) Changes(_ context.Context, path string, recursive bool) (fsbridge.Changes, error) {
	if path != "/workspace/w" || !recursive {
		return nil, &sandbox.Error{Code: sandbox.CodeNotFound}
	}
	return r, nil
}

func (r *reporting) WithoutLinks() (sandbox.Files, error) { return r, nil }
func (r *reporting) Entries() int                         { return 1 }
func (r *reporting) Close() error                         { return nil }

func (r *reporting) Next() (fsbridge.Change, error) {
	if len(r.list) == 0 {
		return fsbridge.Change{}, io.EOF
	}
	c := r.list[0]
	r.list = r.list[1:]
	return c, nil
}

// TestChangesOfClosedFolders holds that a watch shows no more of a closed folder
// than its name, and that it is heard of and paid for.
func TestChangesOfClosedFolders(t *testing.T) {
	table, err := fsbridge.NewMountTable([]sandbox.Mount{{Source: "/srv/w", Target: "/workspace", Role: sandbox.RoleWorkspace}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	rule := func(op sandbox.Operation, path string, _ bool) error {
		if op == sandbox.OpRead && (strings.HasSuffix(path, "/closed") || strings.Contains(path, "/closed/")) {
			return fsbridge.Closed("read", path, "closed", "")
		}
		return nil
	}
	files := &reporting{list: []fsbridge.Change{
		{Kind: "create", Name: "a"}, {Kind: "write", Name: "closed/key"}, {Kind: "create", Name: "closed"}, {Kind: "chmod", Name: "closed/x/y"},
		{Kind: "rename", Name: "a", To: "closed/a"}, {Kind: "rename", Name: "closed/b", To: "b"}, {Kind: "rename", Name: "closed/b", To: "closed/c"},
		{Kind: "rename", Name: "b", To: "d/b"}, {Kind: "rename", Name: "closed/z"}, {Kind: fsbridge.ChangeOverflow, Name: "."}, {Kind: "remove", Name: "."},
	}}
	b := fsbridge.New(table, files, fsbridge.Transport{}).Ruled(rule)
	c, err := b.Changes(t.Context(), "w", true)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for {
		x, err := c.Next()
		if err == io.EOF {
			break
		}
		got = append(got, strings.TrimSpace(string(x.Kind)+" "+x.Name+" "+x.To))
	}
	want := []string{"create a", "create closed", "rename a", "create b", "rename b d/b", "overflow .", "remove ."}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for path, code := range map[string]sandbox.Code{"closed": sandbox.CodeCapabilityBlocked, "/etc": sandbox.CodeCapabilityBlocked, "other": sandbox.CodeNotFound} {
		if _, err := b.Changes(t.Context(), path, true); sandbox.CodeOf(err) != code {
			t.Errorf("%s: %v, want %s", path, err, code)
		}
	}
	if _, err := fsbridge.New(table, struct{ sandbox.Files }{}, fsbridge.Transport{}).Changes(t.Context(), "w", true); sandbox.CodeOf(err) != sandbox.CodeUnsupported {
		t.Errorf("files that cannot: %v", err)
	}
}
