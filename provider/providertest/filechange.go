package providertest

import (
	"io/fs"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
)

// fileChangeChecks hold what the other operations do.
func fileChangeChecks() []Check {
	return []Check{
		{Name: "mkdir makes one folder whose parent exists", run: onFiles(fileMkdir)},
		{Name: "remove takes files, links and empty folders, and trees when asked to", run: onFiles(fileRemove)},
		{Name: "rename replaces what is there", run: onFiles(fileRename)},
		{Name: "stat follows links in their mount", run: onFiles(fileStat)},
		{Name: "readdir returns the entries sorted by name", run: onFiles(fileReadDir)},
		{Name: "nothing there is not found", run: onFiles(fileMissing)},
	}
}

func fileMkdir(f *fileRig) {
	for _, perm := range []fs.FileMode{0o700, 0o755} {
		path := f.dir + "/" + perm.String()
		f.must("Mkdir", f.files.Mkdir(f.ctx, path, perm))
		f.mode(path, fs.ModeDir|perm)
		f.fails("Mkdir again", f.files.Mkdir(f.ctx, path, perm), sandbox.CodeValidation, fs.ErrExist)
	}
	f.fails("Mkdir without parent", f.files.Mkdir(f.ctx, f.dir+"/no/parent", 0o755), sandbox.CodeNotFound, fs.ErrNotExist)
	f.sh(`[ ! -e "$1/no" ]; touch "$1/file"`, f.dir)
	f.fails("Mkdir over a file", f.files.Mkdir(f.ctx, f.dir+"/file", 0o755), sandbox.CodeValidation, fs.ErrExist)
	f.fails("Mkdir of the mount", f.files.Mkdir(f.ctx, f.spec.Workdir, 0o755), sandbox.CodeValidation, fs.ErrExist)
}

func fileRemove(f *fileRig) {
	f.sh(`cd "$1"; mkdir -p empty full/a/b; touch file kept full/a/b/c; ln -s kept link; ln -s full dirlink; ln -s nowhere dangling`, f.dir)
	for _, name := range []string{"file", "empty", "link", "dirlink", "dangling"} {
		f.must("Remove of "+name, f.files.Remove(f.ctx, f.dir+"/"+name, false))
	}
	err := f.files.Remove(f.ctx, f.dir+"/full", false)
	f.fails("Remove of a full folder", err, sandbox.CodeValidation, syscall.ENOTEMPTY)
	f.sh(`[ -e "$1/kept" ]; [ -e "$1/full/a/b/c" ]; mkdir "$1/tree"; ln -s ../full "$1/tree/link"`, f.dir)
	f.must("recursive Remove of a tree with a link", f.files.Remove(f.ctx, f.dir+"/tree", true))
	f.sh(`[ -e "$1/full/a/b/c" ]`, f.dir)
	f.must("recursive Remove", f.files.Remove(f.ctx, f.dir+"/full", true))
	f.must("recursive Remove of a file", f.files.Remove(f.ctx, f.dir+"/kept", true))
	if got := f.names(f.dir); got != "" {
		f.Errorf("left are %q", got)
	}
	for _, recursive := range []bool{false, true} {
		f.fails("Remove of nothing", f.files.Remove(f.ctx, f.dir+"/nothing", recursive), sandbox.CodeNotFound, fs.ErrNotExist)
		f.fails("Remove of the mount", f.files.Remove(f.ctx, f.spec.Workdir, recursive), sandbox.CodeCapabilityBlocked)
	}
	f.sh(`[ -d "$1" ]`, f.dir)
}

func fileRename(f *fileRig) {
	f.sh(`cd "$1"; printf a >a; printf b >b; mkdir d e full; printf x >d/x; touch full/y; printf l >target; ln -s target link`, f.dir)
	move := func(from, to string) error { return f.files.Rename(f.ctx, f.dir+"/"+from, f.dir+"/"+to) }
	f.must("Rename over a file", move("a", "b"))
	f.holds(f.dir+"/b", "a")
	f.must("Rename over an empty folder", move("d", "e"))
	f.holds(f.dir+"/e/x", "x")
	f.must("Rename into a folder", move("b", "e/b"))
	f.must("Rename over a link", move("e/b", "link"))
	f.holds(f.dir+"/link", "a")
	f.holds(f.dir+"/target", "l")
	f.fails("Rename over a full folder", move("e", "full"), sandbox.CodeValidation, syscall.ENOTEMPTY)
	f.fails("Rename of a file over a folder", move("link", "full"), sandbox.CodeValidation)
	f.fails("Rename of a folder over a file", move("e", "link"), sandbox.CodeValidation, syscall.ENOTDIR)
	f.fails("Rename of nothing", move("nothing", "x"), sandbox.CodeNotFound, fs.ErrNotExist)
	f.fails("Rename into nothing", move("link", "no/x"), sandbox.CodeNotFound, fs.ErrNotExist)
	f.fails("Rename to another mount", f.files.Rename(f.ctx, f.dir+"/link", f.small+"/x"), sandbox.CodeUnsupported, syscall.EXDEV)
	if got := f.names(f.dir); got != "e full link target" {
		f.Errorf("left are %q", got)
	}
}

func fileStat(f *fileRig) {
	f.sh(`cd "$1"; printf 12345 >f; chmod 640 f; mkdir d; chmod 711 d; ln -s f link; ln -s link chain; ln -s "$1/d" dirlink`, f.dir)
	for name, want := range map[string]fs.FileMode{
		"f": 0o640, "link": 0o640, "chain": 0o640, "d": fs.ModeDir | 0o711, "dirlink": fs.ModeDir | 0o711, "dirlink/../f": 0o640,
	} {
		info, err := f.files.Stat(f.ctx, f.dir+"/"+name)
		if err != nil {
			f.Errorf("Stat of %s: %v", name, err)
			continue
		}
		if info.Mode() != want || info.IsDir() != want.IsDir() || !info.IsDir() && info.Size() != 5 {
			f.Errorf("Stat of %s: %v, %d bytes", name, info.Mode(), info.Size())
		}
		if info.ModTime().IsZero() {
			f.Errorf("Stat of %s tells no time", name)
		}
	}
	for _, root := range []string{f.spec.Workdir, f.readOnly, f.small} {
		if info, err := f.files.Stat(f.ctx, root); err != nil || !info.IsDir() {
			f.Errorf("Stat of the mount %s: %v, %v", root, info, err)
		}
	}
}

func fileReadDir(f *fileRig) {
	if got := f.names(f.dir); got != "" {
		f.Errorf("an empty folder holds %q", got)
	}
	f.sh(`cd "$1"; touch b a .hidden 10 9 Z; mkdir dir; ln -s nowhere link`, f.dir)
	entries, err := f.files.ReadDir(f.ctx, f.dir)
	f.must("ReadDir", err)
	got := ""
	for _, e := range entries {
		got += e.Name() + ":" + e.Type().String()[:1] + " "
		if info, err := e.Info(); err != nil || info.Name() != e.Name() || info.Mode().Type() != e.Type() {
			f.Errorf("the entry %s describes itself as %v, %v", e.Name(), info, err)
		}
	}
	if want := ".hidden:- 10:- 9:- Z:- a:- b:- dir:d link:L "; got != want {
		f.Errorf("the entries are %q, want %q", got, want)
	}
	_, err = f.files.ReadDir(f.ctx, f.dir+"/a")
	f.fails("ReadDir of a file", err, sandbox.CodeValidation, syscall.ENOTDIR)
}

func fileMissing(f *fileRig) {
	for _, path := range []string{f.dir + "/nothing", f.dir + "/no/parent"} {
		for _, op := range append(f.looking(f.ctx), f.changing(f.ctx)[3:]...) {
			f.fails(op.name+" of "+path, op.do(path), sandbox.CodeNotFound, fs.ErrNotExist)
		}
	}
	_, err := f.get(f.ctx, f.dir, 0, -1)
	f.fails("Read of a folder", err, sandbox.CodeValidation, syscall.EISDIR)
}
