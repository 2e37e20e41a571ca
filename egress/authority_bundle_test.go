package egress

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

func TestBundle(t *testing.T) {
	r := authorityNewRig(t)
	a := r.open(t)
	dir, err := a.Bundle()
	authorityMust(t, err)
	if dir != r.path(trustDir) {
		t.Errorf("the folder is %s", dir)
	}
	all := certificates(t, r.read(t, trustDir, bundleFile))
	if len(all) != 3 || !all[2].Equal(a.Certificate()) {
		t.Errorf("the bundle holds %d certificates, want the system's 2 and ours", len(all))
	}
	ours := certificates(t, r.read(t, trustDir, certFile))
	if len(ours) != 1 || !ours[0].Equal(a.Certificate()) {
		t.Errorf("%s holds %d certificates, want ours", certFile, len(ours))
	}
	public(t, dir)
}

// public checks that every user can read the folder, only the current one can
// write it, and that it holds no secret.
func public(t *testing.T, dir string) {
	t.Helper()
	names := []string{}
	authorityMust(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		authorityMust(t, err)
		fi, err := d.Info()
		authorityMust(t, err)
		want := fs.FileMode(0o644)
		if d.IsDir() {
			want = fs.ModeDir | 0o755
		}
		if fi.Mode() != want {
			t.Errorf("%s has mode %v", path, fi.Mode())
		}
		if d.IsDir() {
			return nil
		}
		names = append(names, d.Name())
		data, err := os.ReadFile(path)
		authorityMust(t, err)
		for _, secret := range []string{"PRIVATE KEY", "EC PARAMETERS", "secret"} {
			if strings.Contains(string(data), secret) {
				t.Errorf("%s holds %s", path, secret)
			}
		}
		return nil
	}))
	if got := strings.Join(names, " "); got != "ca-bundle.crt ca.crt wgetrc" {
		t.Errorf("the folder holds %s", got)
	}
}

// TestBundleFollows checks when the folder is rewritten, and that it is
// unchanged otherwise.
func TestBundleFollows(t *testing.T) {
	tests := []struct {
		name  string
		do    func(*testing.T, *authorityRig)
		roots int // of the system that are then in the bundle
	}{
		{"nothing", func(*testing.T, *authorityRig) {}, 2},
		{"the system has other roots", func(t *testing.T, r *authorityRig) { writeRoots(t, r.world.roots[1], 5) }, 5},
		{"the system's file was replaced", func(t *testing.T, r *authorityRig) {
			writeRoots(t, r.world.roots[1]+".new", 4)
			authorityMust(t, os.Rename(r.world.roots[1]+".new", r.world.roots[1]))
		}, 4},
		{"SSL_CERT_FILE names another file", func(t *testing.T, r *authorityRig) {
			r.env["SSL_CERT_FILE"] = filepath.Join(t.TempDir(), "mine.pem")
			writeRoots(t, r.env["SSL_CERT_FILE"], 1)
		}, 1},
		{"the bundle was changed", func(t *testing.T, r *authorityRig) {
			authorityMust(t, os.WriteFile(r.path(trustDir, bundleFile), []byte("x"), 0o644))
		}, 2},
		{"the bundle is gone", func(t *testing.T, r *authorityRig) { authorityMust(t, os.Remove(r.path(trustDir, bundleFile))) }, 2},
		{"the folder is gone", func(t *testing.T, r *authorityRig) { authorityMust(t, os.RemoveAll(r.path(trustDir))) }, 2},
		{"the mode was changed", func(t *testing.T, r *authorityRig) { authorityMust(t, os.Chmod(r.path(trustDir, certFile), 0o600)) }, 2},
		{"the authority was renewed", func(t *testing.T, r *authorityRig) { r.clock.at = r.clock.at.Add(caLife - caLeft/2) }, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := authorityNewRig(t)
			a := r.open(t)
			dir, err := a.Bundle()
			authorityMust(t, err)
			before, err := os.Stat(filepath.Join(dir, bundleFile))
			authorityMust(t, err)
			tt.do(t, r)
			_, err = a.Bundle()
			authorityMust(t, err)
			all := certificates(t, r.read(t, trustDir, bundleFile))
			if len(all) != tt.roots+1 || !all[tt.roots].Equal(a.Certificate()) {
				t.Errorf("the bundle holds %d certificates, want %d and ours", len(all), tt.roots)
			}
			public(t, dir)
			after, err := os.Stat(filepath.Join(dir, bundleFile))
			authorityMust(t, err)
			if tt.name == "nothing" && !os.SameFile(before, after) {
				t.Error("it was written again")
			}
		})
	}
}

// TestRootsWithoutKeys checks that only the certificates of a roots file
// become visible to sandboxes.
func TestRootsWithoutKeys(t *testing.T) {
	r := authorityNewRig(t)
	mixed := r.world.roots[1]
	roots, err := os.ReadFile(mixed)
	authorityMust(t, err)
	a := r.open(t)
	authorityMust(t, os.WriteFile(mixed, fmt.Appendf(nil, "# my secret notes\n%s\n%s", r.read(t, keyFile), roots), 0o600))
	dir, err := a.Bundle()
	authorityMust(t, err)
	public(t, dir)
	if n := len(certificates(t, r.read(t, trustDir, bundleFile))); n != 4 {
		t.Errorf("the bundle holds %d certificates, want the file's 3 and ours", n)
	}
}

func TestNoRoots(t *testing.T) {
	tests := []struct {
		name, text string
		do         func(*testing.T, *authorityRig)
	}{
		{"no file", "no file of root certificates", func(t *testing.T, r *authorityRig) { authorityMust(t, os.Remove(r.world.roots[1])) }},
		{"an empty file", "no file of root certificates", func(t *testing.T, r *authorityRig) { authorityMust(t, os.Truncate(r.world.roots[1], 0)) }},
		{"no certificate in it", "holds no certificate", func(t *testing.T, r *authorityRig) {
			authorityMust(t, os.WriteFile(r.world.roots[1], []byte("hello"), 0o600))
		}},
		{"SSL_CERT_FILE names nothing", "SSL_CERT_FILE names /nonexistent", func(t *testing.T, r *authorityRig) { r.env["SSL_CERT_FILE"] = "/nonexistent" }},
		{"SSL_CERT_FILE names a folder", "cannot use /etc", func(t *testing.T, r *authorityRig) { r.env["SSL_CERT_FILE"] = "/etc" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := authorityNewRig(t)
			a := r.open(t)
			tt.do(t, r)
			_, err := a.Bundle()
			if sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want %q", err, tt.text)
			}
			if _, err := os.Stat(r.path(trustDir, bundleFile)); err == nil {
				t.Error("there is a bundle all the same")
			}
		})
	}
}

func TestTrustFolderIsNoLink(t *testing.T) {
	r := authorityNewRig(t)
	a := r.open(t)
	elsewhere := t.TempDir()
	authorityMust(t, os.Symlink(elsewhere, r.path(trustDir)))
	_, err := a.Bundle()
	authorityRefused(t, err, sandbox.CodePermissionDeny, r.path(trustDir), "is a link")
	if names, _ := os.ReadDir(elsewhere); len(names) > 0 {
		t.Errorf("it wrote %v through the link", names)
	}
}
