//go:build linux && !sandbox_front && !sandbox_engine

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// A debian is the root of a new Debian 12 with systemd's programs, none of which
// runs.
type debian struct {
	t   *testing.T
	dir string
}

func newDebian(t *testing.T) debian {
	t.Helper()
	testenv.Require(t, "root")
	d := debian{t, filepath.Join(t.TempDir(), "root")}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "mmdebstrap", "--quiet", "--variant=minbase", "--include=systemd", "--skip=cleanup/apt/lists", "bookworm", d.dir).CombinedOutput()
	if err != nil {
		t.Fatalf("mmdebstrap: %v\n%s", err, out)
	}
	return d
}

// inRoot runs a program with the root $0, in mount and process namespaces of its
// own. It does not use chroot, after which the kernel makes no user namespaces.
const inRoot = `set -e
mount --bind "$0" "$0"
cd "$0"
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs run run
mount --bind /etc/resolv.conf etc/resolv.conf
pivot_root . mnt
cd /
umount -l /mnt
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive sh -ec "$1"`

// run runs a script as root in d, and returns what it has printed. The script has
// to succeed.
func (d debian) run(script string) string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 10*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", inRoot, d.dir, script).CombinedOutput()
	if err != nil {
		d.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// files returns the names of all files of d, apart from those that a system writes
// when any package is installed.
func (d debian) files() map[string]bool {
	d.t.Helper()
	out := map[string]bool{}
	for name := range strings.Lines(d.run("find / -xdev -not -path '/var/cache/*' -not -path '/var/lib/apt/*' -not -path '/var/lib/dpkg/*' -not -path '/var/log/*' -not -path '/tmp/*' -not -path '/etc/*-'")) {
		out[strings.TrimSpace(name)] = true
	}
	return out
}

// TestDist holds that the package works on a fresh Debian for an ordinary user
// without a Docker engine, and that nothing but state is left when it goes.
func TestDist(t *testing.T) {
	deb := testenv.Deb(t)
	d := newDebian(t)
	d.run("useradd --create-home user; apt-get -qq install --yes bubblewrap ca-certificates >/dev/null")
	before := d.files()
	data, err := os.ReadFile(deb)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.dir, "tmp/sandbox.deb"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	d.run("apt-get -qq install --yes --no-install-recommends /tmp/sandbox.deb >/dev/null")

	const user = "runuser -u user -- env HOME=/home/user "
	for _, tt := range []struct{ name, script, want string }{
		{"the main job", user + `sandbox run -- sh -c 'id -un; pwd; echo kept >file'`, "sandbox\n/workspace\n"},
		{"the workspace stays", user + `sandbox run -- cat file`, "kept\n"},
		{"the host's files are out of reach", user + `sandbox run -- sh -c 'ls /home/user /root 2>&1 | grep -c . || true; echo x 2>/dev/null >/etc/x || echo refused' 2>/dev/null`, "2\nrefused\n"},
		{"the user of the service", "id -un sandboxd; stat -c %U /run/sandboxd 2>/dev/null || systemd-tmpfiles --create sandbox.conf; stat -c '%U %a' /run/sandboxd", "sandboxd\nsandboxd 755\n"},
		{"the units", "systemd-analyze verify --man=no sandboxd.service sandboxd.socket 2>&1 | grep -i sandboxd || true", ""},
		{"a manual page for each command", "ls /usr/share/man/man1 | grep -cE '^sandbox-(run|exec|serve|prune)[.]1[.]gz$'", "4\n"},
		{"completion", "bash -c '. /usr/share/bash-completion/completions/sandbox; COMP_WORDS=(sandbox ver); COMP_CWORD=1; _sandbox; echo $COMPREPLY'", "version\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := debian{t, d.dir}
			if got := d.run(tt.script); got != tt.want {
				t.Errorf("%s\nprints %q, want %q", tt.script, got, tt.want)
			}
		})
	}

	d.run(user + "sandbox prune --all --workspaces --force >/dev/null 2>&1 || true; apt-get -qq purge --yes sandbox >/dev/null")
	for name := range d.files() {
		if !before[name] && !strings.HasPrefix(name, "/home/user/.local") && name != "/var/lib/sandboxd" {
			t.Errorf("%s is left", name)
		}
	}
}

// TestDistIsReproducible holds that two builds in different folders make the same
// files.
func TestDistIsReproducible(t *testing.T) {
	testenv.Require(t, "dist")
	testenv.Exhaustive(t, "a build of all packages, twice")
	var sums [2]string
	for i := range sums {
		dir := t.TempDir()
		tree, out := filepath.Join(dir, "tree"), filepath.Join(dir, "out")
		for _, args := range [][]string{{"git", "clone", "--quiet", "../..", tree}, {filepath.Join(tree, "scripts/dist.sh"), out}} {
			if got, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", args, err, got)
			}
		}
		sum, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = string(sum)
	}
	if sums[0] != sums[1] {
		t.Errorf("the files differ:\n%s\n%s", sums[0], sums[1])
	}
}
