package providertest

import (
	"context"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
)

// fileRefusalChecks hold what is refused.
func fileRefusalChecks() []Check {
	return []Check{
		{Name: "a path outside every mount is blocked", run: onFiles(fileOutside)},
		{Name: "a malformed path is refused", run: onFiles(fileMalformed)},
		{Name: "a link that leads out of its mount is not followed", run: onFiles(fileEscape)},
		{Name: "read-only mounts are read-only for files", run: onFiles(fileReadOnly)},
	}
}

// fileEndChecks check the errors of file operations when nothing serves them.
func fileEndChecks() []Check {
	return []Check{
		{Name: "a file operation under an ended context does nothing", run: onFiles(fileEnded)},
		{Name: "a read that is called off ends", run: onFiles(fileReadCancelled)},
		{Name: "files of a closed handle are unavailable", run: onFiles(fileClosed)},
		{Name: "files of a destroyed sandbox are unavailable, not missing", needs: needDestroyed, run: onFiles(fileDestroyed)},
	}
}

func fileOutside(f *fileRig) {
	up := strings.Repeat("/..", 30)
	for _, path := range []string{
		"/", "/etc", "/etc/passwd", "/proc/self/environ", "/proc/self/root" + f.dir, "/dev/null", "//etc/passwd", sandbox.GuestDir + "/bin/x",
		f.spec.Workdir + "/../etc/passwd", f.dir + up + "/etc/passwd", f.spec.Workdir + "x", "/x/.." + f.dir, "../etc/passwd",
	} {
		for _, op := range append(f.looking(f.ctx), f.changing(f.ctx)...) {
			f.fails(op.name+" of "+path, op.do(path), sandbox.CodeCapabilityBlocked, fs.ErrPermission)
		}
		err := f.files.Rename(f.ctx, f.dir, path)
		f.fails("Rename to "+path, err, sandbox.CodeCapabilityBlocked, fs.ErrPermission)
	}
	f.sh(`[ -d "$1" ]`, f.dir)
}

func fileMalformed(f *fileRig) {
	for _, path := range []string{"", f.dir + "/a\x00b", f.dir + "/" + strings.Repeat("n", 300), f.dir + strings.Repeat("/n", 3000)} {
		for _, op := range append(f.looking(f.ctx), f.changing(f.ctx)...) {
			f.fails(op.name+" of a malformed path", op.do(path), sandbox.CodeValidation)
		}
	}
	if got := f.names(f.dir); got != "" {
		f.Errorf("left are %q", got)
	}
}

// fileEscape makes links to a folder on another mount, which commands may reach
// and file operations through this mount may not.
func fileEscape(f *fileRig) {
	outside := f.small + "/escape"
	f.sh(`mkdir "$2"; printf secret >"$2/secret"; mkdir "$2/sub"
		cd "$1"; ln -s "$2/secret" file; ln -s "$2" dir; ln -s dir chain; ln -s "$2/none" dangling; ln -s ../../../../../../../"$2" up; ln -s / top`, f.dir, outside)
	for _, name := range []string{"/file", "/dir", "/chain", "/up"} {
		for _, op := range append(f.looking(f.ctx), f.changing(f.ctx)[:1]...) {
			err := op.do(f.dir + name)
			if code := sandbox.CodeOf(err); code != sandbox.CodeCapabilityBlocked && code != sandbox.CodeValidation {
				f.Errorf("%s of the link %s: %v, want a refusal", op.name, name, err)
			}
		}
	}
	for _, name := range []string{"/dir/secret", "/dir/new", "/chain/secret", "/up/secret", "/up/new/deep", "/dir/sub/new", "/dangling", "/top" + outside + "/secret", "/dir/../secret"} {
		for _, op := range append(f.looking(f.ctx), f.changing(f.ctx)...) {
			if name == "/dangling" && slices.Contains([]string{"Remove", "recursive Remove", "Rename from"}, op.name) {
				continue // of the link itself, which is in the mount
			}
			if err := op.do(f.dir + name); err == nil {
				f.Errorf("%s through %s succeeded", op.name, name)
			}
		}
	}
	if got := f.sh(`cat "$1/secret"; ls -A "$1"`, outside); got != "secretsecret\nsub" {
		f.Errorf("beyond the mount is now %q", got)
	}
}

func fileReadOnly(f *fileRig) {
	path := f.readOnly + "/file"
	f.holds(path, FolderContent)
	for _, op := range f.changing(f.ctx) {
		target := path
		if op.name == "exclusive Write" || op.name == "Mkdir" {
			target = f.readOnly + "/new"
		}
		if op.name == "Rename from" {
			continue // to another mount
		}
		f.fails(op.name+" of "+target, op.do(target), sandbox.CodeCapabilityBlocked, fs.ErrPermission, syscall.EROFS)
	}
	err := f.files.Rename(f.ctx, path, f.readOnly+"/new")
	f.fails("Rename", err, sandbox.CodeCapabilityBlocked, fs.ErrPermission, syscall.EROFS)
	f.holds(path, FolderContent)
	if got := f.names(f.readOnly); got != "file" {
		f.Errorf("the read-only mount holds %q", got)
	}
	if exit, _, _ := f.run(f.sb, script(`: >"$1/new"`, f.readOnly)); exit.Code == 0 {
		f.Error("a command may write there")
	}
}

func fileEnded(f *fileRig) {
	f.put(f.dir+"/f", "old")
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	for _, op := range append(f.looking(ctx), f.changing(ctx)...) {
		f.wantCode(op.name, op.do(f.dir+"/f"), sandbox.CodeTimeout, sandbox.CodeUnavailable)
		if op.name != "Read" && op.name != "ReadDir" && op.name != "Stat" {
			f.wantCode(op.name+" of a new name", op.do(f.dir+"/new"), sandbox.CodeTimeout, sandbox.CodeUnavailable)
		}
	}
	_, err := f.sb.(sandbox.FileServer).Files(ctx)
	if err != nil { // it may have nothing to ask
		f.wantCode("Files", err, sandbox.CodeTimeout, sandbox.CodeUnavailable)
	}
	f.holds(f.dir+"/f", "old")
	if got := f.names(f.dir); got != "f" {
		f.Errorf("left are %q", got)
	}
}

func fileReadCancelled(f *fileRig) {
	const size = 8 << 20
	f.must("Write", f.files.Write(f.ctx, f.dir+"/f", io.LimitReader(endless{}, size), sandbox.WriteOptions{}))
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	r, err := f.files.Read(ctx, f.dir+"/f", 0, -1)
	f.must("Read", err)
	_, err = io.ReadFull(r, make([]byte, 1000))
	f.must("Read", err)
	cancel()
	f.within(f.h.Patience, "reading on", func() {
		if n, err := io.Copy(io.Discard, r); err == nil {
			f.Errorf("a read that was called off went on to its end, %d bytes", n)
		}
		r.Close()
	})
	if got, err := f.get(f.ctx, f.dir+"/f", size-1, -1); err != nil || len(got) != 1 {
		f.Errorf("the next read: %d bytes, %v", len(got), err)
	}
}

func fileClosed(f *fileRig) {
	f.put(f.dir+"/f", "old")
	f.must("Close", f.sb.Close())
	for _, op := range append(f.looking(f.ctx), f.changing(f.ctx)...) {
		f.within(f.h.Patience, op.name, func() {
			f.wantCode(op.name+" after Close", op.do(f.dir+"/f"), sandbox.CodeUnavailable)
		})
	}
	again := *f
	again.sb = f.open(f.spec)
	again.files = f.serve(again.sb)
	again.holds(f.dir+"/f", "old")
	if got := again.names(f.dir); got != "f" {
		f.Errorf("left are %q", got)
	}
}

func fileDestroyed(f *fileRig) {
	f.put(f.dir+"/f", "old")
	f.h.Behind.Destroy(f, f.p, f.spec.Name)
	for _, op := range append(f.looking(f.ctx), f.changing(f.ctx)...) {
		f.within(f.h.Patience, op.name, func() {
			f.wantCode(op.name, op.do(f.dir+"/f"), sandbox.CodeUnavailable, sandbox.CodeTimeout)
		})
	}
}
