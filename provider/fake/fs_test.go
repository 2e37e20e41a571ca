package fake_test

import (
	"context"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/fsbridge/fstests"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/faked"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// TestFileSuite runs the suite of all file transports on the fake.
func TestFileSuite(t *testing.T) {
	fstests.Run(t, fstests.Harness{Rounds: 400, New: fileRig})
}

// fileRig is a sandbox of the fake with the places that the suite works in.
func fileRig(t testing.TB) fstests.Rig {
	p := fake.New(fake.Options{Deadline: testenv.Patience})
	s := faked.Spec("files")
	s.Mounts = []sandbox.Mount{
		{Source: "/host/work", Target: sandbox.WorkspaceDir, Role: sandbox.RoleWorkspace},
		{Source: "/host/ro", Target: "/ro", ReadOnly: true, Role: sandbox.RoleBind},
	}
	s.Tmpfs = []sandbox.Tmpfs{{Target: "/small", Size: 4 << 20, Mode: 0o700, Owned: true}}
	if err := p.Engine().Folder("/host/ro", s.UID).Write("file", 0o644, "read-only\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	sb, err := p.Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		sb.Close()
		p.Remove(context.Background(), s.Name)
	})
	b, err := fsbridge.Open(t.Context(), sb, s.Mounts, s.Tmpfs)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Transport().Name; got != fsbridge.TransportGuest {
		t.Fatalf("the files come by %q", got)
	}
	swap := func(t testing.TB, x, y string) func() { return swapping(sb, x, y) }
	return fstests.Rig{
		Sandbox: sb, Files: b, Dir: sandbox.WorkspaceDir, Outside: "/var/tmp", ReadOnly: "/ro", Small: "/small", Swap: swap,
	}
}

// swapping exchanges two names by a command inside until stop is called. It
// moves nothing into a folder that was created meanwhile, or that the other
// name leads to.
func swapping(sb sandbox.Sandbox, x, y string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	p, err := sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", `
		while :; do mv -T "$1" "$1.swap" || rm -rf "$1"; mv -T "$2" "$1"; mv -T "$1.swap" "$2"; done`, "sh", x, y}})
	return sync.OnceFunc(func() {
		cancel()
		if err == nil {
			p.Wait() // it was killed; how it ended does not matter
		}
	})
}
