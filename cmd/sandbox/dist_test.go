//go:build linux && !sandbox_front && !sandbox_engine

package main

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
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

	for _, tt := range []struct{ name, script, want string }{
		{"the main job", asUser + `sandbox run -- sh -c 'id -un; pwd; echo kept >file'`, "sandbox\n/workspace\n"},
		{"the workspace stays", asUser + `sandbox run -- cat file`, "kept\n"},
		{"the host's files are out of reach", asUser + `sandbox run -- sh -c 'ls /home/user /root 2>&1 | grep -c . || true; echo x 2>/dev/null >/etc/x || echo refused' 2>/dev/null`, "2\nrefused\n"},
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

	// The same package over itself, as an upgrade does it: the state of the user stays.
	d.run("sed -i s/auto/local/ /etc/sandbox/sandbox.json; dpkg --install /tmp/sandbox.deb >/dev/null")
	if got := d.run("grep -c local /etc/sandbox/sandbox.json; " + asUser + "sandbox run -- cat file"); got != "1\nkept\n" {
		t.Errorf("after an upgrade there is %q", got)
	}
	// What is removed leaves settings and state, and what is purged leaves state.
	d.run("apt-get -qq remove --yes sandbox >/dev/null")
	if got := d.run("ls /etc/sandbox /home/user/.local/state/sandbox/workspaces; ls -d /usr/lib/sandbox /usr/bin/sandbox 2>/dev/null || true"); !strings.Contains(got, "sandbox.json\n") || !strings.Contains(got, "sbx-default-") || strings.Contains(got, "/usr/") {
		t.Errorf("after apt-get remove there is %q", got)
	}
	d.run("apt-get -qq purge --yes sandbox >/dev/null")
	d.checkLeft(before)

	// The rpm has the same files. Its scripts find in this root what they find in one of Fedora.
	t.Run("rpm", func(t *testing.T) {
		rpm := testenv.Dist(t, "sandbox-*.x86_64.rpm")
		if runtime.GOARCH == "arm64" {
			rpm = testenv.Dist(t, "sandbox-*.aarch64.rpm")
		}
		d := debian{t, d.dir}
		d.run("apt-get -qq install --yes --no-install-recommends rpm >/dev/null")
		before := d.files()
		data, err := os.ReadFile(rpm)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d.dir, "tmp/sandbox.rpm"), data, 0o644); err != nil {
			t.Fatal(err)
		}
		needs := d.run("rpm -qp --requires /tmp/sandbox.rpm 2>/dev/null")
		for _, want := range []string{"bubblewrap\n", "ca-certificates\n"} {
			if !strings.Contains(needs, want) {
				t.Errorf("the rpm requires %q, and not %q", needs, want)
			}
		}
		d.run("rpm --dbpath /tmp/rpmdb --install --nodeps /tmp/sandbox.rpm") // Debian's packages are not in rpm's database
		if got := d.run("rpm --dbpath /tmp/rpmdb --verify --nodeps sandbox"); got != "" {
			t.Errorf("rpm --verify says %s", got)
		}
		if got := d.run(asUser + "sandbox run -- cat file; id -un sandboxd; stat -c '%U %a' /run/sandboxd 2>/dev/null || true"); !strings.HasPrefix(got, "kept\nsandboxd\n") {
			t.Errorf("with the rpm, the main job prints %q", got)
		}
		d.run("rpm --dbpath /tmp/rpmdb --erase sandbox")
		// These folders belong to the package "filesystem" of Fedora, and are not in this root.
		for name := range d.files() {
			if slices.Contains([]string{
				"/usr/share/zsh", "/usr/share/zsh/site-functions", "/usr/share/fish", "/usr/share/fish/vendor_completions.d",
				"/usr/share/bash-completion", "/usr/share/bash-completion/completions",
			}, name) {
				before[name] = true
			}
		}
		d.checkLeft(before)
	})
}

// asUser begins a line that an ordinary user of d runs.
const asUser = "runuser -u user -- env HOME=/home/user "

// checkLeft fails the test for files that were not there before and are no state.
func (d debian) checkLeft(before map[string]bool) {
	d.t.Helper()
	for name := range d.files() {
		if !before[name] && !strings.HasPrefix(name, "/home/user/.local") && name != "/var/lib/sandboxd" {
			d.t.Errorf("%s is left", name)
		}
	}
}

// TestDistOtherMachine holds that the packages for arm64 and amd64 hold static programs
// for that machine, which run.
func TestDistOtherMachine(t *testing.T) {
	for arch, want := range map[string]struct {
		machine  elf.Machine
		rpm, emu string
	}{"amd64": {elf.EM_X86_64, "x86_64", "qemu-x86_64-static"}, "arm64": {elf.EM_AARCH64, "aarch64", "qemu-aarch64-static"}} {
		t.Run(arch, func(t *testing.T) {
			dir := t.TempDir()
			deb := testenv.Dist(t, "sandbox_*_"+arch+".deb")
			for _, script := range []string{
				`test "$(dpkg-deb --field "$0" Architecture)" = ` + arch + ` && dpkg-deb --extract "$0" "$1"`,
			} {
				if out, err := exec.CommandContext(t.Context(), "sh", "-ec", script, deb, dir).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", script, err, out)
				}
			}
			programs, err := filepath.Glob(filepath.Join(dir, "usr/lib/sandbox/*"))
			if err != nil || len(programs) != 5 {
				t.Fatalf("the package has %q, %v", programs, err)
			}
			for _, p := range programs {
				f, err := elf.Open(p)
				if err != nil {
					t.Fatal(err)
				}
				libraries, err := f.ImportedLibraries()
				if f.Machine != want.machine || len(libraries) != 0 || err != nil && !errors.Is(err, elf.ErrNoSymbols) {
					t.Errorf("%s is for %v and needs %q, %v", p, f.Machine, libraries, err)
				}
				f.Close()
			}
			rpm := testenv.Dist(t, "sandbox-*."+want.rpm+".rpm")
			if out, err := exec.CommandContext(t.Context(), "rpm", "-qp", "--queryformat", "%{NAME} %{ARCH} %{LICENSE}", rpm).Output(); err != nil || string(out) != "sandbox "+want.rpm+" Apache-2.0" {
				t.Errorf("the rpm says it is %q, %v", out, err)
			}
			run := []string{filepath.Join(dir, "usr/lib/sandbox/sandbox-engine"), "version"}
			if arch != runtime.GOARCH {
				run = append([]string{want.emu}, run...)
			}
			out, err := exec.CommandContext(t.Context(), run[0], run[1:]...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "linux/"+arch) {
				t.Errorf("%q prints %s, %v", run, out, err)
			}
		})
	}
}

// TestDistFormula holds that the formula for Homebrew is Ruby, and that it names the
// archive of the sources that lies beside it.
func TestDistFormula(t *testing.T) {
	formula, archive := testenv.Dist(t, "sandbox.rb"), testenv.Dist(t, "sandbox-*.tar.gz")
	data, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	// The methods of a formula, as far as this one uses them.
	const brew = `
class Formula
  def self.test = nil
  def self.method_missing(name, *args) = (name == :test ? nil : puts("#{name} #{args.first.is_a?(Hash) ? args.first.to_a.flatten.join(" ") : args.first}"))
end
load ARGV[0]
puts Sandbox.instance_methods(false).inspect`
	out, err := exec.CommandContext(t.Context(), "ruby", "-w", "-e", brew, formula).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(archive), "sandbox-"), ".tar.gz")
	for _, want := range []string{
		"url https://github.com/bulkhead-dev/sandbox/releases/download/v" + version + "/" + filepath.Base(archive) + "\n",
		"sha256 " + fmt.Sprintf("%x", sha256.Sum256(data)) + "\n", "license Apache-2.0\n", "depends_on go build\n", "[:install]",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the formula has no %q:\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "@") {
		t.Errorf("something was not put in:\n%s", out)
	}
	names, err := exec.CommandContext(t.Context(), "tar", "-tzf", archive, "--wildcards", "*/Makefile", "*/go.mod", "*/cmd/sandbox/main.go").Output()
	if err != nil || !strings.Contains(string(names), "sandbox-"+version+"/Makefile\n") {
		t.Errorf("the archive has %s, %v", names, err)
	}
}

// TestDistSums holds that SHA256SUMS is right and names every other file.
func TestDistSums(t *testing.T) {
	sums := testenv.Dist(t, "SHA256SUMS")
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	check.Dir = filepath.Dir(sums)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	text, err := os.ReadFile(sums)
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(check.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() != "SHA256SUMS" && !strings.Contains(string(text), "  "+f.Name()+"\n") {
			t.Errorf("SHA256SUMS leaves out %s", f.Name())
		}
	}
}

// TestDistImage holds what the image of the daemon is made of: its one program, with the
// entry point and the user that Dockerfile.daemon gives it.
func TestDistImage(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		file := testenv.Dist(t, "sandboxd_*_linux_"+arch+".oci.tar")
		out, err := exec.CommandContext(t.Context(), "skopeo", "inspect", "--config", "--raw", "--override-arch", arch, "oci-archive:"+file).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var image struct {
			Architecture, OS string
			Config           struct {
				User       string
				Entrypoint []string
			}
		}
		if err := json.Unmarshal(out, &image); err != nil || image.Architecture != arch || image.OS != "linux" || len(image.Config.Entrypoint) == 0 || image.Config.User == "" || image.Config.User == "0" {
			t.Errorf("the image for %s is %+v, %v", arch, image, err)
		}
	}
}

// TestDistImages holds that an archive of "make dist-images" can be loaded into an engine
// and that what is loaded is the image, and runs.
func TestDistImages(t *testing.T) {
	testenv.Require(t, "dist")
	testenv.Require(t, "docker")
	out := t.TempDir()
	const again = "sandbox-test-dist:loaded"
	t.Cleanup(func() { _ = exec.Command("docker", "image", "rm", again).Run() })
	for _, args := range [][]string{
		{"../../scripts/dist-images.sh", out, "sandbox"},
		{"sh", "-ec", `cd "$0" && sha256sum --check --strict --quiet SHA256SUMS`, out},
		{"skopeo", "copy", "--quiet", "oci-archive:" + filepath.Join(out, "sandbox-bookworm-slim.oci.tar"), "docker-daemon:" + again},
		{"docker", "run", "--rm", "--network", "none", again, "python3", "-c", "print(6 * 7)"},
	} {
		got, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, got)
		}
		if args[0] == "docker" && string(got) != "42\n" {
			t.Errorf("%q prints %q", args, got)
		}
	}
	var layers [2]string
	for i, image := range []string{dockertest.Image, again} {
		got, err := exec.CommandContext(t.Context(), "docker", "image", "inspect", "--format", "{{json .RootFS}} {{json .Config.User}} {{json .Config.Env}}", image).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, got)
		}
		layers[i] = string(got)
	}
	if layers[0] != layers[1] {
		t.Errorf("the image has changed on its way:\n%s%s", layers[0], layers[1])
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
