package workspace

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"golang.org/x/sys/unix"
)

const secret = "nobody may have this"

func TestRefsThatAreRefused(t *testing.T) {
	r := newRig(t)
	outside := filepath.Join(filepath.Dir(r.folder), "secret")
	must(t, os.WriteFile(outside, []byte(secret), 0o600))
	in := func(name string) string { return filepath.Join(r.folder, name) }
	for _, err := range []error{
		os.Symlink(outside, in("link")),
		os.Symlink("ordinary", in("inner-link")),
		os.Symlink("..", in("up")),
		os.Symlink("sub", in("inner-folder-link")),
		os.Link(outside, in("hard")),
		unix.Mkfifo(in("pipe"), 0o644),
	} {
		must(t, err)
	}
	r.put(t, "ordinary", "x")
	r.put(t, "sub/file", "x")
	for _, tt := range []struct {
		ref  string
		want sandbox.Code
	}{
		{"", sandbox.CodeValidation},
		{"ordinary", sandbox.CodeValidation},
		{"../../x", sandbox.CodeValidation},
		{"-rf", sandbox.CodeValidation},
		{in("ordinary") + "\x00.jpg", sandbox.CodeValidation},
		{in(strings.Repeat("a/", 3000)), sandbox.CodeValidation},
		{"/etc/passwd", sandbox.CodeCapabilityBlocked},
		{r.folder, sandbox.CodeCapabilityBlocked},
		{r.folder + "/", sandbox.CodeCapabilityBlocked},
		{r.folder + "2/x", sandbox.CodeCapabilityBlocked},
		{r.folder + "/../secret", sandbox.CodeCapabilityBlocked},
		{r.folder + "/sub/../ordinary", sandbox.CodeCapabilityBlocked},
		{in("link"), sandbox.CodeCapabilityBlocked},
		{in("inner-link"), sandbox.CodeCapabilityBlocked},
		{in("up/secret"), sandbox.CodeCapabilityBlocked},
		{in("inner-folder-link/file"), sandbox.CodeCapabilityBlocked},
		{in("ordinary/file"), sandbox.CodeCapabilityBlocked},
		{in("hard"), sandbox.CodeCapabilityBlocked},
		{in("pipe"), sandbox.CodeCapabilityBlocked},
		{in("sub"), sandbox.CodeCapabilityBlocked},
		{in("none"), sandbox.CodeNotFound},
		{in(strings.Repeat("a", 300)), sandbox.CodeUnavailable},
		{in("a\nb"), sandbox.CodeNotFound},
	} {
		got, err := r.stage(t, tt.ref)
		wantCode(t, tt.ref, err, tt.want)
		if got != nil {
			t.Errorf("%q was staged: %+v", tt.ref, got)
		}
	}
	if names := r.inbound(t); len(names) != 0 {
		t.Errorf("left behind: %q", names)
	}
}

func TestDeviceIsRefused(t *testing.T) {
	testenv.Require(t, "root")
	r := newRig(t)
	p := filepath.Join(r.folder, "zero")
	if err := unix.Mknod(p, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil {
		testenv.Lack(t, "root", err)
	}
	_, err := r.stage(t, p)
	wantCode(t, "device", err, sandbox.CodeCapabilityBlocked)
}

func TestFoldersThatAreRefused(t *testing.T) {
	r := newRig(t)
	file := r.put(t, "file", "x")
	for name, roots := range map[string][]string{
		"none": nil, "relative": {"x"}, "root of the host": {"/"}, "a file": {file}, "NUL": {r.folder + "\x00"},
	} {
		_, err := NewFolders(roots...)
		wantCode(t, name, err, sandbox.CodeValidation)
	}
	_, err := NewFolders(r.folder + "-none")
	wantCode(t, "missing", err, sandbox.CodeNotFound)
}

func TestFolderOverALink(t *testing.T) {
	r := newRig(t)
	link := filepath.Join(filepath.Dir(r.folder), "link")
	must(t, os.Symlink(r.folder, link))
	src, err := NewFolders(link)
	must(t, err)
	r.put(t, "a", "x")
	for _, ref := range []string{link + "/a", r.folder + "/a"} {
		if _, err := r.stager.Stage(t.Context(), src, []string{ref}); err != nil {
			t.Errorf("%s: %v", ref, err)
		}
	}
}

// TestHostileWorkspace holds that what the sandbox put in the way of the
// folders is neither followed nor changed.
func TestHostileWorkspace(t *testing.T) {
	for _, place := range []string{"media", "media/inbound"} {
		for kind, put := range map[string]func(at, victim string) error{
			"a link out":     func(at, victim string) error { return os.Symlink(victim, at) },
			"a link inside":  func(at, _ string) error { return os.Symlink(".", at) },
			"a dead link":    func(at, victim string) error { return os.Symlink(victim+"/none", at) },
			"a file":         func(at, _ string) error { return os.WriteFile(at, nil, 0o644) },
			"a pipe":         func(at, _ string) error { return unix.Mkfifo(at, 0o644) },
			"a link to self": func(at, _ string) error { return os.Symlink(filepath.Base(at), at) },
		} {
			t.Run(place+" is "+kind, func(t *testing.T) {
				r := newRig(t)
				at, victim := filepath.Join(r.work, place), t.TempDir()
				must(t, os.MkdirAll(filepath.Dir(at), 0o755))
				must(t, put(at, victim))
				before, err := os.Lstat(at)
				must(t, err)
				_, err = r.stage(t, r.put(t, "a", "x"))
				wantCode(t, "Stage", err, sandbox.CodeCapabilityBlocked)
				if err != nil && strings.Contains(err.Error(), r.work) {
					t.Errorf("the message tells a path of the host: %v", err)
				}
				if after, err := os.Lstat(at); err != nil || !os.SameFile(before, after) {
					t.Errorf("it was changed: %v", err)
				}
				if left, err := os.ReadDir(victim); err != nil || len(left) != 0 {
					t.Errorf("something was put elsewhere: %v, %v", left, err)
				}
			})
		}
	}
}

// flip exchanges a and b for each other until the test ends.
func flip(t *testing.T, a, b string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
				t.Errorf("exchange: %v", err)
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// TestSourceSwapped exchanges a folder of the source for a link, and a file
// for a link and for a hard link, as fast as it goes.
func TestSourceSwapped(t *testing.T) {
	for name, prepare := range map[string]func(in func(string) string, outside string) (a, b string){
		"folder": func(in func(string) string, outside string) (string, string) {
			return in("sub"), link(t, outside, in("evil"))
		},
		"file": func(in func(string) string, outside string) (string, string) {
			return in("sub/file"), link(t, filepath.Join(outside, "file"), in("sub/evil"))
		},
		"hard link": func(in func(string) string, outside string) (string, string) {
			must(t, os.Link(filepath.Join(outside, "file"), in("sub/evil")))
			return in("sub/file"), in("sub/evil")
		},
		"pipe": func(in func(string) string, _ string) (string, string) {
			must(t, unix.Mkfifo(in("sub/evil"), 0o644))
			return in("sub/file"), in("sub/evil")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			outside := filepath.Join(filepath.Dir(r.folder), "outside")
			must(t, os.Mkdir(outside, 0o755))
			must(t, os.WriteFile(filepath.Join(outside, "file"), []byte(secret), 0o600))
			ref := r.put(t, "sub/file", strings.Repeat("x", len(secret)))
			a, b := prepare(func(s string) string { return filepath.Join(r.folder, s) }, outside)
			stop := flip(t, a, b)
			defer stop()
			staged, refused := 0, 0
			began := time.Now()
			for i := 0; i < 400 || (staged < 5 || refused < 5) && time.Since(began) < testenv.Patience; i++ {
				got, err := r.stage(t, ref)
				switch sandbox.CodeOf(err) {
				case "":
					staged++
					if data, err := os.ReadFile(r.host(t, got[0])); err != nil || strings.Contains(string(data), secret) {
						t.Fatalf("staged %q, %v", data, err)
					}
				case sandbox.CodeCapabilityBlocked, sandbox.CodeNotFound:
					refused++
				default:
					t.Fatal(err)
				}
			}
			if staged == 0 || refused == 0 {
				t.Errorf("%d times staged and %d times refused: there was no race", staged, refused)
			}
		})
	}
}

func link(t *testing.T, target, at string) string {
	t.Helper()
	must(t, os.Symlink(target, at))
	return at
}

// TestWorkspaceSwapped does the same to the folders of the workspace.
func TestWorkspaceSwapped(t *testing.T) {
	for _, place := range []string{"media", "media/inbound"} {
		t.Run(place, func(t *testing.T) {
			r := newRig(t)
			victim := filepath.Join(filepath.Dir(r.folder), "victim")
			must(t, os.MkdirAll(filepath.Join(victim, "inbound"), 0o755))
			at := filepath.Join(r.work, place)
			must(t, os.MkdirAll(filepath.Join(r.work, "media/inbound"), 0o755))
			must(t, os.Symlink(victim, at+"-evil"))
			ref := r.put(t, "file", "x")
			stop := flip(t, at, at+"-evil")
			staged, refused := 0, 0
			began := time.Now()
			for i := 0; i < 400 || (staged < 5 || refused < 5) && time.Since(began) < testenv.Patience; i++ {
				switch _, err := r.stage(t, ref); sandbox.CodeOf(err) {
				case "":
					staged++
				case sandbox.CodeCapabilityBlocked, sandbox.CodeUnavailable:
					refused++
				default:
					t.Fatal(err)
				}
			}
			stop()
			if refused == 0 {
				t.Errorf("%d times staged and never refused: there was no race", staged)
			}
			for _, dir := range []string{victim, filepath.Join(victim, "inbound")} {
				fi, err := os.Stat(dir)
				must(t, err)
				entries, err := os.ReadDir(dir)
				must(t, err)
				for _, e := range entries {
					if !e.IsDir() {
						t.Errorf("%s was put into %s", e.Name(), dir)
					}
				}
				if uid := fi.Sys().(*syscall.Stat_t).Uid; int(uid) != os.Geteuid() {
					t.Errorf("%s was given to %d", dir, uid)
				}
			}
		})
	}
}
