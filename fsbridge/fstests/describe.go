package fstests

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func describeChecks() []Check {
	return []Check{
		{"stat describes files, folders and the mount itself", describeStat},
		{"a listing is sorted and complete, with kinds", describeListing},
		{"thousands of entries are listed", describeMany},
	}
}

func describeStat(r *rig) {
	before := time.Now().Add(-2 * time.Second)
	r.put(r.dir+"/f", "12345")
	r.sh(`chmod 640 "$1"/f; mkdir -m 711 "$1"/d`, r.dir)
	f, err := r.Files.Stat(r.ctx, r.dir+"/f")
	r.must(err)
	if f.Name() != "f" || f.Size() != 5 || f.Mode() != 0o640 || f.IsDir() {
		r.Errorf("a file: %s, %d bytes, %v", f.Name(), f.Size(), f.Mode())
	}
	if m := f.ModTime(); m.Before(before) || m.After(time.Now().Add(2*time.Second)) {
		r.Errorf("a file made now is from %v", m)
	}
	d, err := r.Files.Stat(r.ctx, r.dir+"/d/")
	r.must(err)
	if d.Name() != "d" || d.Mode() != fs.ModeDir|0o711 || !d.IsDir() {
		r.Errorf("a folder: %s, %v", d.Name(), d.Mode())
	}
	for _, root := range []string{r.Dir, r.ReadOnly, r.Small} {
		info, err := r.Files.Stat(r.ctx, root)
		if err != nil || !info.IsDir() {
			r.Errorf("stat of the mount %s: %v, %v", root, info, err)
		}
		if _, err := r.Files.ReadDir(r.ctx, root); err != nil {
			r.Errorf("listing of the mount %s: %v", root, err)
		}
	}
}

func describeListing(r *rig) {
	if got := r.names(r.dir); len(got) != 0 {
		r.Fatalf("an empty folder has %q", got)
	}
	r.sh(`cd "$1"; touch -- b .hidden ..dots a 'with space' -dash; mkdir dir .dir; ln -s b link; ln -s nowhere dangling; mkfifo pipe`, r.dir)
	entries, err := r.Files.ReadDir(r.ctx, r.dir)
	r.must(err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name()+" "+e.Type().String())
		info, err := e.Info()
		if err != nil || info.Name() != e.Name() || info.Mode().Type() != e.Type() {
			r.Errorf("%s: info %v, %v", e.Name(), info, err)
		}
	}
	want := []string{
		"-dash ----------", "..dots ----------", ".dir d---------", ".hidden ----------", "a ----------", "b ----------",
		"dangling L---------", "dir d---------", "link L---------", "pipe p---------", "with space ----------",
	}
	if !slices.Equal(got, want) {
		r.Errorf("listing:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func describeMany(r *rig) {
	count := testenv.Rounds(1_000, 3_000, 10_000)
	if r.rounds < slowRounds {
		count = 1_000
	}
	r.sh(`cd "$1"; for i in $(seq "$2"); do : >"entry-$i"; done`, r.dir, fmt.Sprint(count))
	got := map[string]bool{}
	for _, name := range r.names(r.dir) {
		got[name] = true
	}
	for i := 1; i <= count; i++ {
		if !got[fmt.Sprintf("entry-%d", i)] {
			r.Fatalf("entry-%d is not listed; %d are", i, len(got))
		}
	}
	if len(got) != count {
		r.Errorf("%d entries are listed, want %d", len(got), count)
	}
	r.must(r.Files.Remove(r.ctx, r.dir, true))
}
