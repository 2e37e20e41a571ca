//go:build linux

package server

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
)

func TestProctreeParse(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want proctreeProc
		ok   bool
	}{
		{"12 (sh) S 7 12 12 0", proctreeProc{12, 7, 'S'}, true},
		{"12 (a) b (c) R 1 (x) Z 7 12", proctreeProc{12, 7, 'Z'}, true},
		{"12 (evil) S 1 ) Z 7 12 12", proctreeProc{12, 7, 'Z'}, true},
		{"12 () R 7 1", proctreeProc{12, 7, 'R'}, true},
		{"12 (line\nbreak) T 7 1", proctreeProc{12, 7, 'T'}, true},
		{"12 (first) Z 7 12 12 0 -1 4194304 0 0 0 0 1 1 0 0 20 0 2 0 500", proctreeProc{12, 7, proctreeHeadless}, true},
		{"12 (last) Z 7 12 12 0 -1 4194304 0 0 0 0 1 1 0 0 20 0 1 0 500", proctreeProc{12, 7, 'Z'}, true},
		{"12 (all) S 7 12 12 0 -1 4194304 0 0 0 0 1 1 0 0 20 0 2 0 500", proctreeProc{12, 7, 'S'}, true},
		{"", proctreeProc{}, false},
		{"12 (sh", proctreeProc{}, false},
		{"12 (sh)", proctreeProc{}, false},
		{"12 (sh) S", proctreeProc{}, false},
		{"x (sh) S 7 1", proctreeProc{}, false},
		{") (", proctreeProc{}, false},
	} {
		got, ok := parseProctree([]byte(tt.in))
		if ok != tt.ok || ok && got != tt.want {
			t.Errorf("%q: got %+v, %v", tt.in, got, ok)
		}
	}
}

func FuzzProctreeParse(f *testing.F) {
	f.Add([]byte("12 (sh) S 7 12 12 0"))
	f.Add([]byte("12 (a) b) R 1"))
	f.Fuzz(func(t *testing.T, in []byte) { parseProctree(in) })
}

func TestDescendants(t *testing.T) {
	all := []proctreeProc{
		{1, 0, 'S'}, {10, 1, 'S'}, {11, 10, 'S'}, {12, 11, 'T'}, {13, 10, 'Z'},
		{20, 1, 'S'}, {21, 20, 'S'}, {22, 21, proctreeHeadless}, {30, 1, 'R'}, {40, 99, 'S'}, {50, 50, 'S'},
	}
	for _, tt := range []struct {
		name   string
		root   int
		except func(int) bool
		want   []int
	}{
		{"subtree without zombies", 10, nil, []int{11, 12}},
		{"one whose first thread has ended", 21, nil, []int{22}},
		{"leaf", 30, nil, nil},
		{"nobody", 77, nil, nil},
		{"all but some subtrees", 1, func(pid int) bool { return pid == 10 || pid == 20 }, []int{30}},
		{"own parent", 50, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []int
			for _, p := range descendantsProctree(all, tt.root, tt.except) {
				got = append(got, p.PID)
			}
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestKillSparesAReusedNumber kills processes that were seen with another
// parent, as if their numbers had been given to other processes meanwhile.
func TestKillSparesAReusedNumber(t *testing.T) {
	for _, tt := range []struct {
		name         string
		parent, root int
		dies         bool
	}{
		{"same parent", os.Getpid(), 1 << 30, true},
		{"adopted by the root", 1 << 30, os.Getpid(), true},
		{"another parent", 1 << 30, 1 << 30, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.Command("sleep", "1000")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			kill(proctreeProc{PID: cmd.Process.Pid, Parent: tt.parent}, tt.root)
			_ = cmd.Process.Signal(syscall.SIGTERM) // comes second
			_ = cmd.Wait()
			died := cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
			if died != tt.dies {
				t.Errorf("killed: %v, want %v", died, tt.dies)
			}
		})
	}
}

func TestSnapshotShowsUs(t *testing.T) {
	all, err := snapshotProctree()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(all, func(p proctreeProc) bool { return p.PID == os.Getpid() && p.Parent == os.Getppid() }) {
		t.Error("we are not in it")
	}
}

func BenchmarkSnapshot(b *testing.B) {
	for b.Loop() {
		if _, err := snapshotProctree(); err != nil {
			b.Fatal(err)
		}
	}
}
