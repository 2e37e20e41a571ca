package fsbridge_test

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
)

// gate counts operations, and refuses all of them once it is closed.
type gate struct {
	closed  error
	files   int
	names   [2]int64 // out, in
	in, out strings.Builder
}

func (g *gate) Open() error { return g.closed }
func (g *gate) File() error { g.files++; return nil }
func (g *gate) Names(out, in int64) error {
	g.names[0] += out
	g.names[1] += in
	return nil
}
func (g *gate) In(r io.Reader) io.Reader  { return io.TeeReader(r, &g.in) }
func (g *gate) Out(r io.Reader) io.Reader { return io.TeeReader(r, &g.out) }

// TestMeter checks that every view of a metered bridge is metered, and that a
// caller without budget causes no operation at all.
func TestMeter(t *testing.T) {
	rig := localRig(t, toolbox(t, "dash"))
	g := &gate{}
	all := rig.Files.(*fsbridge.Bridge).Paying(g)
	ctx := t.Context()
	for name, b := range map[string]*fsbridge.Bridge{"a": all, "b": all.Inside()} {
		must(t, b.Write(ctx, rig.Dir+"/"+name, strings.NewReader("text of "+name), sandbox.WriteOptions{}))
		r, err := b.Read(ctx, rig.Dir+"/"+name, 0, -1)
		must(t, err)
		_, err = io.Copy(io.Discard, r)
		must(t, errors.Join(err, r.Close()))
	}
	if in, out := g.in.Len(), g.out.Len(); g.files != 2 || in != 18 || out != 18 {
		t.Errorf("counted are %d files, %d bytes read and %d written", g.files, in, out)
	}
	list, err := all.ReadDir(ctx, rig.Dir)
	must(t, err)
	named := 0
	for _, d := range list {
		named += len(d.Name())
	}
	must(t, all.Symlink(ctx, "a", rig.Dir+"/l"))
	target, err := all.ReadLink(ctx, rig.Dir+"/l")
	must(t, err)
	// Twice written and read, listed, and a link made and read.
	if out, in := int64(4*len(rig.Dir+"/a")+len(rig.Dir)+1+2*len(rig.Dir+"/l")), int64(named+len(target)); g.names != [2]int64{out, in} {
		t.Errorf("counted are %d bytes of names, want %d and %d", g.names, out, in)
	}
	must(t, all.Remove(ctx, rig.Dir+"/l", false))
	g.closed = errors.New("nothing is left")
	a := rig.Dir + "/a"
	for name, do := range map[string]func(b *fsbridge.Bridge) error{
		"read":     func(b *fsbridge.Bridge) error { _, err := b.Read(ctx, a, 0, -1); return err },
		"write":    func(b *fsbridge.Bridge) error { return b.Write(ctx, a, strings.NewReader(""), sandbox.WriteOptions{}) },
		"make":     func(b *fsbridge.Bridge) error { return b.CreateExclusive(ctx, a+"2", strings.NewReader(""), 0) },
		"mkdir":    func(b *fsbridge.Bridge) error { return b.Mkdir(ctx, a+"3", 0o755) },
		"remove":   func(b *fsbridge.Bridge) error { return b.Remove(ctx, a, true) },
		"clear":    func(b *fsbridge.Bridge) error { return b.Clear(ctx, a) },
		"rename":   func(b *fsbridge.Bridge) error { return b.Rename(ctx, a, a+"4") },
		"stat":     func(b *fsbridge.Bridge) error { _, err := b.Stat(ctx, a); return err },
		"list":     func(b *fsbridge.Bridge) error { _, err := b.ReadDir(ctx, rig.Dir); return err },
		"lstat":    func(b *fsbridge.Bridge) error { _, err := b.Lstat(ctx, a); return err },
		"readlink": func(b *fsbridge.Bridge) error { _, err := b.ReadLink(ctx, a); return err },
		"symlink":  func(b *fsbridge.Bridge) error { return b.Symlink(ctx, "x", a+"5") },
		"walk":     func(b *fsbridge.Bridge) error { _, err := fs.Stat(fsbridge.SubFS(ctx, b, rig.Dir), "a"); return err },
	} {
		if err := do(all.Inside()); !errors.Is(err, g.closed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if info, err := rig.Files.Stat(ctx, a); err != nil || info.Size() != 9 {
		t.Errorf("it was done all the same: %v", err)
	}
}
