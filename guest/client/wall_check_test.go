package client_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// TestCheckMode has a wall be checked from inside.
func TestCheckMode(t *testing.T) {
	w := observing().start(t)
	before := listing(t, w.work)
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
	want := []wire.Miss{{Index: 8}, {Index: 9}, {Index: 10, Errno: rofs}, {Index: 11, Errno: inval}, {Index: 12}}
	if got := check(t, w, checks, 1); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := check(t, w, checks[:8], 0); got != nil {
		t.Errorf("what holds: %+v", got)
	}
	if after := listing(t, w.work); after != before {
		t.Errorf("it was %s and is %s", before, after)
	}
	r := run(t, w.Client, sandbox.Command{Args: []string{"/.sandbox/bin/sandbox-guest", "check"}, Stdin: bytes.NewReader([]byte("no list"))})
	if r.exit.Code != 2 || r.stdout != "" || r.stderr == "" {
		t.Errorf("no list: %+v", r)
	}
}

func check(t *testing.T, w *wall, checks []wire.Check, code int) []wire.Miss {
	t.Helper()
	r := run(t, w.Client, sandbox.Command{Args: []string{"/.sandbox/bin/sandbox-guest", "check"}, Stdin: bytes.NewReader(wire.EncodeChecks(checks))})
	if r.exit.Code != code {
		t.Errorf("exit %d, want %d; %s", r.exit.Code, code, r.stderr)
	}
	misses, err := wire.DecodeMisses([]byte(r.stdout), len(checks))
	must(t, err)
	return misses
}

func listing(t *testing.T, dir string) (all string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		all += path + " "
		return err
	}))
	return all
}
