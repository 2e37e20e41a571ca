package fsbridge_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
)

// errBottom is what the depths of a pit answer.
var errBottom = errors.New("the walk has gone far too deep")

// A pit is a tree as only an attacker makes it: every folder has many entries,
// and the first of them is such a folder.
type pit struct {
	sandbox.Files
	entries []fs.DirEntry
	bottom  int // depth
}

func newPit(wide, bottom int) pit { return newLongPit(wide, bottom, 0) }

// newLongPit is newPit with names that are that many bytes longer.
func newLongPit(wide, bottom, longer int) pit {
	more := strings.Repeat("x", longer)
	infos := []fsbridge.Info{fsbridge.NewInfo("0", 0o040755, 0, time.Time{})}
	for i := 1; i < wide; i++ {
		infos = append(infos, fsbridge.NewInfo(fmt.Sprint(i)+more, 0o100644, 0, time.Time{}))
	}
	return pit{entries: fsbridge.Entries(infos), bottom: bottom}
}

func (p pit) Stat(context.Context, string) (fs.FileInfo, error) { return p.entries[0].Info() }

func (p pit) ReadDir(_ context.Context, name string) ([]fs.DirEntry, error) {
	if strings.Count(name, "/") > p.bottom {
		return nil, errBottom
	}
	return p.entries, nil
}

func walkAll(f sandbox.Files) (seen int, err error) {
	err = fsbridge.Walk(context.Background(), f, "/w", func(_ string, _ fs.DirEntry, err error) error {
		seen++
		return err
	})
	return seen, err
}

// TestWalkHoldsBoundedLists holds that a walk does not keep list after list
// on its way down.
func TestWalkHoldsBoundedLists(t *testing.T) {
	_, err := walkAll(newPit(100_000, 50))
	if sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
		t.Errorf("got %v", err)
	}
}

// TestWalkHoldsBoundedNames holds that the length of names counts in what a
// walk keeps, and that one folder is walked with hundreds of thousands of usual
// ones, or with as many of the longest as can be listed.
func TestWalkHoldsBoundedNames(t *testing.T) {
	if _, err := walkAll(newLongPit(20_000, 12, 240)); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
		t.Errorf("long names: %v", err)
	}
	for longer, entries := range map[int]int{0: 640_000, 14: 550_000, 249: 115_000} {
		seen, err := walkAll(flat{newLongPit(entries, 0, longer), 0})
		if err != nil || seen != entries {
			t.Errorf("%d entries in one folder: saw %d, %v", entries, seen, err)
		}
	}
}

// TestWalkLetsGoOfLists walks over more entries than may be held at once.
func TestWalkLetsGoOfLists(t *testing.T) {
	broad := comb{newPit(100_000, 0), 15}
	seen, err := walkAll(broad)
	if err != nil || seen != 1+15+15*99_999 {
		t.Errorf("saw %d, %v", seen, err)
	}
}

// A comb is a folder of folders that are wide and not deep.
type comb struct {
	pit
	teeth int
}

func (c comb) ReadDir(_ context.Context, name string) ([]fs.DirEntry, error) {
	if name != "/w" {
		return append([]fs.DirEntry(nil), c.entries[1:]...), nil
	}
	var teeth []fsbridge.Info
	for i := range c.teeth {
		teeth = append(teeth, fsbridge.NewInfo(fmt.Sprint("t", i), 0o040755, 0, time.Time{}))
	}
	return fsbridge.Entries(teeth), nil
}

// TestGlobIsBounded holds that patterns which would take a machine for years
// are refused, or matched in another way.
func TestGlobIsBounded(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, strings.Repeat("a/", 40))
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(deep, "d"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	files := fsbridge.NewHostFiles(root, dir)
	for pattern, want := range map[string]int{
		strings.Repeat("**/", 300) + "d":         1,
		strings.Repeat("**/*/", 30) + "d":        1,
		strings.Repeat("{**/a,**/b}/", 8) + "d":  1,
		"a/**/a/**/d":                            1,
		"**/a/**/x":                              0,
		strings.Repeat("{*,*,*,*,*}", 4) + "/**": -1,
		"{" + strings.Repeat("a,", 300) + "b}":   -1,
		"{a,b}/{c,d}/{e,f}/{g,h}/**/{i,j,k,l}/*": 0,
	} {
		ctx, done := context.WithTimeout(t.Context(), time.Minute)
		got, err := fsbridge.Glob(ctx, files, pattern)
		done()
		switch {
		case want < 0 && sandbox.CodeOf(err) != sandbox.CodeValidation:
			t.Errorf("%.60s: %v, %v", pattern, got, err)
		case want >= 0 && (err != nil || len(got) != want):
			t.Errorf("%.60s: %v, %v", pattern, got, err)
		}
	}
}

// TestGlobHoldsBoundedMatches holds that neither many matches nor long ones are
// collected without end, by both ways to look for them.
func TestGlobHoldsBoundedMatches(t *testing.T) {
	for what, tt := range map[string]struct {
		files   sandbox.Files
		pattern string
		want    sandbox.Code
	}{
		"many":            {flat{newPit(100_002, 0), 0}, "/w/*", sandbox.CodeBudgetExceeded},
		"many, walked":    {flat{newPit(100_002, 0), 0}, "/w/{**/*,x/**/y}", sandbox.CodeBudgetExceeded},
		"long":            {flat{newPit(10_000, 0), 8}, "/w/**/*", sandbox.CodeBudgetExceeded},
		"long, walked":    {flat{newPit(10_000, 0), 8}, "/w/**/f/**/*", sandbox.CodeBudgetExceeded},
		"fewer":           {flat{newPit(10_000, 0), 0}, "/w/*", ""},
		"shorter":         {flat{newPit(10_000, 0), 4}, "/w/**/*", ""},
		"shorter, walked": {flat{newPit(10_000, 0), 4}, "/w/**/f/**/*", ""},
	} {
		found, err := fsbridge.Glob(t.Context(), tt.files, tt.pattern)
		if sandbox.CodeOf(err) != tt.want || err == nil && len(found) < 9_999 {
			t.Errorf("%s: %d matches, %v", what, len(found), err)
		}
	}
}

// A flat is a folder of files, below some with long names.
type flat struct {
	pit
	above int
}

func (f flat) ReadDir(_ context.Context, name string) ([]fs.DirEntry, error) {
	if depth := strings.Count(name, "/") - 1; depth < f.above {
		long := "f"
		if depth > 0 {
			long = strings.Repeat("f", 250)
		}
		return fsbridge.Entries([]fsbridge.Info{fsbridge.NewInfo(long, 0o040755, 0, time.Time{})}), nil
	}
	return f.entries[1:], nil
}

// A shaft is deeper than paths are long: every folder has one in it, and a file.
type shaft struct {
	sandbox.Files
	entries []fs.DirEntry
}

func (s shaft) named(name string) error {
	if len(name) > 4095 {
		return &sandbox.Error{Code: sandbox.CodeValidation, Field: "path", Message: "the path has more than 4095 bytes"}
	}
	return nil
}

func (s shaft) Stat(_ context.Context, name string) (fs.FileInfo, error) {
	if err := s.named(name); err != nil {
		return nil, err
	}
	if strings.HasSuffix(name, "/f") {
		return s.entries[1].Info()
	}
	return s.entries[0].Info()
}

func (s shaft) ReadDir(_ context.Context, name string) ([]fs.DirEntry, error) {
	return s.entries, s.named(name)
}

// TestGlobInAShaft checks that files too deep to have a path do not keep a
// search from finding the rest.
func TestGlobInAShaft(t *testing.T) {
	s := shaft{entries: fsbridge.Entries([]fsbridge.Info{fsbridge.NewInfo(strings.Repeat("d", 200), 0o040755, 0, time.Time{}), fsbridge.NewInfo("f", 0o100644, 0, time.Time{})})}
	for pattern, want := range map[string]int{"/w/**/f": 21, "/w/**": 43, "/w/**/d*/**/f": 20, "/w/*": 2} {
		found, err := fsbridge.Glob(context.Background(), s, pattern)
		if err != nil || len(found) != want {
			t.Errorf("%s: %d, %v", pattern, len(found), err)
		}
	}
}
