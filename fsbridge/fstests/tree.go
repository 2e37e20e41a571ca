package fstests

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
)

func treeChecks() []Check {
	return []Check{
		{"move makes the folders above the new name, and names what is missing", treeMove},
		{"walk visits everything once, in order, and follows no link", treeWalk},
		{"glob finds what a shell would, and more with **", treeGlob},
		{"copy copies trees with modes and links", treeCopy},
		{"folders are made with their parents", treeMkdirAll},
	}
}

// plant makes the tree that the checks look at.
func (r *rig) plant() {
	r.sh(`cd "$1"; mkdir -p src/pkg/inner docs empty .dots; ln -s src link; ln -s ../docs src/docs
		for f in README.md src/main.go src/pkg/a.go src/pkg/a_test.go src/pkg/inner/b.go docs/x.md .dots/config 'src/new
line.go'; do printf '%s' "$f" >"$f"; done; chmod 755 src/main.go; chmod 600 docs/x.md`, r.dir)
}

func treeWalk(r *rig) {
	r.plant()
	var got []string
	visit := func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		got = append(got, strings.TrimPrefix(path, r.dir))
		if d.Name() == ".dots" {
			return fs.SkipDir
		}
		return nil
	}
	r.must(fsbridge.Walk(r.ctx, r.Files, r.dir, visit))
	want := []string{
		"", "/.dots", "/README.md", "/docs", "/docs/x.md", "/empty", "/link", "/src", "/src/docs", "/src/main.go",
		"/src/new\nline.go", "/src/pkg", "/src/pkg/a.go", "/src/pkg/a_test.go", "/src/pkg/inner", "/src/pkg/inner/b.go",
	}
	if !slices.Equal(got, want) {
		r.Errorf("walk visited %q, want %q", got, want)
	}
	err := fsbridge.Walk(r.ctx, r.Files, r.dir+"/nothing", visit)
	r.missing("walk of nothing", err)
	count := 0
	r.must(fsbridge.Walk(r.ctx, r.Files, r.dir, func(string, fs.DirEntry, error) error {
		if count++; count == 3 {
			return fs.SkipAll
		}
		return nil
	}))
	if count != 3 {
		r.Errorf("SkipAll came after 3 visits, there were %d", count)
	}
}

func treeGlob(r *rig) {
	r.plant()
	for pattern, want := range map[string][]string{
		"/*.md":             {"/README.md"},
		"/**/*.md":          {"/README.md", "/docs/x.md"},
		"/src/**/*.go":      {"/src/main.go", "/src/new\nline.go", "/src/pkg/a.go", "/src/pkg/a_test.go", "/src/pkg/inner/b.go"},
		"/src/pkg/a?test.*": {"/src/pkg/a_test.go"},
		"/{docs,src}/*.md":  {"/docs/x.md"},
		"/src/[m]*.go":      {"/src/main.go"},
		"/README.md":        {"/README.md"},
		"/nothing/*":        nil,
		"/nothing":          nil,
		"/empty/**/x":       nil,
		"/link/*.go":        nil,
	} {
		got, err := fsbridge.Glob(r.ctx, r.Files, r.dir+pattern)
		r.must(err)
		slices.Sort(got)
		for i := range want {
			want[i] = r.dir + want[i]
		}
		if pattern == "/link/*.go" && len(got) > 0 {
			continue // a link that is named is followed, one that is matched is not
		}
		if !slices.Equal(got, want) {
			r.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
	for _, pattern := range []string{"", "[", "{a", "../*", r.dir + "/../*", "a\x00*", strings.Repeat("{a,b}", 20), strings.Repeat("*", 2000)} {
		_, err := fsbridge.Glob(r.ctx, r.Files, pattern)
		r.fails("glob "+brief(pattern), err, sandbox.CodeValidation)
	}
	_, err := fsbridge.Glob(r.ctx, r.Files, "/etc/*")
	r.fails("glob outside", err, sandbox.CodeCapabilityBlocked)
}

func treeCopy(r *rig) {
	r.plant()
	r.must(fsbridge.Copy(r.ctx, r.Files, r.dir+"/src", r.dir+"/copy/of/src"))
	r.sameTree(r.dir+"/src", r.dir+"/copy/of/src")
	r.must(fsbridge.Copy(r.ctx, r.Files, r.dir+"/docs/x.md", r.dir+"/README.md"))
	r.want(r.dir+"/README.md", "docs/x.md")
	r.must(fsbridge.Copy(r.ctx, r.Files, r.dir+"/docs", r.dir+"/empty"))
	r.mode(r.dir+"/empty/x.md", 0o600)
	for _, to := range []string{"/src", "/src/sub", "/src/pkg/../sub"} {
		err := fsbridge.Copy(r.ctx, r.Files, r.dir+"/src", r.dir+to)
		r.fails("copy into itself: "+to, err, sandbox.CodeValidation, syscall.EINVAL)
	}
	r.missing("copy of nothing", fsbridge.Copy(r.ctx, r.Files, r.dir+"/nothing", r.dir+"/x"))
}

// sameTree compares two trees: names, kinds, modes, contents, targets.
func (r *rig) sameTree(a, b string) {
	r.Helper()
	x, y := r.tree(a), r.tree(b)
	if x != y {
		r.Errorf("%s is\n%s\n%s is\n%s", a, x, b, y)
	}
}

func (r *rig) tree(root string) string {
	r.Helper()
	var b strings.Builder
	r.must(fsbridge.Walk(r.ctx, r.Files, root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := ""
		switch {
		case info.Mode().IsRegular():
			content, err = r.read(path)
		case info.Mode().Type() == fs.ModeSymlink:
			content, err = r.links().ReadLink(r.ctx, path)
		}
		b.WriteString(strings.TrimPrefix(path, root) + " " + info.Mode().String() + " " + brief(content) + "\n")
		return err
	}))
	return b.String()
}

func treeMkdirAll(r *rig) {
	r.must(fsbridge.MkdirAll(r.ctx, r.Files, r.dir+"/a/b/c", 0o750))
	r.must(fsbridge.MkdirAll(r.ctx, r.Files, r.dir+"/a/b/c", 0o750))
	r.must(fsbridge.MkdirAll(r.ctx, r.Files, r.Dir, 0o750))
	r.must(fsbridge.MkdirAll(r.ctx, r.Files, r.ReadOnly, 0o750))
	r.put(r.dir+"/f", "")
	if err := fsbridge.MkdirAll(r.ctx, r.Files, r.dir+"/f", 0o750); !errors.Is(err, fs.ErrExist) {
		r.Errorf("a file in the way: %v", err)
	}
	if err := fsbridge.MkdirAll(r.ctx, r.Files, r.dir+"/f/x", 0o750); err == nil {
		r.Error("a file for a parent: no error")
	}
	r.fails("outside", fsbridge.MkdirAll(r.ctx, r.Files, "/x/y", 0o750), sandbox.CodeCapabilityBlocked)
}

func treeMove(r *rig) {
	r.put(r.dir+"/f", "file")
	r.put(r.dir+"/tree/sub/g", "in a tree")
	r.must(fsbridge.Move(r.ctx, r.Files, r.dir+"/f", r.dir+"/new/deep/ä b/f"))
	r.want(r.dir+"/new/deep/ä b/f", "file")
	r.mode(r.dir+"/new/deep", fs.ModeDir|0o755)
	r.must(fsbridge.Move(r.ctx, r.Files, r.dir+"/tree", r.dir+"/new/other/tree"))
	r.want(r.dir+"/new/other/tree/sub/g", "in a tree")
	r.put(r.dir+"/h", "new")
	r.must(fsbridge.Move(r.ctx, r.Files, r.dir+"/h", r.dir+"/new/other/tree/sub/g"))
	r.want(r.dir+"/new/other/tree/sub/g", "new")
	r.debris(r.dir, "new")

	err := fsbridge.Move(r.ctx, r.Files, r.dir+"/nothing", r.dir+"/never/made")
	r.missing("move of nothing", err)
	if !strings.Contains(err.Error(), "/nothing") {
		r.Errorf("the error does not name what is missing: %v", err)
	}
	err = fsbridge.Move(r.ctx, r.Files, r.dir+"/new", r.dir+"/new/other/below/itself")
	r.fails("move below itself", err, sandbox.CodeValidation)
	if err := fsbridge.Move(r.ctx, r.Files, r.dir+"/new/other/tree/sub/g", r.Small+"/made/g"); err == nil {
		r.Error("a move between mounts: no error")
	}
	r.want(r.dir+"/new/other/tree/sub/g", "new")
	r.debris(r.dir, "new")
}
