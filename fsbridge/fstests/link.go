package fstests

import (
	"io/fs"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

func linkChecks() []Check {
	return []Check{
		{"links within the mount are followed and stay", linkInside},
		{"links that lead out of the mount are refused", linkOutside},
		{"remove and rename act on a link itself", linkItself},
		{"circles of links end", linkCircle},
		{"links are described, read and made", linkKnown},
		{"a write breaks a hard link and leaves its other names alone", linkHard},
	}
}

func linkInside(r *rig) {
	r.sh(`cd "$1"; mkdir -p real/deep; printf old >real/f; ln -s real/f file; ln -s file chain; ln -s real dir; ln -s real/deep/ slash
		ln -s real/fresh dangling; ln -s "$1/real/f" absolute; ln -s ../real/f real/up; ln -s . self`, r.dir)
	for _, name := range []string{"/file", "/chain", "/absolute", "/dir/f", "/slash/../f", "/real/up", "/dir/../self/self/real/f"} {
		r.want(r.dir+name, "old")
		r.put(r.dir+name, "new")
		r.want(r.dir+"/real/f", "new")
		r.put(r.dir+"/real/f", "old")
	}
	r.put(r.dir+"/dangling", "through")
	r.want(r.dir+"/real/fresh", "through")
	r.must(r.Files.Mkdir(r.ctx, r.dir+"/dir/made", 0o755))
	info, err := r.Files.Stat(r.ctx, r.dir+"/chain")
	r.must(err)
	if info.Mode().Type() != 0 || info.Name() != "chain" {
		r.Errorf("stat of a link: %s %v", info.Name(), info.Mode())
	}
	if got := r.sh(`cd "$1"; for l in file chain dir slash dangling real/up self; do test -L "$l" || echo "$l"; done; ls real`, r.dir); got != "deep\nf\nfresh\nmade\nup\n" {
		r.Errorf("the links or their targets are not as they were: %q", got)
	}
	// An absolute target inside the mount may be followed or refused.
	if got, err := r.read(r.dir + "/absolute"); err == nil && got != "old" || err != nil && sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		r.Errorf("an absolute link inside the mount: %q, %v", got, err)
	}
}

// linkOutside tries each operation on and through links that leave the mount.
func linkOutside(r *rig) {
	r.sh(`mkdir "$2/dir"; printf secret >"$2/file"; printf secret >"$2/dir/file"
		cd "$1"; ln -s "$2/file" file; ln -s "$2/dir" dir; ln -s "$2/nothing" dangling; ln -s dir chain; ln -s "$2/dir/" slash
		mkdir in; ln -s ../../../../../../../../../../../../../.."$2/dir" in/relative; ln -s "$2/dir/.." parent; ln -s "$2/dir/../file" crooked
		ln -s "$2/new/dir" nodir; ln -s / top; ln -s /proc/self/cwd cwd; ln -s /proc/self/root procroot`, r.dir, r.out)
	before := r.sh(`cd "$1"; ls -laR`, r.out)
	direct := []string{"/file", "/dir", "/dangling", "/chain", "/slash", "/in/relative", "/parent", "/crooked"}
	for _, name := range direct {
		for _, o := range append(r.lookingOps(), op{"write", func(p string) error {
			return r.Files.Write(r.ctx, p, strings.NewReader("new"), sandbox.WriteOptions{})
		}}) {
			r.refused(o.name+" "+name, o.run(r.dir+name), name == "/dangling" || o.name == "readdir")
		}
	}
	through := []string{
		"/dir/file", "/dir/new", "/chain/file", "/slash/file", "/in/relative/file", "/parent/file", "/dir/../file", "/dir/../dir/file",
		"/nodir/file", "/top" + r.out + "/file", "/procroot" + r.out + "/file", "/dangling/new", "/dir/sub/sub/new",
	}
	for _, name := range through {
		for _, o := range r.ops() {
			r.refused(o.name+" "+name, o.run(r.dir+name), true)
		}
		r.put(r.dir+"/mine", "x")
		r.refused("rename to "+name, r.Files.Rename(r.ctx, r.dir+"/mine", r.dir+name), true)
	}
	for _, o := range r.ops() {
		// The process that follows this link determines where it leads: perhaps into the
		// mount.
		_ = o.run(r.dir + "/cwd" + r.out + "/file")
	}
	if after := r.sh(`cd "$1"; ls -laR`, r.out); after != before {
		r.Errorf("beyond the mount was\n%s\nis now\n%s", before, after)
	}
	if got := r.sh(`cat "$1/file" "$1/dir/file"`, r.out); got != "secretsecret" {
		r.Errorf("beyond the mount files hold %q", got)
	}
}

// refused wants a refusal; where orAbsent, not-found or not-a-folder do, too.
func (r *rig) refused(what string, err error, orAbsent bool) {
	r.Helper()
	code := sandbox.CodeOf(err)
	if err == nil || code != sandbox.CodeCapabilityBlocked && (!orAbsent || code != sandbox.CodeNotFound && code != sandbox.CodeValidation) {
		r.Errorf("%s: want a refusal, got %v", what, err)
	}
}

func linkItself(r *rig) {
	r.sh(`printf kept >"$2/file"; mkdir "$2/dir"; touch "$2/dir/kept"
		cd "$1"; ln -s "$2/file" a; ln -s "$2/dir" b; ln -s "$2/dir" c; ln -s "$2/file" d; ln -s nowhere e; touch f`, r.dir, r.out)
	r.must(r.Files.Remove(r.ctx, r.dir+"/a", false))
	r.must(r.Files.Remove(r.ctx, r.dir+"/b", true))
	r.must(r.Files.Rename(r.ctx, r.dir+"/c", r.dir+"/c2"))
	r.must(r.Files.Rename(r.ctx, r.dir+"/f", r.dir+"/d"))
	r.must(r.Files.Rename(r.ctx, r.dir+"/d", r.dir+"/c2"))
	r.must(r.Files.Remove(r.ctx, r.dir+"/e", false))
	if got := r.sh(`cat "$2/file"; ls "$2/dir"; ls -A "$1"; test -f "$1/c2" && test ! -L "$1/c2" && echo plain`, r.dir, r.out); got != "keptkept\nc2\nplain\n" {
		r.Errorf("left: %q", got)
	}
}

func linkCircle(r *rig) {
	r.sh(`cd "$1"; ln -s a a; ln -s b c; ln -s c b; mkdir d; ln -s ../d d/e`, r.dir)
	for _, name := range []string{"/a", "/b", "/a/x", "/b/x"} {
		for _, o := range append(r.lookingOps(), r.changingOps()[0]) {
			if err := o.run(r.dir + name); err == nil || sandbox.CodeOf(err) == sandbox.CodeExecution {
				r.Errorf("%s %s: %v", o.name, name, err)
			}
		}
	}
	deep := r.dir + strings.Repeat("/d/e", 30)
	if _, err := r.Files.ReadDir(r.ctx, deep[:len(r.dir)+2]+strings.Repeat("/e", 30)); err != nil {
		r.Errorf("thirty links: %v", err)
	}
}

func linkKnown(r *rig) {
	l := r.links()
	for i, target := range []string{"f", "../x", "/etc/passwd", "a b\nc\n", "-rf", "\n", strings.Repeat("t", 3000)} {
		path := r.dir + "/link" + string(rune('a'+i))
		r.must(l.Symlink(r.ctx, target, path))
		got, err := l.ReadLink(r.ctx, path)
		r.must(err)
		if got != target {
			r.Errorf("the link to %q points to %q", target, got)
		}
		info, err := l.Lstat(r.ctx, path)
		r.must(err)
		if info.Mode().Type() != fs.ModeSymlink || info.Size() != int64(len(target)) {
			r.Errorf("lstat: %v, %d bytes", info.Mode(), info.Size())
		}
		r.fails("symlink over a link", l.Symlink(r.ctx, "x", path), sandbox.CodeValidation, fs.ErrExist)
	}
	r.put(r.dir+"/f", "")
	_, err := l.ReadLink(r.ctx, r.dir+"/f")
	r.fails("readlink of a file", err, sandbox.CodeValidation)
	_, err = l.ReadLink(r.ctx, r.dir+"/nothing")
	r.missing("readlink of nothing", err)
	r.fails("a link to nothing", l.Symlink(r.ctx, "", r.dir+"/empty"), sandbox.CodeValidation)
	r.fails("a link in a mount's place", l.Symlink(r.ctx, "x", r.Dir), sandbox.CodeValidation, fs.ErrExist)
}

func linkHard(r *rig) {
	// Where the places are one file system, the other name is outside.
	r.sh(`printf old >"$1/f"; ln "$1/f" "$2/f" 2>/dev/null || ln "$1/f" "$1/other"; chmod 600 "$1/f"`, r.dir, r.out)
	r.put(r.dir+"/f", "new")
	r.want(r.dir+"/f", "new")
	r.mode(r.dir+"/f", 0o600)
	if got := r.sh(`cat "$2/f" 2>/dev/null || cat "$1/other"`, r.dir, r.out); got != "old" {
		r.Errorf("the other name holds %q now", got)
	}
	r.must(r.Files.Remove(r.ctx, r.dir+"/f", false))
	if got := r.sh(`cat "$2/f" 2>/dev/null || cat "$1/other"`, r.dir, r.out); got != "old" {
		r.Errorf("the other name holds %q after a removal", got)
	}
}
