package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestFolderOfRoot has sandboxes of both providers write to a folder of root.
func TestFolderOfRoot(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "root")
	for _, provider := range []string{"local", "docker"} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			testenv.Require(t, provider)
			r := newRunner(t, provider)
			at := func(name string) string { return filepath.Join(r.workspace, name) }
			if err := errors.Join(os.WriteFile(at("ours"), []byte("root\n"), 0o600), os.WriteFile(at("other"), []byte("secret"), 0o600), os.Chown(at("other"), 1234, 1234),
				os.WriteFile(at(".env"), []byte("TOKEN=1\n"), 0o600)); err != nil {
				t.Fatal(err)
			}
			run := func(args ...string) string {
				return r.sandbox(append([]string{"--provider", provider, "--session", "root"}, args...)...)
			}
			place := []string{"run", "--workspace", r.workspace, "--"}
			script := "id -u; cat ours; echo more >>ours; echo new >new; chmod u+s new; chmod g+s new; cat other; mkdir -p .git/hooks; echo x >.git/hooks/pre-commit\n"
			if err := os.WriteFile(at("script"), []byte(script), 0o644); err != nil { // of which the policy of commands sees nothing
				t.Fatal(err)
			}
			out := run(append(place, "sh", "script")...)
			if strings.HasPrefix(out, "0\n") || !strings.Contains(out, "root\n") || strings.Contains(out, "secret") {
				t.Errorf("%s", out)
			}
			for name, want := range map[string]string{"ours": "root\nmore\n", "new": "new\n", "other": "secret"} {
				b, err := os.ReadFile(at(name))
				if err != nil || string(b) != want {
					t.Errorf("%s: %q, %v", name, b, err)
				}
			}
			fi, err := os.Stat(at("new"))
			if err != nil || ownerOfFile(fi) != 0 || fi.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
				t.Errorf("new: %v, %v", fi, err)
			}
			if _, err := os.Stat(at(".git/hooks/pre-commit")); err == nil {
				t.Error("a hook was made that git runs on the host")
			}
			// File tools see the same folder, and give no bits either.
			cp := exec.Command("sandbox", "--provider", provider, "--session", "root", "fs", "write", "--workspace", r.workspace, "--perm", "4755", "by-tool")
			cp.Env, cp.Dir, cp.Stdin = r.env, r.workspace, strings.NewReader("tool\n")
			_, _ = cp.CombinedOutput() // refused, or written without the bit
			if fi, err := os.Stat(at("by-tool")); err == nil && (fi.Mode()&os.ModeSetuid != 0 || ownerOfFile(fi) != 0) {
				t.Errorf("by-tool: %v of %d", fi.Mode(), ownerOfFile(fi))
			}
			if out := run("fs", "read", "--workspace", r.workspace, "ours"); out != "root\nmore\n" {
				t.Errorf("fs read: %s", out)
			}
			if out := run("explain", "--workspace", r.workspace); !strings.Contains(out, "IDs mapped") {
				t.Errorf("explain does not say it:\n%s", out)
			}
			// A sandbox that exists keeps its user, also after the mount was lost, as by a
			// restart of the machine.
			mapped, err := os.ReadDir(filepath.Join(r.state(), "mapped"))
			if err != nil || len(mapped) != 1 {
				t.Fatalf("%v, %v", mapped, err)
			}
			if provider == "local" {
				if err := unix.Unmount(filepath.Join(r.state(), "mapped", mapped[0].Name()), 0); err != nil {
					t.Fatal(err)
				}
			}
			if out := run(append(place, "cat", "new")...); out != "new\n" {
				t.Errorf("the second command: %s", out)
			}
			if out := run("recreate", "--session", "root", "--force"); !strings.Contains(out, "removed") {
				t.Errorf("%s", out)
			}
			if left, _ := os.ReadDir(filepath.Join(r.state(), "mapped")); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			// What a killed program left.
			stale := filepath.Join(r.state(), "mapped", "sbx-gone-0000000000000000")
			if err := errors.Join(os.Mkdir(stale, 0o700), unix.Mount(r.workspace, stale, "", unix.MS_BIND, "")); err != nil {
				t.Fatal(err)
			}
			if out := run("prune"); !strings.Contains(out, "sbx-gone") {
				t.Errorf("prune: %s", out)
			}
			if _, err := os.Lstat(stale); err == nil {
				t.Error("prune left the mount of a sandbox that is gone")
			}
			if _, err := os.Stat(at("ours")); err != nil {
				t.Error(err)
			}
		})
	}
}

// state is the folder of the job's records.
func (r *runner) state() string { return filepath.Join(filepath.Dir(r.temp), "state") }

// TestFolderOfRootThatIsCopied has the folder on a file system that no kernel mounts
// with IDs mapped.
func TestFolderOfRootThatIsCopied(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "root")
	testenv.Require(t, "local")
	r := newRunner(t, "local")
	base := t.TempDir()
	for _, dir := range []string{"lower", "upper", "work"} {
		if err := os.Mkdir(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	options := "lowerdir=" + base + "/lower,upperdir=" + base + "/upper,workdir=" + base + "/work"
	if err := unix.Mount("overlay", r.workspace, "overlay", 0, options); err != nil {
		testenv.Lack(t, "root", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(r.workspace, unix.MNT_DETACH) })
	at := func(name string) string { return filepath.Join(r.workspace, name) }
	if err := errors.Join(os.WriteFile(at("kept"), []byte("before\n"), 0o644), os.WriteFile(at("gone"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	script := "id -u; cat kept; echo after >kept; echo new >new; rm gone; mkdir -p .git/hooks; printf '#!/bin/sh\\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; exit 4\n"
	if err := os.WriteFile(at("script"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	out := r.sandbox("--provider", "local", "run", "--rm", "--workspace", r.workspace, "--report", r.temp+"/report.json", "--", "sh", "script")
	if strings.HasPrefix(out, "0\n") || !strings.Contains(out, "before\n") {
		t.Errorf("%s", out)
	}
	for name, want := range map[string]string{"kept": "after\n", "new": "new\n"} {
		b, err := os.ReadFile(at(name))
		if err != nil || string(b) != want {
			t.Errorf("%s: %q, %v\n%s", name, b, err, out)
		}
		if fi, err := os.Stat(at(name)); err != nil || ownerOfFile(fi) != 0 {
			t.Errorf("%s belongs to %d", name, ownerOfFile(fi))
		}
	}
	if _, err := os.Stat(at("gone")); err == nil {
		t.Error("a file that was removed inside is there")
	}
	if _, err := os.Stat(at(".git/hooks/pre-commit")); err == nil {
		t.Error("a hook was copied out that git runs on the host")
	}
	if !strings.Contains(out, "not copied out") || !strings.Contains(out, "with 3 unapplied changes") {
		t.Errorf("the output does not say what was left out:\n%s", out)
	}
	rep := r.report(r.temp + "/report.json")
	if rep.Code != 4 || len(rep.Notes) != 1 || !strings.Contains(rep.Notes[0], "copy") {
		t.Errorf("%+v", rep)
	}
	if out := r.sandbox("--provider", "local", "explain", "--workspace", r.workspace); !strings.Contains(out, "cannot be mounted") {
		t.Errorf("explain does not say it:\n%s", out)
	}
}
