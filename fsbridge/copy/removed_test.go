package copy

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox"
)

// A changing folder removes names as soon as dir was listed.
type changing struct {
	folder
	dir   string
	names []string // "." is dir itself
}

func (c *changing) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	list, err := c.folder.ReadDir(ctx, name)
	if err == nil && name == c.dir {
		for _, n := range c.names {
			if err := os.RemoveAll(filepath.Join(c.folder.dir, name, n)); err != nil {
				return nil, err
			}
		}
	}
	return list, err
}

// TestRemovedMeanwhile checks that a file removed while its tree is packed is
// left out as if it had been removed before, and is reported. Writers that
// replace files remove their temporary file all the time.
func TestRemovedMeanwhile(t *testing.T) {
	for _, tt := range []struct {
		name string
		from []string
		gone []string // how the lines of the tree begin that do not arrive
	}{
		{"a file", []string{"big"}, []string{"top/big "}},
		{"a folder", []string{"sub"}, []string{"top/sub/deep/", "top/sub/up ", "top/sub/we ird"}},
		{"a link", []string{"in"}, []string{"top/in "}},
		{"several", []string{"bin", "empty", "in"}, []string{"top/bin ", "top/in "}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			from, whole, to := filled(t), newFolder(t), newFolder(t)
			must(t, Copy(t.Context(), Source{Files: from, Path: "top"}, Target{Files: whole, Name: "top"}, &Tally{}))
			want := slices.DeleteFunc(whole.tree(t), func(line string) bool {
				return slices.ContainsFunc(tt.gone, func(begin string) bool { return strings.HasPrefix(line, begin) })
			})
			var tally Tally
			source := Source{Files: &changing{from, "top", tt.from}, Path: "top"}
			must(t, Copy(t.Context(), source, Target{Files: to, Name: "top"}, &tally))
			if d := cmp.Diff(want, to.tree(t)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			reported := []string{}
			for _, l := range tally.Left() {
				if l.Reason == "it was removed while the tree was packed" {
					reported = append(reported, l.Path)
				}
			}
			for _, name := range tt.from {
				if !slices.Contains(reported, "top/"+name) {
					t.Errorf("nobody is told of %s: %v", name, tally.Left())
				}
			}
			if len(reported) != len(tt.from) {
				t.Errorf("told of %q", reported)
			}
		})
	}
}

// TestAllRemovedMeanwhile holds that a tree that is gone altogether is not one
// in which nothing was.
func TestAllRemovedMeanwhile(t *testing.T) {
	source := Source{Files: &changing{filled(t), "top", []string{"."}}, Path: "top"}
	err := Pack(t.Context(), source, "top", io.Discard, &Tally{})
	if !sandbox.IsNotFound(err) {
		t.Errorf("it is %v", err)
	}
	var archive bytes.Buffer
	source = Source{Files: filled(t), Path: "none"}
	if err := Pack(t.Context(), source, "top", &archive, &Tally{}); !sandbox.IsNotFound(err) || archive.Len() != 0 {
		t.Errorf("of what is not there: %v, and %d bytes", err, archive.Len())
	}
}
