//go:build linux

package manager_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/workspace/change"
)

// TestChanges goes through the work in a private workspace: what changed is shown,
// applied, taken back and discarded, and the folder of the host changes by Apply
// and Undo alone.
func TestChanges(t *testing.T) {
	onKeepers(t, func(k *keeper) {
		t := k.t
		folder := outsideFolder(t)
		must(t, os.Chmod(folder, 0o755))
		write := func(name, text string) {
			t.Helper()
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o755))
			must(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
		}
		on := func(name string) string {
			text, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil {
				return "none"
			}
			return string(text)
		}
		write("a", "1\n2\n3\n4\n5\n6\n7\n8\n")
		write("gone", "gone\n")
		write("deep/b", "b\n")
		access := sandbox.AccessPrivate
		flags := &config.SandboxSettings{WorkspaceAccess: &access, Workspace: &folder}
		req := manager.Request{Who: who("p"), Flags: flags}
		run := func(line string) {
			t.Helper()
			r := req
			r.Command = sandbox.Command{Args: []string{"sh", "-c", line}}
			out, err := k.Capture(k.context(), r)
			must(t, err)
			if out.ExitCode != 0 {
				t.Fatalf("%s: %s%s", line, out.Stdout, out.Stderr)
			}
		}
		diff := func(o manager.ChangeOptions, format change.Format) string {
			t.Helper()
			var text bytes.Buffer
			must(t, k.Changes(k.context(), req, o, func(c *manager.Changes) error {
				return c.Render(k.context(), &text, change.RenderOptions{Format: format})
			}))
			return strings.Join(strings.Fields(text.String()), " ")
		}
		run("sed -i s/2/two/ a; rm gone; echo new >deep/new; mkdir .husky; echo evil >.husky/post-commit")
		if got := diff(manager.ChangeOptions{}, change.NameOnly); got != ".husky/post-commit a deep/new gone" && !strings.Contains(got, "a deep/new gone") {
			t.Errorf("differs: %s", got)
		}
		if got := diff(manager.ChangeOptions{Paths: []string{"a"}}, change.Unified); !strings.Contains(got, "-2 +two 3") || strings.Contains(got, "deep") {
			t.Errorf("the patch: %s", got)
		}

		// Nothing is applied without the consent to what git runs.
		refused, err := k.Apply(k.context(), req, manager.ApplyOptions{})
		if sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked || len(refused.Plan.Refused) == 0 || on("a") != "1\n2\n3\n4\n5\n6\n7\n8\n" || on("gone") != "gone\n" {
			t.Fatalf("applied without a consent: %v, %+v", err, refused.Plan)
		}
		shown, err := k.Apply(k.context(), req, manager.ApplyOptions{Partial: true, DryRun: true})
		must(t, err)
		if on("a") != "1\n2\n3\n4\n5\n6\n7\n8\n" || len(shown.Plan.Steps) == 0 || shown.Report != nil {
			t.Fatalf("a dry run: %+v", shown)
		}
		write("a", "1\n2\n3\n4\n5\n6\n7\neight\n") // the host changes another line
		done, err := k.Apply(k.context(), req, manager.ApplyOptions{Partial: true})
		must(t, err)
		if on("a") != "1\ntwo\n3\n4\n5\n6\n7\neight\n" || on("gone") != "none" || on("deep/new") != "new\n" || on(".husky/post-commit") != "none" {
			t.Fatalf("applied: %q %q %q %q, %+v", on("a"), on("gone"), on("deep/new"), on(".husky/post-commit"), done.Plan)
		}

		undone, err := k.Undo(k.context(), req, "", false)
		must(t, err)
		if undone.ID != done.ID || on("a") != "1\n2\n3\n4\n5\n6\n7\neight\n" || on("gone") != "gone\n" || on("deep/new") != "none" {
			t.Fatalf("taken back: %+v: %q %q %q", undone, on("a"), on("gone"), on("deep/new"))
		}
		if _, err := k.Undo(k.context(), req, "", false); !sandbox.IsNotFound(err) {
			t.Errorf("a second undo: %v", err)
		}

		list, err := k.Discard(k.context(), req, []string{"deep", ".husky"})
		must(t, err)
		if len(list) == 0 {
			t.Error("nothing is discarded")
		}
		if got := diff(manager.ChangeOptions{}, change.NameOnly); strings.Contains(got, "deep") || strings.Contains(got, ".husky") || !strings.Contains(got, "gone") {
			t.Errorf("after discarding some: %s", got)
		}
		run("test ! -e deep/new && test -e deep/b && test ! -e .husky")
	})
}

// TestDiscardShowsNothing holds that a file of the host's folder that code inside
// cannot read does not become its own when the code removes it and a person takes
// that back.
func TestDiscardShowsNothing(t *testing.T) {
	testenv.Require(t, "root")
	onKeepers(t, func(k *keeper) {
		t := k.t
		folder := outsideFolder(t)
		must(t, os.Chown(folder, 1000, 1000))
		must(t, os.Chmod(folder, 0o755))
		must(t, os.WriteFile(filepath.Join(folder, "closed"), []byte("of root\n"), 0o600))
		must(t, os.WriteFile(filepath.Join(folder, "open"), []byte("one\n"), 0o644))
		access := sandbox.AccessPrivate
		req := manager.Request{Who: who("p"), Flags: &config.SandboxSettings{WorkspaceAccess: &access, Workspace: &folder}}
		run := func(line string) string {
			r := req
			r.Command = sandbox.Command{Args: []string{"sh", "-c", line}}
			out, err := k.Capture(k.context(), r)
			must(t, err)
			return strings.TrimSpace(string(out.Stdout) + string(out.Stderr))
		}
		if got := run("cat closed"); strings.Contains(got, "of root") {
			t.Fatalf("the file is readable: %s", got)
		}
		run("rm -f closed open")
		if _, err := k.Discard(k.context(), req, nil); sandbox.CodeOf(err) != sandbox.CodePermissionDeny {
			t.Errorf("the discard of all: %v", err)
		}
		if _, err := k.Discard(k.context(), req, []string{"open"}); err != nil {
			t.Error(err)
		}
		if got := run("cat open; cat closed"); strings.Contains(got, "of root") || !strings.HasPrefix(got, "one") {
			t.Errorf("after the discard: %s", got)
		}
	})
}
