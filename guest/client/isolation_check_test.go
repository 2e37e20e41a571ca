package client_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// TestProof has sandboxes check themselves from inside.
func TestProof(t *testing.T) {
	checks := []wire.Check{
		{Path: "/workspace/hidden", Want: wire.Unreadable}, {Path: "/workspace/closed", Want: wire.Unwritable},
		{Path: "/workspace/key", Want: wire.Unwritable}, {Path: "/workspace/closed/new", Want: wire.Unwritable},
		{Path: "/workspace/pinned", Want: wire.Pinned}, {Path: "/workspace", Want: wire.Writable},
		{Path: "/home/user/x", Want: wire.Unwritable}, {Path: "/private", Want: wire.Unwritable},
		// What does not hold.
		{Path: "/workspace/file", Want: wire.Unreadable}, {Path: "/workspace/sub", Want: wire.Unwritable},
		{Path: "/workspace/closed", Want: wire.Writable}, {Path: "/workspace/sub", Want: wire.Pinned},
		{Path: "/workspace/new", Want: wire.Unwritable},
	}
	const rofs, inval = 30, 22
	missing := []wire.Miss{{Index: 8}, {Index: 9}, {Index: 10, Errno: rofs}, {Index: 11, Errno: inval}, {Index: 12}}
	for _, tt := range []struct {
		name   string
		checks []wire.Check
		want   []wire.Miss
	}{
		{"what does not hold", checks, missing},
		{"what holds", checks[:8], nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := observing()
			p.config.Checks = tt.checks
			w := p.start(t)
			for range 2 {
				got, err := w.Proof(t.Context(), len(tt.checks))
				if err != nil || !reflect.DeepEqual(got, tt.want) {
					t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
				}
			}
			if got := listing(t, w.work); got != listing(t, workspace(t)) {
				t.Errorf("it is changed: %s", got)
			}
			if r := run(t, w.Client, sh("echo x >> new && cat new")); r.stdout != "x\n" {
				t.Errorf("a command afterwards: %+v", r)
			}
		})
	}
	// An answer to other checks than ours is none.
	p := observing()
	p.config.Checks = checks
	if got, err := p.start(t).Proof(t.Context(), len(checks)-1); err == nil {
		t.Errorf("more misses than checks: %+v", got)
	}
	if got, err := observing().start(t).Proof(t.Context(), 0); err == nil {
		t.Errorf("nothing was checked: %+v", got)
	}
}

// TestProofIsHeldAsCommandsAre holds that checks meet Landlock, which holds
// commands and not the guest, and that the guest is not held afterwards.
func TestProofIsHeldAsCommandsAre(t *testing.T) {
	p := observing()
	p.config.Checks = []wire.Check{{Path: "/private", Want: wire.Unreadable}, {Path: "/private", Want: wire.Writable}}
	w := p.start(t)
	got, err := w.Proof(t.Context(), 2)
	const acces = 13
	if want := []wire.Miss{{Index: 0}, {Index: 1, Errno: acces}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	p.config.Landlock, p.config.Observe = false, false
	got, err = p.start(t).Proof(t.Context(), 2)
	if want := []wire.Miss{{Index: 0}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("without Landlock: got %+v, %v, want %+v", got, err, want)
	}
}

func listing(t *testing.T, dir string) (all string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		all += strings.TrimPrefix(path, dir) + " "
		return err
	}))
	return all
}
