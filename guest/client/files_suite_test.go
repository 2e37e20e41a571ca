package client_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/fsbridge/fstests"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"golang.org/x/sys/unix"
)

// A box is a guest as a sandbox: its mounts are folders of this machine,
// under the same paths.
type box struct {
	*client.Client
	table *fsbridge.MountTable
}

var _ sandbox.FileServer = box{}

func (b box) Info() sandbox.Info { return sandbox.Info{Name: "box", Status: sandbox.StatusRunning} }
func (b box) OpenShell(context.Context, sandbox.ShellOptions) (sandbox.Shell, error) {
	return nil, &sandbox.Error{Code: sandbox.CodeUnsupported}
}
func (b box) Usage(context.Context) (sandbox.Usage, error) {
	return sandbox.Usage{}, &sandbox.Error{Code: sandbox.CodeUnsupported}
}

func (b box) Files(context.Context) (sandbox.Files, error) { return b.files() }

func (b box) files() (*client.Files, error) {
	return b.Client.Files(func(path string) (client.Spot, error) {
		p, err := b.table.Inside(path)
		return client.Spot{Root: p.Root.Target, Rel: p.Rel}, err
	})
}

// places are the folders of a box.
type places struct {
	base, work, outside, readOnly, small string
	mounts                               []sandbox.Mount
	tmpfs                                []sandbox.Tmpfs
}

// newPlaces makes them. It must come before the guest is started, because
// the mounts are copied into its namespace then.
func newPlaces(t testing.TB) places {
	t.Helper()
	base, err := os.MkdirTemp("", "files")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(base)) })
	must(t, os.Chmod(base, 0o755))
	folder := func(name string) string {
		dir := filepath.Join(base, name)
		must(t, os.Mkdir(dir, 0o755))
		must(t, os.Chown(dir, guestUID, guestUID))
		return dir
	}
	p := places{base: base, work: folder("work"), outside: folder("outside"), readOnly: folder("ro"), small: folder("small")}
	must(t, os.WriteFile(filepath.Join(p.readOnly, "file"), []byte("read-only\n"), 0o644))
	must(t, os.Chown(filepath.Join(p.readOnly, "file"), guestUID, guestUID))
	mount(t, p.readOnly, p.readOnly, "", syscall.MS_BIND, "")
	must(t, syscall.Mount("", p.readOnly, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""))
	mount(t, "tmpfs", p.small, "tmpfs", 0, "size=1m,mode=0777")
	p.mounts = []sandbox.Mount{
		{Source: p.work, Target: p.work, Role: sandbox.RoleBind},
		// Writable as far as anybody but the kernel knows.
		{Source: p.readOnly, Target: p.readOnly, Role: sandbox.RoleBind},
	}
	p.tmpfs = []sandbox.Tmpfs{{Target: p.small}}
	return p
}

func mount(t testing.TB, source, target, kind string, flags uintptr, data string) {
	t.Helper()
	must(t, syscall.Mount(source, target, kind, flags, data))
	t.Cleanup(func() { must(t, syscall.Unmount(target, syscall.MNT_DETACH)) })
}

// open returns the files of the guest over one connection.
func (p places) open(t testing.TB, c *client.Client) (box, *fsbridge.Bridge) {
	t.Helper()
	table, err := fsbridge.NewMountTable(p.mounts, p.tmpfs)
	must(t, err)
	b := box{c, table}
	bridge, err := fsbridge.Open(t.Context(), b, p.mounts, p.tmpfs)
	must(t, err)
	if got := bridge.Transport(); got.Name != fsbridge.TransportGuest || !got.Durable {
		t.Fatalf("transport %+v", got)
	}
	return b, bridge
}

// TestFilesSuite runs the suite of every file transport over the guest: with
// openat2, without it, without files that have no name, through a relay, and
// behind a rule.
func TestFilesSuite(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options []guestOption
		relay   bool
		ruled   bool
		again   string // what it repeats, of the file code of the others
	}{
		{name: "openat2"},
		{name: "walk", options: []guestOption{withoutOpenat2()}, again: "the steps of a walk, and files without a name"},
		{name: "walk with named files", options: []guestOption{likeGVisor()}},
		{name: "relay", relay: true, again: "a second connection to the same code"},
		{name: "ruled", ruled: true, again: "a rule that changes nothing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			switch {
			case tt.again != "":
				testenv.Exhaustive(t, tt.again)
			case tt.options != nil:
				long(t)
			}
			fstests.Run(t, fstests.Harness{New: func(t testing.TB) fstests.Rig {
				p := newPlaces(t)
				g := startGuest(t, tt.options...)
				c := g.client(client.Options{})
				if tt.relay {
					c = g.overRelay()
				}
				if walks := c.Hello().Has(wire.FeatureFilesWalk); walks != (tt.options != nil) {
					t.Fatalf("the guest walks: %v", walks)
				}
				sb, bridge := p.open(t, c)
				if tt.ruled { // a rule that refuses nothing changes nothing
					bridge = bridge.Ruled(func(sandbox.Operation, string, bool) error { return nil })
				}
				return fstests.Rig{
					Sandbox: sb, Files: bridge, Dir: p.work, Outside: p.outside, ReadOnly: p.readOnly, Small: p.small, Swap: exchange,
				}
			}})
		})
	}
}

// overRelay is a client that is connected through a relay.
func (g *guest) overRelay() *client.Client {
	g.t.Helper()
	g.connect().Close() // it is up
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.New(ctx, g.relay(), client.Options{})
	must(g.t, err)
	g.t.Cleanup(func() { c.Close() })
	return c
}

// exchange swaps two names with one system call after the other.
func exchange(_ testing.TB, a, b string) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE) // missing names come back
			}
		}
	}()
	return sync.OnceFunc(func() { close(end); <-ended })
}
