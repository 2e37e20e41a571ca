package providertest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// Places of the file checks beside the workspace.
const (
	readOnlyDir = "/providertest-ro"    // [Harness.Folder], mounted read-only
	smallDir    = "/providertest-small" // a tmpfs of smallSize bytes
	smallSize   = 1 << 20
)

// fileChecks hold the contract of sandbox.Files. How transports stand attacks
// in every detail is the matter of package fstests.
func fileChecks() []Check {
	var all []Check
	for _, group := range [][]Check{fileContentChecks(), fileChangeChecks(), fileRefusalChecks(), fileEndChecks()} {
		all = append(all, group...)
	}
	return all
}

// A fileRig is an open sandbox with its files and a folder of the workspace.
type fileRig struct {
	*rig
	sb    sandbox.Sandbox
	spec  sandbox.Spec
	files sandbox.Files
	dir   string
	// readOnly is where [Harness.Folder] is mounted read-only, and small another
	// mount, a tmpfs of smallSize bytes where the provider has one.
	readOnly, small string
}

// A fileSpec is a spec, and where a [fileRig] of it has its other mounts.
type fileSpec struct {
	sandbox.Spec
	readOnly, small string
}

// fileSpec returns the spec of a key with a read-only mount and a small tmpfs.
func (r *rig) fileSpec(key string) *fileSpec {
	r.Helper()
	s := &fileSpec{Spec: r.spec(key), readOnly: readOnlyDir, small: smallDir}
	folder := r.h.Folder(r, r.p)
	if r.h.InPlace {
		s.readOnly, s.small = folder, r.h.Folder(r, r.p)
		s.Mounts = append(s.Mounts, sandbox.Mount{Source: s.small, Target: s.small, Role: sandbox.RoleBind})
	} else {
		s.Tmpfs = append(s.Tmpfs, sandbox.Tmpfs{Target: s.small, Size: smallSize, Mode: 0o1777})
	}
	s.Mounts = append(s.Mounts, sandbox.Mount{Source: folder, Target: s.readOnly, ReadOnly: true, Role: sandbox.RoleBind})
	return s
}

// onFiles makes a check that gets a sandbox with a read-only mount and a small
// tmpfs, and ends where the provider says that it serves no files; another
// check holds that it says so by CodeUnsupported as well.
func onFiles(check func(*fileRig)) func(*rig) {
	return func(r *rig) {
		if !r.p.Features().Files {
			r.Skip("the provider says that it serves no files")
		}
		if r.h.Folder == nil {
			r.Fatal("the harness has no Folder, which a provider with files needs")
		}
		var s *fileSpec
		var sb sandbox.Sandbox
		if s = r.common.files; s != nil {
			sb = r.tidy(s)
		} else {
			s = r.fileSpec("a")
			r.create(s.Spec)
			sb = r.open(s.Spec)
		}
		f := &fileRig{rig: r, sb: sb, spec: s.Spec, dir: s.Workdir + "/providertest", readOnly: s.readOnly, small: s.small}
		f.files = f.serve(f.sb)
		f.sh(`rm -rf "$1"; mkdir "$1"`, f.dir)
		check(f)
	}
}

// serve returns the files of a handle.
func (r *rig) serve(sb sandbox.Sandbox) sandbox.Files {
	r.Helper()
	server, ok := sb.(sandbox.FileServer)
	if !ok {
		r.Fatal("Features.Files is set and the sandbox is no FileServer")
	}
	files, err := server.Files(r.ctx)
	if err != nil {
		r.Fatalf("Files: %v", err)
	}
	return files
}

// sh runs a text inside, which must end with 0, and returns its output.
func (f *fileRig) sh(text string, args ...string) string {
	f.Helper()
	return f.output(f.sb, script(text, args...))
}

func (f *fileRig) must(what string, err error) {
	f.Helper()
	if err != nil {
		f.Fatalf("%s: %v", what, err)
	}
}

func (f *fileRig) put(path, content string) {
	f.Helper()
	f.must("Write "+path, f.files.Write(f.ctx, path, strings.NewReader(content), sandbox.WriteOptions{}))
}

// get reads a part of a file.
func (f *fileRig) get(ctx context.Context, path string, offset, limit int64) (string, error) {
	r, err := f.files.Read(ctx, path, offset, limit)
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return string(b), err
}

// holds wants a file to have the content.
func (f *fileRig) holds(path, want string) {
	f.Helper()
	got, err := f.get(f.ctx, path, 0, -1)
	if err != nil || got != want {
		f.Errorf("%s holds %d bytes %.60q, %v; want %d bytes %.60q", path, len(got), got, err, len(want), want)
	}
}

// names lists a folder.
func (f *fileRig) names(path string) string {
	f.Helper()
	entries, err := f.files.ReadDir(f.ctx, path)
	f.must("ReadDir "+path, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// fails wants an error with the code that errors.Is finds to be one of kinds.
func (f *fileRig) fails(what string, err error, code sandbox.Code, kinds ...error) {
	f.Helper()
	f.wantCode(what, err, code)
	for _, kind := range kinds {
		if err != nil && !errors.Is(err, kind) {
			f.Errorf("%s: %v is not %v", what, err, kind)
		}
	}
}

// A fileOp is an operation on one path.
type fileOp struct {
	name string
	do   func(path string) error
}

// looking are the operations that change nothing, changing the others.
func (f *fileRig) looking(ctx context.Context) []fileOp {
	return []fileOp{
		{"Read", func(p string) error { _, err := f.get(ctx, p, 0, -1); return err }},
		{"Stat", func(p string) error { _, err := f.files.Stat(ctx, p); return err }},
		{"ReadDir", func(p string) error { _, err := f.files.ReadDir(ctx, p); return err }},
	}
}

func (f *fileRig) changing(ctx context.Context) []fileOp {
	write := func(o sandbox.WriteOptions) func(string) error {
		return func(p string) error { return f.files.Write(ctx, p, strings.NewReader("new"), o) }
	}
	return []fileOp{
		{"Write", write(sandbox.WriteOptions{})},
		{"exclusive Write", write(sandbox.WriteOptions{Exclusive: true})},
		{"Mkdir", func(p string) error { return f.files.Mkdir(ctx, p, 0o755) }},
		{"Remove", func(p string) error { return f.files.Remove(ctx, p, false) }},
		{"recursive Remove", func(p string) error { return f.files.Remove(ctx, p, true) }},
		{"Rename from", func(p string) error { return f.files.Rename(ctx, p, f.dir+"/renamed") }},
	}
}

// mode wants a path to have a mode.
func (f *fileRig) mode(path string, want fs.FileMode) {
	f.Helper()
	info, err := f.files.Stat(f.ctx, path)
	f.must("Stat "+path, err)
	if info.Mode() != want {
		f.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
	}
}
