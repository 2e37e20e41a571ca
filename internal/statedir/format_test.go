package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// killedEnv makes the test binary migrate the folder in killedDirEnv and kill itself
// at that stage.
const (
	killedEnv    = "STATEDIR_TEST_KILLED"
	killedDirEnv = "STATEDIR_TEST_KILLED_DIR"
)

// firstState makes a state folder of format 1 and returns its path.
func firstState(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	for name, text := range map[string]string{
		"instance":                         "0123456789abcdef\n",
		"registry/containers/sbx-a.json":   `{"format":1,"name":"sbx-a"}`,
		"registry/specs/sbx-a.json":        `{"format":1}`,
		"workspaces/sbx-a/file":            "work",
		".instance-123":                    "unfinished",
		"registry/containers/.sbx-b.json4": "unfinished",
	} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// tree returns the files below dir with their contents and modes, without the lock of
// the format.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == filepath.Join(dir, formatLock) {
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		text := fi.Mode().String()
		if fi.Mode().IsRegular() {
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			text += " " + string(data)
		}
		out[strings.TrimPrefix(p, dir)] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func same(a, b map[string]string) error {
	for name, text := range a {
		if have, ok := b[name]; !ok || have != text {
			return fmt.Errorf("%s is %q, was %q", name, have, text)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			return fmt.Errorf("%s is new", name)
		}
	}
	return nil
}

func wantFormat(t *testing.T, dir string, want int) {
	t.Helper()
	l, err := ReadLayout(dir)
	if err != nil || l.Format != want {
		t.Fatalf("the format is %+v, %v; want %d", l, err, want)
	}
}

func TestFormatOfNewFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	wantFormat(t, dir, 0)
	if _, err := Open(dir); err != nil {
		t.Fatal(err)
	}
	wantFormat(t, dir, Format)
	if l, _ := ReadLayout(dir); l.Version != version() {
		t.Errorf("the folder names the version %q, want %q", l.Version, version())
	}
	if _, err := os.Lstat(backupOf(dir, 1)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a new folder has a backup: %v", err)
	}
	was := tree(t, dir)
	if _, err := Open(dir); err != nil {
		t.Fatal(err)
	}
	if err := same(was, tree(t, dir)); err != nil {
		t.Errorf("opening it again changes the folder: %v", err)
	}
}

func TestFormatTakesOverTheFirst(t *testing.T) {
	dir := firstState(t)
	wantFormat(t, dir, 1)
	was := tree(t, dir)
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d.Instance() != "0123456789abcdef" {
		t.Errorf("the instance is %s", d.Instance())
	}
	wantFormat(t, dir, Format)
	have := tree(t, dir)
	for name, text := range was {
		if have[name] != text && name != "" && name != "/.instance-123" {
			t.Errorf("%s is %q, was %q", name, have[name], text)
		}
	}
	if text, ok := have["/.instance-123"]; ok {
		t.Errorf("an unfinished instance id is left: %s", text)
	}
	for _, name := range []string{"/instance", "/registry/containers/sbx-a.json", "/registry/specs/sbx-a.json"} {
		if saved := have["/backup-format-1"+name]; saved != was[name] {
			t.Errorf("the backup of %s is %q, want %q", name, saved, was[name])
		}
	}
	if mode := have["/backup-format-1"]; mode != "drwx------" {
		t.Errorf("the backup has the mode %s", mode)
	}
}

func TestFormatRefusesNewer(t *testing.T) {
	dir := firstState(t)
	if err := os.WriteFile(filepath.Join(dir, formatFile), []byte(`{"format":7,"version":"v9.1.0","later":[1]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	was := tree(t, dir)
	_, err := Open(dir)
	if sandbox.CodeOf(err) != sandbox.CodeUnsupported {
		t.Fatalf("Open returns %v, want %s", err, sandbox.CodeUnsupported)
	}
	for _, part := range []string{dir, "format 7", `"v9.1.0"`, fmt.Sprintf("up to %d", Format), "--state-dir", "docs/upgrades.md"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error leaves out %q: %v", part, err)
		}
	}
	if err := same(was, tree(t, dir)); err != nil {
		t.Errorf("the folder was changed: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, formatLock)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a lock was made in it: %v", err)
	}
}

func TestFormatRefusesGarbage(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "text": "two", "null": "null", "zero": `{"format":0}`, "negative": `{"format":-1}`, "number": "2", "fraction": `{"format":1.5}`,
		"string": `{"format":"2"}`, "cut": `{"format":2`, "large": `{"format":2,"x":"` + strings.Repeat("x", maxFormat) + `"}`, "overflow": `{"format":99999999999999999999}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := firstState(t)
			if err := os.WriteFile(filepath.Join(dir, formatFile), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			was := tree(t, dir)
			if _, err := Open(dir); sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(err.Error(), formatFile) {
				t.Errorf("Open returns %v", err)
			}
			if err := same(was, tree(t, dir)); err != nil {
				t.Errorf("the folder was changed: %v", err)
			}
		})
	}
	for name, make := range map[string]func(string) error{
		"link":   func(p string) error { return os.Symlink("/etc/passwd", p) },
		"folder": func(p string) error { return os.Mkdir(p, 0o700) },
		"fifo":   func(p string) error { return syscall.Mkfifo(p, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := firstState(t)
			if err := make(filepath.Join(dir, formatFile)); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(dir); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
				t.Errorf("Open returns %v", err)
			}
		})
	}
}

// halves are formats whose steps change a file in two halves and call at between them.
func halves(at func(stage string)) formats {
	f := formats{knows: 4, users: 10 * time.Second, other: 10 * time.Second}
	for to := 2; to <= 4; to++ {
		f.steps = append(f.steps, migration{to: to, saves: []string{"instance", "registry"}, run: func(dir string) error {
			at(fmt.Sprintf("begin %d", to))
			for _, half := range []string{"containers/first", "containers/second"} {
				p := filepath.Join(dir, registryDir, half)
				if err := os.WriteFile(p, []byte(fmt.Sprint(to)), 0o600); err != nil {
					return err
				}
				at(fmt.Sprintf("%s %d", half, to))
			}
			return nil
		}})
	}
	return f
}

func migrateAndDie(stage, dir string) {
	_, err := halves(func(s string) {
		if s == stage {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}).settle(dir)
	fmt.Fprintln(os.Stderr, "not killed:", err)
	os.Exit(1)
}

// TestFormatKilled holds that a migration that is killed anywhere runs again, and
// that the backup is of what there was before it.
func TestFormatKilled(t *testing.T) {
	for _, stage := range []string{"begin 2", "containers/first 2", "containers/second 2", "begin 3", "containers/first 3", "containers/second 4"} {
		t.Run(stage, func(t *testing.T) {
			dir := firstState(t)
			was := tree(t, dir)
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), killedEnv+"="+stage, killedDirEnv+"="+dir)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the migration ended with %v: %s", err, out)
			}
			if l, err := ReadLayout(dir); err != nil || l.Format >= 4 {
				t.Fatalf("the format is %+v, %v", l, err)
			}
			// What a killed backup leaves is in the way of none.
			if err := os.MkdirAll(backupOf(dir, 3)+".new/registry", 0o700); err != nil {
				t.Fatal(err)
			}
			ran := 0
			lock, err := halves(func(string) { ran++ }).settle(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
			if ran == 0 {
				t.Error("nothing ran again")
			}
			wantFormat(t, dir, 4)
			have := tree(t, dir)
			for _, half := range []string{"first", "second"} {
				if text := have["/registry/containers/"+half]; text != "-rw------- 4" {
					t.Errorf("%s is %q", half, text)
				}
				if text, ok := have["/backup-format-1/registry/containers/"+half]; ok {
					t.Errorf("the backup of format 1 has %s: %q", half, text)
				}
				if text := have["/backup-format-3/registry/containers/"+half]; text != "-rw------- 3" {
					t.Errorf("the backup of format 3 has for %s %q", half, text)
				}
			}
			if have["/backup-format-1/instance"] != was["/instance"] {
				t.Errorf("the backup of the instance id is %q", have["/backup-format-1/instance"])
			}
			for name := range have {
				if strings.Contains(name, ".new") {
					t.Errorf("%s is left", name)
				}
			}
		})
	}
}

// TestFormatMigratesOnce holds that of many that open a folder at once one migrates it.
func TestFormatMigratesOnce(t *testing.T) {
	dir := firstState(t)
	var begun atomic.Int32
	f := halves(func(stage string) {
		if strings.HasPrefix(stage, "begin") {
			begun.Add(1)
		}
	})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			lock, err := f.settle(dir)
			if err != nil {
				t.Error(err)
				return
			}
			lock.Close()
		})
	}
	wg.Wait()
	if n := begun.Load(); n != 3 {
		t.Errorf("%d steps ran, want 3", n)
	}
	wantFormat(t, dir, 4)
}

// TestFormatWaitsForUsers holds that a folder which a program uses is not migrated
// under it.
func TestFormatWaitsForUsers(t *testing.T) {
	dir := firstState(t)
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	f := halves(func(string) {})
	f.users = 0
	_, err = f.settle(dir)
	if sandbox.CodeOf(err) != sandbox.CodeBusy || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "format 2") || !strings.Contains(err.Error(), "sandbox serve") {
		t.Errorf("with a user, settle returns %v", err)
	}
	wantFormat(t, dir, Format)
	if d.format == nil {
		t.Fatal("the folder that is open holds no lock")
	}
	d.format.Close()
	lock, err := f.settle(dir)
	if err != nil {
		t.Fatal(err)
	}
	lock.Close()
	wantFormat(t, dir, 4)
	if _, err := Open(dir); sandbox.CodeOf(err) != sandbox.CodeUnsupported {
		t.Errorf("Open of a folder that was migrated further returns %v", err)
	}
}

// TestFormatStepFails holds that a step that fails leaves the format, and that the
// format before the step that failed is kept.
func TestFormatStepFails(t *testing.T) {
	dir := firstState(t)
	f := halves(func(string) {})
	broken := errors.New("broken")
	f.steps[1].run = func(string) error { return broken }
	if _, err := f.settle(dir); !errors.Is(err, broken) || !strings.Contains(err.Error(), dir) {
		t.Errorf("settle returns %v", err)
	}
	wantFormat(t, dir, 2)
}

// TestFormatReadOnly holds that a folder of our format can be listed on a file system
// that is read-only, and that one of a lower format says what to do.
func TestFormatReadOnly(t *testing.T) {
	for name, prepare := range map[string]func(string) error{
		"":          func(dir string) error { _, err := Open(dir); return err },
		"read-only": func(string) error { return nil },
	} {
		dir := firstState(t)
		if err := prepare(dir); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount(dir, dir, "", syscall.MS_BIND, ""); err != nil {
			testenv.Lack(t, "mount", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
		if err := syscall.Mount("", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
		_, err := Open(dir)
		switch {
		case name == "" && err != nil:
			t.Errorf("a migrated folder that is read-only: %v", err)
		case name != "" && (sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(err.Error(), name)):
			t.Errorf("a folder of format 1 that is read-only: %v", err)
		}
	}
}
