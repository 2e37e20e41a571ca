package hostscan_test

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/local/hostscan"
)

// guarded starts a guard for changes of the folder dir.
func guarded(t *testing.T, w *hostscan.MountWatch, dir string, look func() bool) *hostscan.Guard {
	t.Helper()
	g, err := w.Guard([]string{dir, dir + "/file", dir + "/folder", dir + "/missing"}, look)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// settled waits until the guard is idle and returns the number of calls of
// look: Guard makes one call itself, and the poller reports the new files.
func settled(t *testing.T, looks <-chan struct{}) (n int) {
	t.Helper()
	for wait := testenv.Patience; ; wait = 50 * time.Millisecond {
		select {
		case <-looks:
			n++
		case <-time.After(wait):
			return n
		}
	}
}

func TestGuard(t *testing.T) {
	tests := []struct {
		name string
		do   func(dir string) error
		want bool
	}{
		{"written to", func(dir string) error { return os.WriteFile(dir+"/file", []byte("new"), 0o644) }, false},
		{"another file", func(dir string) error { return os.Rename(dir+"/other", dir+"/new") }, false},
		{"replaced", func(dir string) error { return os.Rename(dir+"/other", dir+"/file") }, true},
		{"removed", func(dir string) error { return os.Remove(dir + "/file") }, true},
		{"renamed", func(dir string) error { return os.Rename(dir+"/file", dir+"/new") }, true},
		{"folder renamed", func(dir string) error { return os.Rename(dir+"/folder", dir+"/new") }, true},
		{"folder above renamed", func(dir string) error { return os.Rename(dir, dir+".new") }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := mountwatchPlace(t)
			if err := os.WriteFile(dir+"/other", nil, 0o644); err != nil {
				t.Fatal(err)
			}
			w, err := hostscan.OpenMountWatch(fixture(t, dir))
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			looks := make(chan struct{}, 100)
			guarded(t, w, dir, func() bool { looks <- struct{}{}; return false })
			if settled(t, looks) == 0 {
				t.Error("it has not looked by itself")
			}
			// The poller's first event for the file may be late, so only one of
			// several rounds without a change must pass without a call of look.
			quiet := false
			for range 3 {
				if err := tt.do(dir); err != nil {
					t.Fatal(err)
				}
				if tt.want {
					<-looks
					return
				}
				if err := os.WriteFile(dir+"/other", nil, 0o644); err != nil {
					t.Fatal(err)
				}
				quiet = settledNow(looks) == 0 || quiet
			}
			if !quiet {
				t.Error("it looks when nothing has happened to the mounts")
			}
		})
	}
}

// settledNow returns the number of calls of look within a moment.
func settledNow(looks <-chan struct{}) (n int) {
	for {
		select {
		case <-looks:
			n++
		case <-time.After(50 * time.Millisecond):
			return n
		}
	}
}

// TestGuardAndWatchBothSee verifies that a guard and a caller of Changed do not
// take events away from each other, even if there are many.
func TestGuardAndWatchBothSee(t *testing.T) {
	dir := mountwatchPlace(t)
	w, err := hostscan.OpenMountWatch(fixture(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	looks := make(chan struct{}, 100)
	guarded(t, w, dir, func() bool { looks <- struct{}{}; return false })
	settled(t, looks)
	if err := os.Remove(dir + "/file"); err != nil {
		t.Fatal(err)
	}
	if !w.Changed() {
		t.Error("who asks is told nothing")
	}
	<-looks
	if err := os.Remove(dir + "/folder"); err != nil {
		t.Fatal(err)
	}
	<-looks
}

func TestGuardEnds(t *testing.T) {
	before := goleak.IgnoreCurrent()
	dir := mountwatchPlace(t)
	w, err := hostscan.OpenMountWatch(fixture(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	looked := make(chan struct{}, 100)
	g := guarded(t, w, dir, func() bool { looked <- struct{}{}; return true })
	<-looked
	if err := os.Remove(dir + "/file"); err != nil {
		t.Fatal(err)
	}
	if n := settledNow(looked); n > 0 {
		t.Errorf("it has looked %d times more than enough", n)
	}
	g.Close()
	g.Close()
	w.Close()
	testenv.None(t, before)
	if g, err := w.Guard(nil, func() bool { return true }); err == nil {
		g.Close()
		t.Error("a watch that was closed has a guard")
	}
}

// TestGuardOfTheEnded verifies that Guard returns os.ErrProcessDone, and not
// another error, if the process has ended.
func TestGuardOfTheEnded(t *testing.T) {
	pid := fixture(t, mountwatchPlace(t))
	w, err := hostscan.OpenMountWatch(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "the process ends", func() bool {
		_, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
		return err != nil
	})
	if g, err := w.Guard(nil, func() bool { return true }); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("%v, %v", g, err)
	}
	if text, err := w.Text(); err != nil || text == "" {
		t.Errorf("its mounts cannot be read any more: %q, %v", text, err)
	}
}
