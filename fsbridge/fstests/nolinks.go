package fstests

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"

	"github.com/bulkhead-dev/sandbox"
)

func noLinkChecks() []Check {
	return []Check{
		{"without links none is followed, on the way or at the end", noLinksFollowed},
		{"without links everything else is as with them", noLinksElse},
		{"without links a folder swapped for a link in the mount reveals and changes nothing", noLinksRace},
		{"without links a file swapped for a link in the mount reveals nothing", noLinksFileRace},
		{"a tree is cleared although its folders are closed", clearClosed},
	}
}

// plain returns the rig with the view that follows no link.
func (r *rig) plain() *rig {
	r.Helper()
	refuser, ok := r.Files.(sandbox.LinkRefuser)
	if !ok {
		r.Fatal("the files under test are no LinkRefuser")
	}
	files, err := refuser.WithoutLinks()
	r.must(err)
	mine := *r
	mine.Files = files
	return &mine
}

// linked wants the refusal of a link.
func (r *rig) linked(what string, err error) {
	r.Helper()
	r.fails(what, err, sandbox.CodeCapabilityBlocked, fs.ErrPermission)
}

func noLinksFollowed(r *rig) {
	v := r.plain()
	r.sh(`cd "$1"; mkdir -p real/deep; printf old >real/f; ln -s real/f file; ln -s file chain; ln -s real dir; ln -s real/deep/ slash
		ln -s real/fresh dangling; ln -s "$1/real/f" absolute; ln -s "$1/real" absdir; ln -s ../real real/up; ln -s . self; ln -s loop loop
		ln -s "$2" out; ln -s /proc/self/cwd cwd`, r.dir, r.out)
	before := r.sh(`cd "$1"; ls -laR . "$2"; cat real/f`, r.dir, r.out)
	through := []string{"/dir/f", "/slash/../f", "/real/up/f", "/self/real/f", "/absdir/f", "/dir/../real/f", "/dir/new", "/dir/deep/new/f", "/loop/f", "/out/f", "/cwd/f"}
	for _, name := range through {
		for _, o := range v.ops() {
			r.linked(o.name+" "+name, o.run(r.dir+name))
		}
	}
	for _, name := range []string{"/file", "/chain", "/dir", "/slash", "/dangling", "/absolute", "/self", "/loop", "/out", "/cwd"} {
		for _, o := range append(v.lookingOps(), v.changingOps()[0]) {
			r.linked(o.name+" "+name, o.run(r.dir+name))
		}
		r.fails("create "+name, v.Files.Write(r.ctx, r.dir+name, strings.NewReader("new"), sandbox.WriteOptions{Exclusive: true}), sandbox.CodeValidation, fs.ErrExist)
	}
	if after := r.sh(`cd "$1"; ls -laR . "$2"; cat real/f`, r.dir, r.out); after != before {
		r.Errorf("there was\n%s\nis now\n%s", before, after)
	}
	r.must(v.Files.Rename(r.ctx, r.dir+"/file", r.dir+"/renamed"))
	r.must(v.Files.Remove(r.ctx, r.dir+"/renamed", false))
	r.must(v.Files.Remove(r.ctx, r.dir+"/out", true))
	if got := r.sh(`cd "$1"; cat real/f; ls -d "$2"`, r.dir, r.out); got != "old"+r.out+"\n" {
		r.Errorf("what links led to is now %q", got)
	}
}

func noLinksElse(r *rig) {
	v := r.plain()
	v.put(r.dir+"/a/b/c/f", "content")
	v.want(r.dir+"/a/b/../b/./c//f", "content")
	v.put(r.dir+"/a/b/c/f", strings.Repeat("long", 50_000))
	v.want(r.dir+"/a/b/c/f", strings.Repeat("long", 50_000))
	for _, name := range []string{"/a/\n", "/a/\n\n/\n", "/a/-n/ .", "/a/x (deleted)", "/a/\xff/$(x)"} {
		v.put(r.dir+name, "odd")
		v.want(r.dir+name, "odd")
	}
	r.must(v.Files.Mkdir(r.ctx, r.dir+"/a/d", 0o700))
	v.mode(r.dir+"/a/d", fs.ModeDir|0o700)
	r.must(v.Files.Rename(r.ctx, r.dir+"/a/b/c/f", r.dir+"/a/d/g"))
	if got := strings.Join(v.names(r.dir+"/a/d"), " "); got != "g" {
		r.Errorf("the folder holds %q", got)
	}
	_, err := v.Files.Stat(r.ctx, r.dir+"/nothing/at/all")
	r.missing("stat", err)
	r.must(v.Files.Remove(r.ctx, r.dir+"/a", true))
	r.debris(r.dir)
}

// noLinksRace asks for files in a folder that is swapped for a link to its
// neighbour, which lies in the same mount.
func noLinksRace(r *rig) {
	v := r.plain()
	r.sh(`mkdir -p "$1/granted/d/sub" "$1/beside"; printf mine >"$1/granted/d/victim"`, r.dir)
	v.dir, v.out = r.dir+"/granted", r.dir+"/beside"
	path := v.dir + "/d/victim"
	var done atomic.Bool // a read or a write has succeeded
	count := func(err error) {
		if err == nil {
			done.Store(true)
		}
	}
	write := func(ctx context.Context, _ int) {
		count(v.Files.Write(ctx, path, strings.NewReader("mine"), sandbox.WriteOptions{}))
	}
	read := func(ctx context.Context, _ int) {
		mine := *v
		mine.ctx = ctx
		got, err := mine.read(path)
		if strings.Contains(got, beyond) {
			r.Errorf("read returned what is beside the folder")
		}
		count(err)
	}
	// The attacker may have to wait for a processor while the folder is away.
	v.raceUntil(done.Load, r.rounds, `cd "$1" && while :; do mv d real; ln -s "$2" d; rm d; mv real d; done`, "d", []func(context.Context, int){
		read, write, read,
		func(ctx context.Context, _ int) {
			v.unlisted(ctx, v.dir+"/d")
			_ = v.Files.Write(ctx, v.dir+"/d/sub/deep/new", strings.NewReader("mine"), sandbox.WriteOptions{})
		},
	})
	if !done.Load() {
		r.Error("no read and no write ever succeeded, so nothing was tried")
	}
}

// noLinksFileRace reads a file that is swapped for a link to its neighbour, which
// lies in the same mount.
func noLinksFileRace(r *rig) {
	v := r.plain()
	r.sh(`mkdir -p "$1/granted" "$1/beside"; printf mine >"$1/granted/victim"`, r.dir)
	v.dir, v.out = r.dir+"/granted", r.dir+"/beside"
	path := v.dir + "/victim"
	v.want(path, "mine")
	read := func(ctx context.Context, _ int) {
		mine := *v
		mine.ctx = ctx
		if got, _ := mine.read(path); strings.Contains(got, beyond) {
			r.Errorf("read returned what is beside the folder")
		}
	}
	v.race(r.rounds, `cd "$1" && while :; do mv victim real; ln -s "$2/victim" victim; rm victim; mv real victim; done`, "victim", []func(context.Context, int){
		read, read, read,
		func(ctx context.Context, _ int) { // the attacker may have lost the file
			_ = v.Files.Remove(ctx, path, false)
			_ = v.Files.Write(ctx, path, strings.NewReader("mine"), sandbox.WriteOptions{})
		},
	})
}

func clearClosed(r *rig) {
	c, ok := r.Files.(sandbox.Clearer)
	if !ok {
		r.Fatal("the files under test are no Clearer")
	}
	r.sh(`cd "$1"; mkdir -p t/closed/in/deep t/unwritable/in t/unsearchable/in; printf x >t/closed/in/deep/f; printf x >t/unwritable/in/f
		printf kept >"$2/kept"; mkdir "$2/closed"; ln -s "$2/closed" t/closed/link; ln -s "$2/kept" t/unwritable/link; chmod 000 "$2/closed"
		chmod 000 t/closed/in/deep t/closed/in t/closed; chmod 555 t/unwritable/in t/unwritable; chmod 600 t/unsearchable`, r.dir, r.out)
	err := c.Clear(r.ctx, r.dir+"/t")
	r.must(err)
	r.debris(r.dir)
	if got := r.sh(`cd "$1"; cat kept; ls -ld closed`, r.out); !strings.HasPrefix(got, "keptd---------") {
		r.Errorf("beyond the tree there is %q", got)
	}
	r.sh(`chmod 700 "$1/closed"`, r.out)
	if err := c.Clear(r.ctx, r.dir+"/t"); !errors.Is(err, fs.ErrNotExist) {
		r.Errorf("clearing nothing: %v", err)
	}
}
