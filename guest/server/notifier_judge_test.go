//go:build linux

package server

import (
	"runtime"
	"testing"

	"github.com/bulkhead-dev/sandbox/provider/seccomp"
)

const mounts = `20 1 0:30 / / ro,nosuid - tmpfs tmpfs rw
21 20 0:31 /home/u/work /workspace rw,nosuid - ext4 /dev/sda rw
22 21 0:31 /home/u/work/.git/hooks /workspace/.git/hooks ro,nosuid master:3 shared:4 - ext4 /dev/sda rw
23 21 0:32 / /workspace/two\040words rw - tmpfs  ro
24 21 0:31 /home/u/work/.git /workspace/.git rw - ext4 /dev/sda rw
25 20 0:33 / /tmp rw - tmpfs tmpfs rw,size=1k
26 20 0:34 / /both ro - tmpfs tmpfs rw
27 26 0:35 / /both rw - tmpfs tmpfs rw
`

func TestJudge(t *testing.T) {
	j, err := newJudge([]string{"/workspace/", "/tmp", "/both"}, []byte(mounts))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		kind kind
		path string
		want bool
	}{
		{notifierPut, "/workspace/file", false}, {notifierPut, "/workspace", false}, {notifierPut, "/tmp/a/b", false}, {notifierPut, "/both/x", false},
		{notifierPut, "/workspaces", true}, {notifierPut, "/", true}, {notifierPut, "/etc/passwd", true}, {notifierPut, "/tmpx", true},
		{notifierPut, "/workspace/.git/config", false}, {notifierPut, "/workspace/.git/hooks", true}, {notifierPut, "/workspace/.git/hooks/x", true},
		{notifierPut, "/workspace/.git/hooksx", false}, {notifierPut, "/workspace/two words/x", true},
		{remove, "/workspace/.git", true}, {change, "/workspace/.git", false}, {remove, "/workspace/.gitx", false},
		{notifierPut, "/dev/null", false}, {notifierPut, "/dev/sda", true}, {notifierPut, "/dev/pts/3", false}, {notifierPut, "/dev/shm/x", false},
		{notifierPut, "/proc/self/oom_score_adj", false}, {notifierPut, "/process", true},
	} {
		if got := j.refuses(tt.kind, tt.path); got != tt.want {
			t.Errorf("%s (%d): %v", tt.path, tt.kind, got)
		}
	}
	everything, err := newJudge([]string{"/"}, []byte(mounts))
	if err != nil || everything.refuses(notifierPut, "/workspace/x") || !everything.refuses(notifierPut, "/x") {
		t.Errorf("with the root writable: %v", err)
	}
	for _, bad := range []string{"20 1 0:30 / / ro", "x", "20 1 0:30 / / ro - tmpfs", "20 1 0:30 / / ro tmpfs tmpfs rw"} {
		if _, err := newJudge(nil, []byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestKindOfOpen(t *testing.T) {
	const creat, excl, tmpfile, path = 0x40, 0x80, 0x400000, 0x200000
	for flags, want := range map[uint64]kind{
		1: change, 2: change, 0x200: change, 0x401: change, creat: notifierPut, creat | 1: notifierPut, creat | excl: notifierCreate,
		tmpfile | 2: change, excl | 1: change,
	} {
		if got, ok := kindOfOpen(flags); got != want || !ok {
			t.Errorf("%#x: %d, %v", flags, got, ok)
		}
	}
	for _, flags := range []uint64{0, 0x80000, path | 1, path | creat, excl} {
		if _, ok := kindOfOpen(flags); ok {
			t.Errorf("%#x is meant for writing", flags)
		}
	}
}

// TestEveryTrappedCallIsKnown holds that the observer knows what the filter
// hands to it, and nothing else.
func TestEveryTrappedCallIsKnown(t *testing.T) {
	arch, err := seccomp.ArchOf(runtime.GOARCH)
	if err != nil {
		t.Fatal(err) // the guest is built for no architecture without filters
	}
	trapped := map[int32]bool{}
	program := seccomp.Command(arch, seccomp.Options{Observe: true})
	for at, i := range program {
		if i.Code != 0x15 || program[at+int(i.Jf)].Code != 0x06 {
			continue // not the number of a call, and a block of code for it
		}
		for _, in := range program[at+1 : at+1+int(i.Jf)] {
			if in.Code == 0x06 && seccomp.Action(in.K) == seccomp.Notify {
				trapped[int32(i.K)] = true
			}
		}
	}
	if len(trapped) < 20 {
		t.Fatalf("%d calls are handed over", len(trapped))
	}
	for n := range int32(512) {
		if known := len(targetsOf(n)) > 0; known != trapped[n] {
			t.Errorf("the call %d is handed over: %v; known: %v", n, trapped[n], known)
		}
	}
}

func FuzzMountinfo(f *testing.F) {
	f.Add(mounts, "/workspace/x")
	f.Fuzz(func(t *testing.T, info, path string) {
		j, err := newJudge([]string{"/workspace"}, []byte(info))
		if err == nil && len(path) > 0 && path[0] == '/' && len(path) < 100 {
			j.refuses(notifierPut, path)
		}
	})
}
