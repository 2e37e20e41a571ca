package fstests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
)

// patience is how long something that must happen may take, and a whole check:
// some make a thousand processes, one after the other. Only what fails waits
// that long.
const patience = 10 * time.Minute

// A rig is what one check works with: a folder of its own on either side.
type rig struct {
	testing.TB
	Rig
	ctx    context.Context
	rounds int
	dir    string // below Rig.Dir
	out    string // below Rig.Outside
}

func newRig(t testing.TB, base Rig, rounds, number int) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	r := &rig{TB: t, Rig: base, ctx: ctx, rounds: rounds}
	r.dir = fmt.Sprintf("%s/check%d", base.Dir, number)
	r.out = fmt.Sprintf("%s/check%d", base.Outside, number)
	r.sh(`mkdir "$1" "$2"`, r.dir, r.out)
	return r
}

// sh runs a line in the sandbox, which must succeed, and returns its output.
func (r *rig) sh(line string, args ...string) string {
	r.Helper()
	var out, complaints bytes.Buffer
	p, err := r.Sandbox.Start(r.ctx, sandbox.Command{
		Args: append([]string{"sh", "-ec", line, "sh"}, args...), Dir: "/", Stdout: &out, Stderr: &complaints,
	})
	r.must(err)
	exit, err := p.Wait()
	r.must(err)
	if exit.Code != 0 {
		r.Fatalf("in the sandbox: %s: status %d: %s", line, exit.Code, complaints.String())
	}
	return out.String()
}

// background runs a line in the sandbox until stop is called.
func (r *rig) background(line string, args ...string) (stop func()) {
	r.Helper()
	ctx, cancel := context.WithCancel(r.ctx)
	p, err := r.Sandbox.Start(ctx, sandbox.Command{
		Args: append([]string{"sh", "-c", line, "sh"}, args...), Dir: "/",
	})
	if err != nil {
		cancel()
		r.Fatal(err)
	}
	return func() {
		cancel()
		p.Wait() // it was killed; how it ended does not matter
	}
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) put(path, content string) {
	r.Helper()
	r.must(r.Files.Write(r.ctx, path, strings.NewReader(content), sandbox.WriteOptions{}))
}

func (r *rig) read(path string) (string, error) {
	f, err := r.Files.Read(r.ctx, path, 0, -1)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	return string(b), err
}

func (r *rig) want(path, content string) {
	r.Helper()
	got, err := r.read(path)
	r.must(err)
	if got != content {
		r.Fatalf("%s holds %s, want %s", path, brief(got), brief(content))
	}
}

func brief(s string) string {
	if len(s) > 60 {
		return fmt.Sprintf("%q… (%d bytes)", s[:60], len(s))
	}
	return fmt.Sprintf("%q", s)
}

// names lists a folder.
func (r *rig) names(path string) []string {
	r.Helper()
	entries, err := r.Files.ReadDir(r.ctx, path)
	r.must(err)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// fails wants an error with the code that is one of the sentinels.
func (r *rig) fails(what string, err error, code sandbox.Code, sentinels ...error) {
	r.Helper()
	if err == nil {
		r.Errorf("%s: no error, want %s", what, code)
		return
	}
	if got := sandbox.CodeOf(err); got != code {
		r.Errorf("%s: code %s, want %s: %v", what, got, code, err)
	}
	for _, s := range sentinels {
		if !errors.Is(err, s) {
			r.Errorf("%s: errors.Is says no to %v: %v", what, s, err)
		}
	}
}

// missing wants the error for what is not there.
func (r *rig) missing(what string, err error) {
	r.Helper()
	r.fails(what, err, sandbox.CodeNotFound, fs.ErrNotExist)
}

// links returns the transport's knowledge of links.
func (r *rig) links() fsbridge.Linker {
	l, ok := r.Files.(fsbridge.Linker)
	if !ok {
		r.Fatal("the files under test are no Linker")
	}
	return l
}

// op is one operation by name, for tables of attacks.
type op struct {
	name string
	run  func(path string) error
}

// ops are the operations that take one path.
func (r *rig) ops() []op {
	return append(r.lookingOps(), r.changingOps()...)
}

func (r *rig) lookingOps() []op {
	return []op{
		{"read", func(p string) error { _, err := r.read(p); return err }},
		{"stat", func(p string) error { _, err := r.Files.Stat(r.ctx, p); return err }},
		{"readdir", func(p string) error { _, err := r.Files.ReadDir(r.ctx, p); return err }},
	}
}

func (r *rig) changingOps() []op {
	return []op{
		{"write", func(p string) error {
			return r.Files.Write(r.ctx, p, strings.NewReader("new"), sandbox.WriteOptions{})
		}},
		{"create", func(p string) error {
			return r.Files.Write(r.ctx, p, strings.NewReader("new"), sandbox.WriteOptions{Exclusive: true})
		}},
		{"mkdir", func(p string) error { return r.Files.Mkdir(r.ctx, p, 0o755) }},
		{"remove", func(p string) error { return r.Files.Remove(r.ctx, p, false) }},
		{"remove all", func(p string) error { return r.Files.Remove(r.ctx, p, true) }},
		{"rename from", func(p string) error { return r.Files.Rename(r.ctx, p, r.dir+"/renamed") }},
		{"symlink", func(p string) error { return r.links().Symlink(r.ctx, "x", p) }},
	}
}

// debris lists what operations may have left in a folder: everything with a
// name that is not wanted.
func (r *rig) debris(path string, wanted ...string) {
	r.Helper()
	known := map[string]bool{}
	for _, w := range wanted {
		known[w] = true
	}
	for _, name := range r.names(path) {
		if !known[name] {
			r.Errorf("%s is left in %s", name, path)
		}
	}
}
