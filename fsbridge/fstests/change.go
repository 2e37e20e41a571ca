package fstests

import (
	"errors"
	"io/fs"
	"slices"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
)

func changeChecks() []Check {
	return []Check{
		{"mkdir makes one folder with the mode asked for", changeMkdir},
		{"remove takes files and empty folders, trees when asked to", changeRemove},
		{"rename replaces a file by a file and an empty folder by a folder", changeRename},
	}
}

func changeMkdir(r *rig) {
	for _, mode := range []fs.FileMode{0o700, 0o750, 0o755, 0o777} {
		path := r.dir + "/d" + mode.String()
		r.must(r.Files.Mkdir(r.ctx, path, mode))
		info, err := r.Files.Stat(r.ctx, path)
		r.must(err)
		if info.Mode() != fs.ModeDir|mode {
			r.Errorf("mkdir %v made %v", mode, info.Mode())
		}
	}
	r.put(r.dir+"/file", "")
	r.sh(`ln -s nowhere "$1"/dangling`, r.dir)
	for _, name := range []string{"/file", "/dangling", "/d-rwx------", "/d-rwx------/", "/d-rwx------/.", ""} {
		r.fails("mkdir "+name, r.Files.Mkdir(r.ctx, r.dir+name, 0o755), sandbox.CodeValidation, fs.ErrExist, syscall.EEXIST)
	}
	r.fails("mkdir of the mount", r.Files.Mkdir(r.ctx, r.Dir, 0o755), sandbox.CodeValidation, fs.ErrExist)
}

func changeRemove(r *rig) {
	r.sh(`cd "$1"; touch f1 f2; mkdir e1 e2; mkdir -p full/a/b; touch full/a/b/c full/-rf; chmod 444 f1; mkfifo p`, r.dir)
	for _, name := range []string{"f1", "e1", "p"} {
		r.must(r.Files.Remove(r.ctx, r.dir+"/"+name, false))
	}
	for _, name := range []string{"f2", "e2"} {
		r.must(r.Files.Remove(r.ctx, r.dir+"/"+name, true))
	}
	err := r.Files.Remove(r.ctx, r.dir+"/full", false)
	r.fails("remove of a full folder", err, sandbox.CodeValidation, syscall.ENOTEMPTY)
	if got := r.sh(`cd "$1"; ls -A; ls -A full`, r.dir); got != "full\n-rf\na\n" {
		r.Errorf("left: %q", got)
	}
	r.must(r.Files.Remove(r.ctx, r.dir+"/full", true))
	r.debris(r.dir)
	r.missing("remove of nothing", r.Files.Remove(r.ctx, r.dir+"/full", false))
	r.missing("remove of no tree", r.Files.Remove(r.ctx, r.dir+"/full", true))
	for _, root := range []string{r.Dir, r.Dir + "/", r.Dir + "/.", r.dir + "/.."} {
		r.fails("remove of "+root, r.Files.Remove(r.ctx, root, true), sandbox.CodeCapabilityBlocked, fs.ErrPermission)
	}
}

func changeRename(r *rig) {
	r.sh(`cd "$1"; printf a >a; printf b >b; mkdir d e full; printf x >d/x; touch full/y; mkdir -p deep/er`, r.dir)
	move := func(from, to string) error { return r.Files.Rename(r.ctx, r.dir+"/"+from, r.dir+"/"+to) }
	r.must(move("a", "b"))
	r.want(r.dir+"/b", "a")
	r.must(move("d", "e"))
	r.want(r.dir+"/e/x", "x")
	r.must(move("b", "deep/er/b"))
	r.must(move("deep/er", "er"))
	r.want(r.dir+"/er/b", "a")
	r.must(move("er/b", "er/b"))
	r.fails("folder over full folder", move("e", "full"), sandbox.CodeValidation, syscall.ENOTEMPTY)
	r.fails("file over folder", move("er/b", "e"), sandbox.CodeValidation)
	r.fails("folder over file", move("e", "er/b"), sandbox.CodeValidation, syscall.ENOTDIR)
	r.fails("folder into itself", move("e", "e/inner"), sandbox.CodeValidation)
	r.missing("rename of nothing", move("nothing", "x"))
	r.missing("rename into nothing", move("er/b", "nothing/x"))
	r.fails("rename of the mount", r.Files.Rename(r.ctx, r.Dir, r.dir+"/x"), sandbox.CodeCapabilityBlocked)
	r.fails("rename onto the mount", r.Files.Rename(r.ctx, r.dir+"/e", r.Dir), sandbox.CodeCapabilityBlocked)
	err := r.Files.Rename(r.ctx, r.dir+"/er/b", r.Small+"/b")
	r.fails("rename to another mount", err, sandbox.CodeUnsupported, syscall.EXDEV)
	if got := r.names(r.dir); !slices.Equal(got, []string{"deep", "e", "er", "full"}) {
		r.Errorf("left: %q", got)
	}
	if errors.Is(move("er/b", "er/c"), fs.ErrNotExist) {
		r.Error("a failed rename has lost the file")
	}
}
