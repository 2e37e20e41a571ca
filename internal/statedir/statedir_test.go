package statedir

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"golang.org/x/sys/unix"
)

// childEnv makes the test binary act as another orchestrator process: it
// opens the state folder named there and prints the instance id.
const childEnv = "STATEDIR_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		d, err := Open(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Print(d.Instance())
		os.Exit(0)
	}
	if stage := os.Getenv(killedEnv); stage != "" {
		migrateAndDie(stage, os.Getenv(killedDirEnv))
	}
	os.Exit(m.Run())
}

func open(t *testing.T) *Dir {
	t.Helper()
	d, err := Open(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestOpenMakesPrivateFolders(t *testing.T) {
	p := filepath.Join(t.TempDir(), "state")
	defer unix.Umask(unix.Umask(0))
	d, err := Open(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{d.Path(), d.Registry(), d.Locks(), d.Workspaces(), d.Guest(), d.Run(), d.Uids()} {
		fi, err := os.Lstat(p)
		if err != nil {
			t.Fatal(err)
		}
		if fi.Mode() != os.ModeDir|0o700 {
			t.Errorf("%s has mode %v, want drwx------", p, fi.Mode())
		}
	}
	if !validInstance(d.Instance()) {
		t.Errorf("instance id %q", d.Instance())
	}
	again, err := Open(d.Path())
	if err != nil || again.Instance() != d.Instance() {
		t.Errorf("second Open: id %v, error %v; want the same id", again, err)
	}
}

func TestOpenResolvesLinks(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "real")
	if err := os.Mkdir(real, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	d, err := Open(filepath.Join(dir, "link"))
	if err != nil {
		t.Fatal(err)
	}
	if want, _ := filepath.EvalSymlinks(real); d.Path() != want {
		t.Errorf("path %s, want %s", d.Path(), want)
	}
}

func TestOpenRefuses(t *testing.T) {
	tests := []struct {
		name    string
		root    bool
		prepare func(path string) error
		code    sandbox.Code
		message string
		hint    string
	}{
		{name: "group-writable", code: sandbox.CodePermissionDeny, message: "written by other users", hint: "chmod go-w",
			prepare: func(p string) error { return mkdirMode(p, 0o770) }},
		{name: "world-writable even if sticky", code: sandbox.CodePermissionDeny, message: "written by other users", hint: "chmod go-w",
			prepare: func(p string) error { return mkdirMode(p, os.ModeSticky|0o777) }},
		{name: "world-writable parent", code: sandbox.CodePermissionDeny, message: "above the state folder", hint: "chmod o-w",
			prepare: func(p string) error {
				return errors.Join(os.Mkdir(p, 0o700), os.Chmod(filepath.Dir(p), 0o777))
			}},
		{name: "somebody else's", root: true, code: sandbox.CodePermissionDeny, message: "belongs to uid 1234", hint: "run as its owner",
			prepare: func(p string) error { return errors.Join(os.Mkdir(p, 0o700), os.Chown(p, 1234, 1234)) }},
		{name: "a file", code: sandbox.CodeUnavailable, message: "cannot use", hint: "file is where a folder should be",
			prepare: func(p string) error { return os.WriteFile(p, nil, 0o600) }},
		{name: "subfolder is a link", code: sandbox.CodePermissionDeny, message: "not a folder", hint: "move it away",
			prepare: func(p string) error {
				return errors.Join(os.Mkdir(p, 0o700), os.Symlink("/tmp", filepath.Join(p, "run")))
			}},
		{name: "garbage instance", code: sandbox.CodeUnavailable, message: "does not hold an instance id", hint: "list --foreign",
			prepare: func(p string) error {
				return errors.Join(os.Mkdir(p, 0o700), os.WriteFile(filepath.Join(p, "instance"), []byte("zzz"), 0o600))
			}},
		{name: "empty instance", code: sandbox.CodeUnavailable, message: "does not hold an instance id", hint: "restore it",
			prepare: func(p string) error {
				return errors.Join(os.Mkdir(p, 0o700), os.WriteFile(filepath.Join(p, "instance"), nil, 0o600))
			}},
		{name: "instance is a fifo", code: sandbox.CodeUnavailable, message: "does not hold an instance id", hint: "restore it",
			prepare: func(p string) error {
				return errors.Join(os.Mkdir(p, 0o700), unix.Mkfifo(filepath.Join(p, "instance"), 0o600))
			}},
		{name: "instance lost, records left", code: sandbox.CodeUnavailable, message: "missing while records", hint: "write the id",
			prepare: func(p string) error {
				c := filepath.Join(p, "registry", "containers")
				return errors.Join(os.MkdirAll(c, 0o700), os.WriteFile(filepath.Join(c, "a.json"), nil, 0o600))
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.root && os.Geteuid() != 0 {
				testenv.Lack(t, "root", "the case needs it")
			}
			p := filepath.Join(t.TempDir(), "state")
			if err := tt.prepare(p); err != nil {
				t.Fatal(err)
			}
			_, err := Open(p)
			wantError(t, err, tt.code, tt.message, tt.hint)
		})
	}
}

func mkdirMode(p string, mode os.FileMode) error {
	return errors.Join(os.Mkdir(p, 0o700), os.Chmod(p, mode))
}

func wantError(t *testing.T, err error, code sandbox.Code, message, hint string) {
	t.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v (%T), want *sandbox.Error", err, err)
	}
	if e.Code != code || !strings.Contains(e.Message, message) || !strings.Contains(e.Hint, hint) {
		t.Errorf("error %v\nwant code %s, message with %q, hint with %q", e, code, message, hint)
	}
}

func TestOpenReadOnlyAndFull(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Lack(t, "root", "mounting needs it")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64k,mode=0700"); err != nil {
		testenv.Lack(t, "mount", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	p := filepath.Join(dir, "state")

	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the file system did not fill up")
	}
	_, err := Open(p)
	wantError(t, err, sandbox.CodeUnavailable, "cannot use "+dir, "full")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	d, err := Open(p)
	if err != nil {
		t.Fatalf("with room again: %v", err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if again, err := Open(p); err != nil || again.Instance() != d.Instance() {
		t.Errorf("Open of a complete read-only folder: %v, %v", again, err)
	}
	_, err = d.SocketDir("sbx-a", 1000, 1000)
	wantError(t, err, sandbox.CodeUnavailable, "cannot use", "read-only")
	_, err = Open(filepath.Join(dir, "other"))
	wantError(t, err, sandbox.CodeUnavailable, "cannot use", "read-only")
}

func TestInstanceIsOneForManyProcesses(t *testing.T) {
	p := filepath.Join(t.TempDir(), "state")
	const n = 12
	ids := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childEnv+"="+p)
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("child: %v", err)
			}
			ids[i] = string(out)
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] || !validInstance(id) {
			t.Fatalf("ids differ or are not ids: %q", ids)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(p, ".instance-*")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestDefault(t *testing.T) {
	tests := []struct{ name, explicit, xdg, home, want string }{
		{"explicit", "/x/state", "/xdg", "/home/u", "/x/state"},
		{"xdg", "", "/xdg", "/home/u", "/xdg/sandbox"},
		{"relative xdg is ignored", "", "xdg", "/home/u", "/home/u/.local/state/sandbox"},
		{"home", "", "", "/home/u", "/home/u/.local/state/sandbox"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("SANDBOX_STATE_DIR", tt.explicit)
			t.Setenv("XDG_STATE_HOME", tt.xdg)
			t.Setenv("HOME", tt.home)
			if got, err := Default(); err != nil || got != tt.want {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
	t.Run("nothing known", func(t *testing.T) {
		for _, k := range []string{"SANDBOX_STATE_DIR", "XDG_STATE_HOME", "HOME"} {
			t.Setenv(k, "")
		}
		_, err := Default()
		wantError(t, err, sandbox.CodeUnavailable, "no home folder", "--state-dir")
	})
}

func TestIdentity(t *testing.T) {
	d := open(t)
	passwd, group, err := d.Identity(1234, 5678)
	if err != nil {
		t.Fatal(err)
	}
	first, err := os.Stat(passwd)
	if err != nil {
		t.Fatal(err)
	}
	if first.Mode() != 0o644 {
		t.Errorf("mode %v, want 0644", first.Mode())
	}
	check := func() {
		t.Helper()
		for path, want := range map[string]string{
			passwd: "root:x:0:0:root:/:/usr/sbin/nologin\nsandbox:x:1234:5678:sandbox:/home/sandbox:/bin/bash\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
			group:  "root:x:0:\nsandbox:x:5678:\nnogroup:x:65534:\n",
		} {
			if got, err := os.ReadFile(path); err != nil || string(got) != want {
				t.Errorf("%s: %q, %v", path, got, err)
			}
		}
	}
	check()
	if _, _, err := d.Identity(1234, 5678); err != nil {
		t.Fatal(err)
	}
	if again, _ := os.Stat(passwd); !os.SameFile(first, again) {
		t.Error("a good file was replaced; a running container would keep the old one")
	}
	if err := os.WriteFile(passwd, []byte("evil"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Identity(1234, 5678); err != nil {
		t.Fatal(err)
	}
	check()
	for _, ids := range [][2]int{{0, 1}, {1, 0}, {-1, 1}} {
		if _, _, err := d.Identity(ids[0], ids[1]); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("ids %v: %v, want a validation error", ids, err)
		}
	}
}

func TestSocketDir(t *testing.T) {
	d := open(t)
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		uid, gid = 1879048300, 1879048300
	}
	p, err := d.SocketDir("sbx-a", uid, gid)
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	stat := func() {
		t.Helper()
		if err := unix.Lstat(p, &st); err != nil {
			t.Fatal(err)
		}
	}
	stat()
	if int(st.Uid) != uid || int(st.Gid) != gid || st.Mode&0o7777 != 0o700 || len(filepath.Base(p)) != 16 {
		t.Errorf("%s: uid %d gid %d mode %o", p, st.Uid, st.Gid, st.Mode)
	}
	if os.Geteuid() == 0 {
		if err := d.SealSocketDir("sbx-a"); err != nil {
			t.Fatal(err)
		}
		if stat(); st.Uid != 0 || st.Mode&0o7777 != 0o711 {
			t.Errorf("sealed: uid %d mode %o", st.Uid, st.Mode)
		}
		if _, err := d.SocketDir("sbx-a", uid, gid); err != nil {
			t.Fatal(err)
		}
		if stat(); int(st.Uid) != uid || st.Mode&0o7777 != 0o700 {
			t.Errorf("unsealed: uid %d mode %o", st.Uid, st.Mode)
		}
	}
	// What the sandbox leaves there is removed, and never what a link names.
	outside := filepath.Join(t.TempDir(), "keep")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink(outside, filepath.Join(p, "l")), os.Symlink(filepath.Dir(outside), filepath.Join(p, "d")),
		os.MkdirAll(filepath.Join(p, "x", "y"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.RemoveSocketDir("sbx-a"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(p); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error("removal followed a link")
	}
	// A link in its place is not taken.
	if err := os.Symlink(filepath.Dir(outside), p); err != nil {
		t.Fatal(err)
	}
	if _, err := d.SocketDir("sbx-a", uid, gid); err == nil {
		t.Error("a link was taken for the socket folder")
	}
	for _, name := range []string{"", "../x", "A", "-a", strings.Repeat("a", 64)} {
		if _, err := d.SocketDir(name, uid, gid); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("name %q: %v", name, err)
		}
	}
}
