package fstests

import (
	"context"
	"io/fs"
	"strings"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
)

func errorChecks() []Check {
	return []Check{
		{"what is not there is not found, and so is a missing parent", errorsMissing},
		{"a wrong kind of thing has its own error", errorsKind},
		{"an ended context does nothing", errorsEnded},
	}
}

func errorsMissing(r *rig) {
	for _, name := range []string{"/nothing", "/no/parent", "/no/parent/at/all"} {
		for _, o := range r.ops() {
			if o.name == "write" || name == "/nothing" && (o.name == "create" || o.name == "mkdir" || o.name == "symlink") {
				continue
			}
			if o.name == "create" {
				continue
			}
			r.missing(o.name+" "+name, o.run(r.dir+name))
		}
	}
	r.debris(r.dir)
	r.put(r.dir+"/made/on/the/way/f", "x")
	r.want(r.dir+"/made/on/the/way/f", "x")
	info, err := r.Files.Stat(r.ctx, r.dir+"/made/on")
	r.must(err)
	if info.Mode().Perm() != 0o755 {
		r.Errorf("a parent that was made has mode %v", info.Mode())
	}
	r.must(r.Files.Write(r.ctx, r.dir+"/made/too/f", strings.NewReader("x"), sandbox.WriteOptions{Exclusive: true}))
}

func errorsKind(r *rig) {
	r.sh(`cd "$1"; mkdir d; touch f`, r.dir)
	_, err := r.read(r.dir + "/d")
	r.fails("read of a folder", err, sandbox.CodeValidation, syscall.EISDIR)
	err = r.Files.Write(r.ctx, r.dir+"/d", strings.NewReader("x"), sandbox.WriteOptions{})
	r.fails("write to a folder", err, sandbox.CodeValidation, syscall.EISDIR)
	err = r.Files.Write(r.ctx, r.Dir, strings.NewReader("x"), sandbox.WriteOptions{})
	r.fails("write to the mount", err, sandbox.CodeValidation, syscall.EISDIR)
	_, err = r.Files.ReadDir(r.ctx, r.dir+"/f")
	r.fails("listing of a file", err, sandbox.CodeValidation, syscall.ENOTDIR)
	for _, o := range r.ops() {
		r.fails(o.name+" below a file", o.run(r.dir+"/f/x"), sandbox.CodeValidation, syscall.ENOTDIR)
	}
	for _, name := range []string{"/f", "/d"} {
		err := r.Files.Write(r.ctx, r.dir+name, strings.NewReader("x"), sandbox.WriteOptions{Exclusive: true})
		r.fails("create "+name, err, sandbox.CodeValidation, fs.ErrExist)
	}
	r.want(r.dir+"/f", "")
	r.debris(r.dir, "d", "f")
}

func errorsEnded(r *rig) {
	r.put(r.dir+"/f", "old")
	ended := *r
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	ended.ctx = ctx
	for _, o := range ended.ops() {
		err := o.run(r.dir + "/f")
		if err == nil {
			r.Errorf("%s: no error", o.name)
		}
		if code := sandbox.CodeOf(err); code != sandbox.CodeUnavailable && code != sandbox.CodeTimeout {
			r.Errorf("%s: code %s: %v", o.name, code, err)
		}
	}
	r.want(r.dir+"/f", "old")
	r.debris(r.dir, "f")
}
