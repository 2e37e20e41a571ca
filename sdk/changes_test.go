package sdk_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/sdk"
	"github.com/bulkhead-dev/sandbox/workspace/change"
)

// TestChangesOfAView holds that what was changed in a private view is shown,
// applied by consent, taken back and discarded in both ways, with names that are
// no UTF-8.
func TestChangesOfAView(t *testing.T) {
	inBothWays(t, func(t *testing.T, c *sdk.Client) {
		ctx := t.Context()
		base := t.TempDir()
		folder := filepath.Join(base, "project")
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(base, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "a.txt"), []byte("one\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 {
			for _, name := range []string{folder, filepath.Join(folder, "a.txt")} {
				if err := os.Chown(name, 54321, 54321); err != nil {
					t.Fatal(err)
				}
			}
		}
		on := func(name string) string {
			b, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil {
				return "none"
			}
			return string(b)
		}
		const odd = "odd\xff\"name"
		// The clock of a file system goes in steps of some milliseconds. A file that
		// was changed in the step in which the view is made has no known base.
		changed := func(file string) time.Time {
			var st unix.Stat_t
			if err := unix.Stat(file, &st); err != nil {
				t.Fatal(err)
			}
			return time.Unix(st.Ctim.Unix())
		}
		before, probe := changed(filepath.Join(folder, "a.txt")), filepath.Join(filepath.Dir(folder), "probe")
		testenv.Until(t, "a later time of a change", func() bool {
			if err := os.WriteFile(probe, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return changed(probe).After(before)
		})
		view := ready(t, c, "view", sdk.Private(folder))
		defer func() {
			if err := view.Remove(ctx); err != nil { // which unmounts the view
				t.Error(err)
			}
		}()
		if r, err := view.Run(ctx, "sh", "-c", `echo two >a.txt; mkdir .husky; echo evil >.husky/pre-commit; echo odd >"$(printf 'odd\377"name')"`); err != nil || r.ExitCode != 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		found, err := view.Changes(ctx, sdk.ChangeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		kinds := map[string]change.Kind{}
		for _, e := range found.Entries {
			kinds[e.Path] = e.Kind
			if e.Path == "a.txt" && (e.Mode != 0o644 || e.OldMode != 0o644 || e.Size != 4) {
				t.Errorf("%+v", e)
			}
			if e.Path == ".husky/pre-commit" && e.Level() != change.Own {
				t.Errorf("%+v", e)
			}
		}
		if found.Folder != folder || kinds["a.txt"] != change.Modified || kinds[odd] != change.Added {
			t.Errorf("of %s: %v", found.Folder, kinds)
		}
		var text bytes.Buffer
		if err := found.Render(ctx, &text, change.RenderOptions{}); err != nil || !strings.Contains(text.String(), "-one\n+two\n") {
			t.Errorf("%v, %s", err, text.String())
		}
		text.Reset()
		if err := found.Render(ctx, &text, change.RenderOptions{Format: change.NameOnly}); err != nil || !strings.Contains(text.String(), `"odd\377\"name"`) {
			t.Errorf("%v, %s", err, text.String())
		}
		if err := found.Render(ctx, &text, change.RenderOptions{MaxText: 1}); sandbox.CodeOf(err) != sandbox.CodeUnsupported {
			t.Errorf("a bound of the text: %v", err)
		}
		if found, err := view.Changes(ctx, sdk.ChangeOptions{Paths: []string{odd}}); err != nil || len(found.Entries) != 1 || found.Entries[0].Path != odd {
			t.Errorf("%+v, %v", found, err)
		}

		refused, err := view.Apply(ctx, sdk.ApplyOptions{})
		if sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked || refused.Plan == nil || len(refused.Plan.Refused) == 0 || refused.Report != nil || on("a.txt") != "one\n" {
			t.Fatalf("without a consent: %v, %+v", err, refused)
		}
		plan, err := view.Apply(ctx, sdk.ApplyOptions{Partial: true, DryRun: true})
		if err != nil || plan.Plan.Digest == "" || on("a.txt") != "one\n" {
			t.Fatalf("%v, %+v", err, plan)
		}
		if _, err := view.Apply(ctx, sdk.ApplyOptions{Partial: true, Digest: strings.Repeat("0", 64)}); sandbox.CodeOf(err) != sandbox.CodeBusy || on("a.txt") != "one\n" {
			t.Errorf("another plan: %v", err)
		}
		done, err := view.Apply(ctx, sdk.ApplyOptions{Partial: true, Digest: plan.Plan.Digest})
		if err != nil || done.ID == "" || len(done.Report.Done) != 2 || on("a.txt") != "two\n" || on(odd) != "odd\n" || on(".husky/pre-commit") != "none" {
			t.Fatalf("%v, %+v: %q %q", err, done, on("a.txt"), on(odd))
		}
		if err := os.WriteFile(filepath.Join(folder, "a.txt"), []byte("three\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if back, err := view.Undo(ctx, "", false); sandbox.CodeOf(err) != sandbox.CodeBusy || back.Report == nil || len(back.Report.Conflicts) != 1 || on("a.txt") != "three\n" || on(odd) != "odd\n" {
			t.Errorf("%v, %+v", err, back)
		}
		if back, err := view.Undo(ctx, done.ID, true); err != nil || back.ID != done.ID || on("a.txt") != "three\n" || on(odd) != "none" {
			t.Errorf("%v, %+v", err, back)
		}
		if _, err := view.Undo(ctx, "", false); !sandbox.IsNotFound(err) {
			t.Errorf("a second time: %v", err)
		}
		if list, err := view.Discard(ctx, odd); err != nil || len(list) != 1 || list[0].Path != odd {
			t.Errorf("%+v, %v", list, err)
		}
		if found, err = view.Changes(ctx, sdk.ChangeOptions{Paths: []string{odd}}); err != nil || len(found.Entries) != 0 {
			t.Errorf("after discarding: %+v, %v", found, err)
		}
		scratch := ready(t, c, "scratch")
		if _, err := scratch.Changes(ctx, sdk.ChangeOptions{}); !sandbox.IsNotFound(err) {
			t.Errorf("a scratch workspace without a checkpoint: %v", err)
		}
	})
}
