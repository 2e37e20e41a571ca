package fstests

import (
	"errors"
	"io/fs"
	"testing/fstest"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
)

func viewChecks() []Check {
	return []Check{{"the io/fs view keeps the contract of io/fs", viewFS}}
}

func viewFS(r *rig) {
	r.sh(`cd "$1"; mkdir -p a/b empty; printf one >one; printf two >a/two; printf three >a/b/three; : >none; ln -s one link; ln -s a dirlink`, r.dir)
	view := fsbridge.SubFS(r.ctx, r.Files, r.dir)
	if err := fstest.TestFS(view, "one", "a/two", "a/b/three", "none", "empty", "link", "dirlink"); err != nil {
		r.Error(err)
	}
	r.sh(`ln -s "$2" "$1/out"; printf secret >"$2/f"`, r.dir, r.out)
	for _, name := range []string{"out/f", "../one", "/one", "", "a/../one"} {
		if b, err := fs.ReadFile(view, name); err == nil {
			r.Errorf("%q was read: %q", name, b)
		}
	}
	_, err := fs.Stat(view, "nothing")
	if !errors.Is(err, fs.ErrNotExist) || sandbox.CodeOf(err) != sandbox.CodeNotFound {
		r.Errorf("stat of nothing: %v", err)
	}
}
