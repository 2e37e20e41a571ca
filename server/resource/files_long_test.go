package resource_test

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

// A long tree is one folder, for every name, full of links with long targets.
type long struct {
	resource.Tree
	of     fstest.MapFS
	target string
}

func (l long) ReadDir(context.Context, string) ([]fs.DirEntry, error) { return l.of.ReadDir(".") }
func (l long) Stat(context.Context, string) (fs.FileInfo, error)      { return l.of.Stat(".") }
func (l long) Lstat(context.Context, string) (fs.FileInfo, error)     { return l.of.Stat(".") }
func (l long) ReadLink(context.Context, string) (string, error)       { return l.target, nil }

// TestLongPathsEndAnAnswerEarly holds that one answer is bounded in bytes, too,
// and that the following pages contain the rest.
func TestLongPathsEndAnAnswerEarly(t *testing.T) {
	t.Parallel()
	const all, most = 8000, 4<<20 + 16<<10
	tree := long{of: fstest.MapFS{}, target: strings.Repeat("\x01", 4095)}
	for i := range all {
		tree.of[fmt.Sprintf("%04d", i)] = &fstest.MapFile{Mode: fs.ModeSymlink | 0o777}
	}
	name := "/workspace" + strings.Repeat("/"+strings.Repeat("a", 250), 3)
	s := resource.NewFiles(resource.Limits{})
	seen, pages := 0, 0
	for cursor := ""; pages == 0 || cursor != ""; pages++ {
		page, err := s.List(t.Context(), tree, name, resource.MaxPage, cursor)
		if err != nil {
			t.Fatal(err)
		}
		bytes := 0
		for _, f := range page.Items {
			if want := fmt.Sprintf("%04d", seen); f.Name != want {
				t.Fatalf("%s, want %s", f.Name, want)
			}
			seen++
			bytes += len(f.Path) + len(f.Name) + len(f.Target)
		}
		if len(page.Items) == 0 || bytes > most {
			t.Errorf("a page has %d entries with %d bytes", len(page.Items), bytes)
		}
		cursor = page.Next
	}
	if seen != all || pages < 5 {
		t.Errorf("%d entries on %d pages", seen, pages)
	}
	got, err := s.Glob(t.Context(), tree, api.Glob{Path: name, Pattern: "*", Limit: 10_000})
	if n := len(strings.Join(got.Paths, "")); err != nil || !got.More || n < 4<<20 || n > most {
		t.Errorf("a glob: %d bytes in %d paths, more %v, %v", n, len(got.Paths), got.More, err)
	}
}
