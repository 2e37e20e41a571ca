package fsbridge_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/fsbridge/fsinfo"
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

func newPit(wide, bottom int) pit {
	infos := []fsinfo.Info{fsinfo.New("0", 0o040755, 0, time.Time{})}
	for i := 1; i < wide; i++ {
		infos = append(infos, fsinfo.New(fmt.Sprint(i), 0o100644, 0, time.Time{}))
	}
	return pit{entries: fsinfo.Entries(infos), bottom: bottom}
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
	var teeth []fsinfo.Info
	for i := range c.teeth {
		teeth = append(teeth, fsinfo.New(fmt.Sprint("t", i), 0o040755, 0, time.Time{}))
	}
	return fsinfo.Entries(teeth), nil
}
