package hostscan_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/local/hostscan"
)

// fixture starts a shell in a mount namespace in which the file and the folder in
// dir are closed for writing, and returns the process id on the host. The
// namespace shows nothing else of the host except programs, so that mounts of
// other processes, such as a container engine, cause no events in it.
func fixture(t testing.TB, dir string) (pid int) {
	t.Helper()
	bin, err := exec.LookPath("bwrap")
	if err != nil {
		testenv.Lack(t, "local", err)
	}
	cmd := exec.Command(bin, "--unshare-user", "--die-with-parent", "--ro-bind", "/usr", "/usr",
		"--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--bind", dir, dir,
		"--ro-bind", dir+"/file", dir+"/file", "--ro-bind", dir+"/folder", dir+"/folder", "sh", "-c", "echo $$; cat")
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	if _, err := fmt.Fscan(bufio.NewReader(out), &pid); err != nil {
		testenv.Lack(t, "local", err)
	}
	return pid
}

// mountwatchPlace creates the folder that a sandbox is built on.
func mountwatchPlace(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		os.Chmod(d, 0o755)
	}
	if err := os.WriteFile(dir+"/file", []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir+"/folder", 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestChanged(t *testing.T) {
	tests := []struct {
		name string
		do   func(dir string) error
		want bool
		gone string
	}{
		{"nothing", func(string) error { return nil }, false, ""},
		{"written to", func(dir string) error { return os.WriteFile(dir+"/file", []byte("new"), 0o644) }, false, ""},
		{"another file", func(dir string) error { return os.WriteFile(dir+"/other", nil, 0o644) }, false, ""},
		{"replaced", func(dir string) error {
			if err := os.WriteFile(dir+"/new", nil, 0o644); err != nil {
				return err
			}
			return os.Rename(dir+"/new", dir+"/file")
		}, true, "/file"},
		{"removed", func(dir string) error { return os.Remove(dir + "/file") }, true, "/file"},
		{"folder removed", func(dir string) error { return os.Remove(dir + "/folder") }, true, "/folder"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := mountwatchPlace(t)
			w, err := hostscan.OpenMountWatch(fixture(t, dir))
			if err != nil {
				t.Fatal(err)
			}
			before, err := w.Text()
			if err != nil || !strings.Contains(before, dir+"/file") || !strings.Contains(before, dir+"/folder") || w.Changed() {
				t.Fatalf("before anything was done: changed %v, %v\n%s", w.Changed(), err, before)
			}
			if err := tt.do(dir); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got := w.Changed(); got != tt.want {
					t.Errorf("changed %v, want %v", got, tt.want)
				}
			}
			if after, err := w.Text(); err != nil || (after != before) != tt.want || tt.gone != "" && strings.Contains(after, dir+tt.gone) {
				t.Errorf("%v; mounted now:\n%s", err, after)
			}
			if err := w.Close(); err != nil || !w.Changed() {
				t.Errorf("after Close: changed %v, %v", w.Changed(), err)
			}
		})
	}
	if _, err := hostscan.OpenMountWatch(1 << 30); err == nil {
		t.Error("no process, and it is watched")
	}
}

func BenchmarkChanged(b *testing.B) {
	w, err := hostscan.OpenMountWatch(os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	for b.Loop() {
		w.Changed()
	}
}
