package hostscan

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"golang.org/x/sys/unix"
)

// has verifies that all of want are among the denies.
func (r protectRig) has(q ProtectRequest, want ...string) {
	r.t.Helper()
	lines := r.lines(r.rules(q).Denies)
	for _, w := range want {
		if !slices.Contains(lines, w) {
			r.t.Errorf("%q is not among\n\t%s", w, strings.Join(lines, "\n\t"))
		}
	}
}

// commit commits in own on the host, as a person does whose hooks run.
func (r protectRig) commit() {
	r.t.Helper()
	r.write("own/new", "x")
	r.git("own", "-c", "safe.directory=*", "add", "new")
	r.git("own", "-c", "safe.directory=*", "commit", "-qm", "by a person")
	if r.there("ran") || r.there("own/ran") { // git runs hooks at the top of the work tree
		r.t.Error("git on the host ran what was made inside")
	}
}

// plants creates a hook in the folder dir of own, in every possible way.
func (w fixture) plants(dir string) {
	w.t.Helper()
	for _, script := range []string{"", "rm -rf " + dir + "; ", "mv " + dir + " away; ", "mv ${D%/*} away; "} {
		out, err := w.run("D=" + dir + "; set +e; " + script + "mkdir -p $D; printf '#!/bin/sh\\ntouch ran\\n' > $D/pre-commit && chmod +x $D/pre-commit")
		if err == nil {
			w.t.Errorf("%sa hook is planted in %s\n%s", script, dir, out)
		}
	}
}

// TestHooksOfWorktree verifies that hooks which the configuration places in the
// work tree are closed in a worktree too.
func TestHooksOfWorktree(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		testenv.Lack(t, "local", err)
	}
	r, q := worktree(t)
	r.git("main", "config", "core.hooksPath", ".husky/_")
	r.has(q, "own/.husky/_ keep dir")
	r.has(ProtectRequest{Writable: []string{r.at("main")}}, "main/.husky/_ keep dir")
	r.has(ProtectRequest{Writable: []string{r.at("own")}, Found: q.Found}, "own/.husky/_ keep dir")
	r.write("main/.git/worktrees/own/HEAD", "damaged from inside")
	r.has(q, "own/.husky/_ keep dir")
	r.write("main/.git/worktrees/own/HEAD", "ref: refs/heads/topic\n")
	r.give()
	w := r.raise(r.placeholders())
	w.plants(".husky/_")
	if out, err := w.run("echo x >> file && git commit -qam inside"); err != nil {
		t.Errorf("commit: %v\n%s", err, out)
	}
	r.must(w.held.Release())
	r.commit()
}

// TestConfigurationOfWorktree verifies the same for the configuration of a
// single worktree.
func TestConfigurationOfWorktree(t *testing.T) {
	r, q := worktree(t)
	r.git("main", "config", "extensions.worktreeConfig", "true")
	r.git("own", "config", "--worktree", "core.hooksPath", "tools/hooks")
	r.git("own", "config", "--worktree", "include.path", r.at("own/more"))
	r.write("own/more", "[include]\npath = deeper\n")
	r.has(q, "own/tools/hooks keep dir", "own/more keep", "own/deeper keep", "main/.git/worktrees/own/config.worktree keep")
}

// TestHooksOfOuterRepository verifies the same if the folder is part of a
// repository, or of a worktree, that keeps its hooks there.
func TestHooksOfOuterRepository(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		testenv.Lack(t, "local", err)
	}
	r := protectNewRig(t)
	r.repo(".")
	r.git(".", "config", "core.hooksPath", "own/.husky/_")
	r.git(".", "config", "include.path", "../own/more")
	r.dir("own")
	r.give()
	w := r.raise(r.placeholders())
	w.plants(".husky/_")
	if out, err := w.run("echo x > more"); err == nil {
		t.Errorf("configuration is planted\n%s", out)
	}
	r.must(w.held.Release())
	r.commit()
	r.git(".", "worktree", "add", "-q", "-b", "topic", r.at("beside"))
	r.dir("beside/own")
	r.has(ProtectRequest{Own: r.at("beside/own")}, "beside/own/.husky/_ keep dir")
	if got := r.rules(ProtectRequest{Own: r.at("beside/own")}); len(got.Views) != 0 {
		t.Errorf("opened: %q", r.views(got.Views))
	}
}

// TestHooksInTheOpen verifies that a note reports hooks that cannot be closed.
func TestHooksInTheOpen(t *testing.T) {
	r := protectNewRig(t)
	r.repo("own")
	r.git("own", "config", "core.hooksPath", ".")
	if notes := r.rules(ProtectRequest{Own: r.at("own")}).Notes; len(notes) != 1 || !strings.Contains(notes[0], "core.hooksPath") {
		t.Errorf("notes %q", notes)
	}
}

// TestSubmodulesOfWorktree verifies that the git folders of submodules beside
// the worktree are closed, and that git works in the submodules.
func TestSubmodulesOfWorktree(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		testenv.Lack(t, "local", err)
	}
	r := protectNewRig(t)
	r.repo("main")
	r.repo("lib")
	r.git("main", "submodule", "--quiet", "add", r.at("lib"), "vendor/lib")
	r.git("main", "commit", "-qm", "lib")
	r.git("main", "worktree", "add", "-q", "-b", "topic", r.at("own"))
	r.git("own", "submodule", "--quiet", "update", "--init")
	const module = "main/.git/worktrees/own/modules/vendor/lib"
	r.give()
	w := r.raise(r.placeholders())
	at := r.at(module)
	for _, script := range []string{
		"printf '[core]\\nfsmonitor = touch ran' >> " + at + "/config", "echo x > " + at + "/hooks/pre-commit", "mv " + at + "/hooks " + at + "/h",
		"mv " + at + "/../.. " + at + "/../../../m", "cd vendor/lib && git config core.fsmonitor x", "echo x > " + at + "/commondir", "rm vendor/lib/.git",
	} {
		if out, err := w.run(script); err == nil {
			t.Errorf("%s: done\n%s", script, out)
		}
	}
	if out, err := w.run("cd vendor/lib && echo x >> file && git commit -qam inside && cd ../.. && git commit -qam both && git status --short"); err != nil || out != "" {
		t.Errorf("work in the submodule: %v\n%s", err, out)
	}
	r.must(w.held.Release())
	r.git("main", "-c", "safe.directory=*", "worktree", "add", "-q", "-b", "aside", r.at("aside")) // sorts first
	r.has(ProtectRequest{Own: r.at("own"), Writable: []string{r.at("aside")}, Found: []string{r.at("aside/.git"), r.at("own/.git")}}, module+"/hooks keep dir")
	r.has(ProtectRequest{Own: r.at("main")}, module+"/hooks keep dir", module+"/config keep") // from the main repository
	r.must(os.RemoveAll(r.at("main/.git/worktrees/own/modules/vendor")))
	r.link(r.at("lib"), "main/.git/worktrees/own/modules/vendor")
	r.has(ProtectRequest{Own: r.at("own"), Found: []string{r.at("own/.git")}}, "main/.git/worktrees/own")
}

// TestLinkToHooks verifies that code inside cannot redirect a path that git
// finds through a link.
func TestLinkToHooks(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		testenv.Lack(t, "local", err)
	}
	r := protectNewRig(t)
	r.repo("own")
	r.dir("own/tools/hooks")
	r.write("own/tools/x", "")
	r.link("tools/hooks", "own/.githooks")
	r.git("own", "config", "core.hooksPath", ".githooks")
	r.git("own", "config", "include.path", "../conf/more")
	r.dir("own/deep/er")
	r.link("deep/er", "own/conf")
	q := ProtectRequest{Own: r.at("own")}
	r.has(q, "own/.githooks keep", "own/tools/hooks keep dir", "own/conf keep", "own/deep/er/more keep")
	if notes := r.rules(q).Notes; len(notes) != 2 {
		t.Errorf("notes %q", notes)
	}
	r.give()
	w := r.raise(r.placeholders())
	w.plants(".githooks")
	w.plants("tools/hooks")
	if out, err := w.run("! ln -sfn tools .githooks && ! mv conf c && echo x > tools/new && mv tools/new tools/x && echo x > deep/er/x && echo x >> file"); err != nil {
		t.Errorf("work beside the links: %v\n%s", err, out)
	}
	r.must(w.held.Release())
	r.commit()
	r.must(os.Remove(r.at("own/.githooks")))
	r.link("loop", "own/.githooks")
	r.link(".githooks", "own/loop")
	r.has(q, "own/.githooks keep")
}

// TestUnreadableConfiguration verifies that a file that cannot be read now is
// not treated as missing.
func TestUnreadableConfiguration(t *testing.T) {
	leased := func(rel string) func(t *testing.T, r protectRig) {
		return func(t *testing.T, r protectRig) {
			fd, err := unix.Open(r.at(rel), unix.O_RDONLY|unix.O_CLOEXEC, 0)
			r.must(err)
			t.Cleanup(func() { unix.Close(fd) })
			_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK)
			r.must(err)
		}
	}
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, r protectRig)
		want sandbox.Code
	}{
		{"nothing", func(*testing.T, protectRig) {}, ""},
		{"lease on the configuration", leased("own/.git/config"), sandbox.CodeUnavailable},
		{"lease on what it includes", leased("own/more"), sandbox.CodeUnavailable},
		{"lease on what that includes", leased("own/deeper"), sandbox.CodeUnavailable},
		{"lease on HEAD", leased("own/.git/HEAD"), sandbox.CodeUnavailable},
		{"lease on HEAD of a bare repository", leased("bare/HEAD"), sandbox.CodeUnavailable},
		{"lease on the configuration of a damaged one", func(t *testing.T, r protectRig) {
			r.must(os.Remove(r.at("bare/HEAD")))
			leased("bare/config")(t, r)
		}, sandbox.CodeUnavailable},
		{"pipe", func(_ *testing.T, r protectRig) {
			r.must(os.Remove(r.at("own/deeper")))
			r.must(unix.Mkfifo(r.at("own/deeper"), 0o600))
		}, sandbox.CodeCapabilityBlocked},
		{"device", func(_ *testing.T, r protectRig) { r.git("own", "config", "--add", "include.path", "/dev/null") }, ""},
		{"too long", func(_ *testing.T, r protectRig) { r.write("own/deeper", strings.Repeat("#\n", maxConfig)) }, sandbox.CodeCapabilityBlocked},
		{"too many", func(_ *testing.T, r protectRig) {
			for i := range maxIncludes {
				r.git("own", "config", "--add", "include.path", "../i"+strings.Repeat("i", i))
			}
		}, sandbox.CodeCapabilityBlocked},
		{"itself again", func(_ *testing.T, r protectRig) { r.write("own/deeper", "[include]\npath = deeper\npath = more\n") }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := protectNewRig(t)
			r.repo("own")
			r.git("own", "config", "include.path", "../more")
			r.write("own/more", "[include]\npath = deeper\n")
			r.write("own/deeper", "[core]\nhooksPath = .githooks\n")
			r.dir("bare")
			r.git("bare", "init", "-q", "--bare")
			tt.do(t, r)
			if _, err := Look(ProtectRequest{Own: r.at("own"), Writable: []string{r.at("bare")}}); sandbox.CodeOf(err) != tt.want {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestFoldersClosedFromInside verifies that code inside gains nothing by
// removing permissions of a folder, which it can restore. Root is not affected
// by permissions.
func TestFoldersClosedFromInside(t *testing.T) {
	r := protectNewRig(t)
	r.repo("own")
	r.dir("own/tools/hooks")
	r.git("own", "config", "core.hooksPath", "tools/hooks")
	for _, dir := range []string{"own/tools", "own/.git"} {
		r.must(os.Chmod(r.at(dir), 0))
		_, err := Look(ProtectRequest{Own: r.at("own")})
		r.must(os.Chmod(r.at(dir), 0o755))
		if os.Geteuid() != 0 && sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
			t.Errorf("%s is closed to us: %v", dir, err)
		}
	}
}

// TestDamagedKeepsItsNames verifies that paths which the configuration names
// stay closed, and that a bare repository is recognized, if HEAD is missing.
func TestDamagedKeepsItsNames(t *testing.T) {
	for name, do := range map[string]func(r protectRig){
		"missing": func(r protectRig) { r.must(os.Remove(r.at("own/.git/HEAD"))); r.must(os.Remove(r.at("bare/HEAD"))) },
		"false":   func(r protectRig) { r.write("own/.git/HEAD", "x"); r.write("bare/HEAD", "x") },
		"long": func(r protectRig) {
			long := "ref: refs/heads/x" + strings.Repeat("\n", maxPointer)
			r.write("own/.git/HEAD", long)
			r.write("bare/HEAD", long)
		},
		"no objects": func(r protectRig) {
			r.must(os.RemoveAll(r.at("own/.git/objects")))
			r.must(os.RemoveAll(r.at("bare/objects")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := protectNewRig(t)
			r.repo("own")
			r.git("own", "config", "core.hooksPath", ".githooks")
			r.dir("bare")
			r.git("bare", "init", "-q", "--bare")
			do(r)
			q := ProtectRequest{Own: r.at("own"), Writable: []string{r.at("bare")}}
			r.has(q, "own/.githooks keep dir", "bare/hooks keep dir", "bare/config keep")
			r.must(os.RemoveAll(r.at("own/.git")))
			r.must(os.Rename(r.at("bare"), r.at("own/.git")))
			r.write("own/.git/config", "[core]\nbare = false\nhooksPath = .githooks\n")
			r.has(ProtectRequest{Own: r.at("own")}, "own/.githooks keep dir")
		})
	}
	r := protectNewRig(t)
	r.dir("own/hooks")
	r.write("own/config", "[server]\nport = 1\n")
	r.write("own/HEAD", "x")
	if lines := r.lines(r.rules(ProtectRequest{Writable: []string{r.at("own")}}).Denies, ofGit...); len(lines) != 0 {
		t.Errorf("a folder that is no repository: %q", lines)
	}
}

// TestBareRepositoryBelow verifies that a bare repository is closed wherever it
// lies, and that git can push to it.
func TestBareRepositoryBelow(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		testenv.Lack(t, "local", err)
	}
	r := protectNewRig(t)
	r.repo("own")
	r.git("own", "clone", "-q", "--bare", ".", "cache/x.git")
	r.write("own/src/HEAD", "ref: refs/heads/x\n")
	inside := []string{
		"own/cache/x.git/HEAD keep", "own/cache/x.git/commondir keep", "own/cache/x.git/config keep", "own/cache/x.git/config.worktree keep",
		"own/cache/x.git/hooks keep dir",
	}
	q := ProtectRequest{Own: r.at("own"), Found: []string{r.at("own/.git"), r.at("own/.git/HEAD"), r.at("own/cache/x.git/HEAD"), r.at("own/src/HEAD")}}
	r.has(q, inside...)
	if lines := r.lines(r.rules(q).Denies, ofGit...); len(lines) != len(inside)+6 {
		t.Errorf("closed: %q", lines)
	}
	r.give()
	w := r.raise(r.placeholders())
	for _, script := range []string{
		"echo x > hooks/post-receive", "echo x >> config", "mv hooks h", "rm -f HEAD", "mv HEAD h", "mv ../x.git ../y.git", "mv ../../cache ../../c",
	} {
		if out, err := w.run("cd cache/x.git; " + script); err == nil {
			t.Errorf("%s: done\n%s", script, out)
		}
	}
	if out, err := w.run("echo x >> file && git commit -qam more && git push -q cache/x.git main && git -C cache/x.git gc -q && mv cache/x.git/objects cache/x.git/o"); err != nil {
		t.Errorf("work with it: %v\n%s", err, out)
	}
	r.must(w.held.Release())
	r.has(q, inside...) // although it is damaged now
}
