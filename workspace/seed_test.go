package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func seed(t *testing.T, s *Store, agent string) SeedReport {
	t.Helper()
	r, err := s.Seed(t.Context(), "sbx-a", agent, someone())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func content(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v; want %q", path, got, err, want)
	}
}

func wantReport(t *testing.T, got, want SeedReport) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Error("report (-want +got):\n", d)
	}
}

func TestSeed(t *testing.T) {
	s, agent := open(t), t.TempDir()
	ws := ensure(t, s, "sbx-a")
	for rel, text := range map[string]string{
		"AGENTS.md": "agents", "SOUL.md": "soul", "NOTES.md": "private", ".env": "secret",
		"skills/a/SKILL.md": "a", "skills/b.md": "b", "memory/x.md": "private",
	} {
		write(t, filepath.Join(agent, rel), text)
	}
	script := filepath.Join(agent, "skills/a/run.sh")
	write(t, script, "#!/bin/sh\n")
	if err := os.Chmod(script, 0o4755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(ws, "SOUL.md"), "mine")
	wantReport(t, seed(t, s, agent), SeedReport{
		Copied: []string{"AGENTS.md", "skills/a/SKILL.md", "skills/a/run.sh", "skills/b.md"}, Kept: []string{"SOUL.md"},
	})
	content(t, filepath.Join(ws, "AGENTS.md"), "agents")
	content(t, filepath.Join(ws, "SOUL.md"), "mine")
	content(t, filepath.Join(ws, "skills/a/SKILL.md"), "a")
	o := someone()
	for rel, mode := range map[string]uint32{"AGENTS.md": 0o644, "skills/a/run.sh": 0o755, "skills": 0o755, "skills/a": 0o755} {
		if st := stat(t, filepath.Join(ws, rel)); int(st.Uid) != o.UID || int(st.Gid) != o.GID || st.Mode&0o7777 != mode {
			t.Errorf("%s: %d:%d %o", rel, st.Uid, st.Gid, st.Mode&0o7777)
		}
	}
	for _, rel := range []string{"NOTES.md", ".env", "memory"} {
		if _, err := os.Lstat(filepath.Join(ws, rel)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s came along", rel)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(ws, ".sandbox-seed*")); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
	// A copy, not a link: writing inside must not reach the agent's folder.
	write(t, filepath.Join(ws, "AGENTS.md"), "changed inside")
	content(t, filepath.Join(agent, "AGENTS.md"), "agents")
}

func TestSeedAgain(t *testing.T) {
	s, agent := open(t), t.TempDir()
	ws := ensure(t, s, "sbx-a")
	for _, rel := range []string{"AGENTS.md", "BOOTSTRAP.md", "skills/same", "skills/new", "skills/edited", "skills/gone", "skills/gone-edited", "skills/deleted"} {
		write(t, filepath.Join(agent, rel), "one")
	}
	seed(t, s, agent)

	write(t, filepath.Join(agent, "AGENTS.md"), "two")
	write(t, filepath.Join(agent, "skills/new"), "two")
	write(t, filepath.Join(agent, "skills/edited"), "two")
	write(t, filepath.Join(ws, "skills/edited"), "user's")
	write(t, filepath.Join(ws, "skills/gone-edited"), "user's")
	write(t, filepath.Join(ws, "skills/own"), "user's")
	for _, p := range []string{filepath.Join(agent, "skills/gone"), filepath.Join(agent, "skills/gone-edited"),
		filepath.Join(ws, "BOOTSTRAP.md"), filepath.Join(ws, "skills/deleted")} {
		if err := os.Remove(p); err != nil {
			t.Fatal(err)
		}
	}
	wantReport(t, seed(t, s, agent), SeedReport{
		Copied:   []string{"skills/deleted"},
		Replaced: []string{"skills/new"},
		Removed:  []string{"skills/gone"},
		Kept:     []string{"AGENTS.md", "BOOTSTRAP.md", "skills/edited"},
	})
	content(t, filepath.Join(ws, "AGENTS.md"), "one")
	content(t, filepath.Join(ws, "skills/new"), "two")
	content(t, filepath.Join(ws, "skills/edited"), "user's")
	content(t, filepath.Join(ws, "skills/gone-edited"), "user's")
	content(t, filepath.Join(ws, "skills/own"), "user's")

	// A workspace that was removed and made again starts from scratch.
	if err := s.Remove(t.Context(), ws); err != nil {
		t.Fatal(err)
	}
	ensure(t, s, "sbx-a")
	if r := seed(t, s, agent); !slices.Contains(r.Copied, "BOOTSTRAP.md") {
		t.Errorf("a new workspace was not seeded: %+v", r)
	}
}

func TestSeedNothing(t *testing.T) {
	s := open(t)
	ensure(t, s, "sbx-a")
	wantReport(t, seed(t, s, t.TempDir()), SeedReport{})
	wantReport(t, seed(t, s, "/nonexistent"), SeedReport{})
}

func TestSeedSkipsLinksInTheAgentFolder(t *testing.T) {
	s, agent := open(t), t.TempDir()
	ws := ensure(t, s, "sbx-a")
	secret := t.TempDir()
	write(t, filepath.Join(secret, "id_rsa"), "secret")
	write(t, filepath.Join(agent, "real.md"), "inside")
	write(t, filepath.Join(agent, "skills/real"), "x")
	if err := errors.Join(
		os.Symlink(filepath.Join(secret, "id_rsa"), filepath.Join(agent, "AGENTS.md")), // absolute, outside
		os.Symlink("real.md", filepath.Join(agent, "SOUL.md")),                         // relative, inside
		os.Symlink("/nonexistent", filepath.Join(agent, "TOOLS.md")),                   // dangling
		unix.Mkfifo(filepath.Join(agent, "USER.md"), 0o644),
		os.Mkdir(filepath.Join(agent, "IDENTITY.md"), 0o755),
		os.Symlink(secret, filepath.Join(agent, "skills/dir")),
		os.Symlink(filepath.Join(secret, "id_rsa"), filepath.Join(agent, "skills/file")),
	); err != nil {
		t.Fatal(err)
	}
	r := seed(t, s, agent)
	var skipped []string
	for _, k := range r.Skipped {
		skipped = append(skipped, k.Path)
		if strings.Contains(k.Reason, secret) || k.Reason == "" {
			t.Errorf("%s: reason %q", k.Path, k.Reason)
		}
	}
	slices.Sort(skipped)
	if d := cmp.Diff([]string{"AGENTS.md", "IDENTITY.md", "SOUL.md", "TOOLS.md", "USER.md", "skills/dir", "skills/file"}, skipped); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"skills/real"}, r.Copied); d != "" {
		t.Error(d)
	}
	if entries, _ := os.ReadDir(ws); len(entries) != 1 {
		t.Errorf("workspace holds %v", entries)
	}

	linked := t.TempDir()
	if err := os.Symlink(secret, filepath.Join(linked, "skills")); err != nil {
		t.Fatal(err)
	}
	if r := seed(t, s, linked); len(r.Copied) != 0 || len(r.Skipped) != 1 || r.Skipped[0].Path != "skills" {
		t.Errorf("skills as a link: %+v", r)
	}
	content(t, filepath.Join(ws, "skills/real"), "x") // and nothing was withdrawn
}

func TestSeedIntoAHostileWorkspace(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(ws, outside string) error
		skipped string // empty: it is kept
	}{
		{"file is a link outside", func(ws, out string) error {
			return os.Symlink(filepath.Join(out, "new"), filepath.Join(ws, "AGENTS.md"))
		}, "AGENTS.md"},
		{"file is a link to a file", func(ws, out string) error {
			return os.Symlink(filepath.Join(out, "file"), filepath.Join(ws, "AGENTS.md"))
		}, "AGENTS.md"},
		{"file is a folder", func(ws, _ string) error { return os.Mkdir(filepath.Join(ws, "AGENTS.md"), 0o755) }, "AGENTS.md"},
		{"file is a fifo", func(ws, _ string) error { return unix.Mkfifo(filepath.Join(ws, "AGENTS.md"), 0o644) }, "AGENTS.md"},
		{"skills is a link outside", func(ws, out string) error { return os.Symlink(out, filepath.Join(ws, "skills")) }, "skills/d/x"},
		{"skills is a link inside", func(ws, _ string) error { return os.Symlink(".", filepath.Join(ws, "skills")) }, "skills/d/x"},
		{"skills is a file", func(ws, _ string) error { return os.WriteFile(filepath.Join(ws, "skills"), nil, 0o644) }, "skills/d/x"},
		{"folder below skills is a link", func(ws, out string) error {
			return errors.Join(os.Mkdir(filepath.Join(ws, "skills"), 0o755), os.Symlink(out, filepath.Join(ws, "skills/d")))
		}, "skills/d/x"},
		{"file is a hard link", func(ws, out string) error { return os.Link(filepath.Join(out, "file"), filepath.Join(ws, "AGENTS.md")) }, ""},
		{"skill is enormous", func(ws, _ string) error {
			return errors.Join(os.MkdirAll(filepath.Join(ws, "skills/d"), 0o755), os.WriteFile(filepath.Join(ws, "skills/d/x"), nil, 0o644),
				os.Truncate(filepath.Join(ws, "skills/d/x"), 1<<40))
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, agent, outside := open(t), t.TempDir(), t.TempDir()
			ws := ensure(t, s, "sbx-a")
			write(t, filepath.Join(agent, "AGENTS.md"), "agents")
			write(t, filepath.Join(agent, "skills/d/x"), "x")
			write(t, filepath.Join(outside, "file"), "precious")
			before := stat(t, filepath.Join(outside, "file"))
			if err := tt.prepare(ws, outside); err != nil {
				t.Fatal(err)
			}
			r := seed(t, s, agent)
			if tt.skipped != "" && (len(r.Skipped) != 1 || r.Skipped[0].Path != tt.skipped) || tt.skipped == "" && (len(r.Skipped) != 0 || len(r.Kept) != 1) {
				t.Errorf("report %+v, want skipped %q", r, tt.skipped)
			}
			if entries, _ := os.ReadDir(outside); len(entries) != 1 {
				t.Errorf("outside holds %v", entries)
			}
			content(t, filepath.Join(outside, "file"), "precious")
			if after := stat(t, filepath.Join(outside, "file")); after.Uid != before.Uid || after.Mode != before.Mode {
				t.Error("owner or mode outside changed")
			}
		})
	}
}

// TestSeedRacesWithTheSandbox swaps a folder of the workspace for a link to
// the outside, over and over, while it is seeded.
func TestSeedRacesWithTheSandbox(t *testing.T) {
	s, agent, outside := open(t), t.TempDir(), t.TempDir()
	ws := ensure(t, s, "sbx-a")
	for i := range 20 {
		write(t, filepath.Join(agent, "skills/d", fmt.Sprint(i)), "seed")
	}
	write(t, filepath.Join(outside, "0"), "precious")
	skills, link, spare := filepath.Join(ws, "skills"), filepath.Join(ws, "link"), filepath.Join(ws, "spare")
	if err := errors.Join(os.MkdirAll(filepath.Join(skills, "d"), 0o755), os.Symlink(outside, link), os.Mkdir(spare, 0o755)); err != nil {
		t.Fatal(err)
	}
	var swaps atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				// d and link change places.
				_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(skills, "d"), unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
				swaps.Add(1)
			}
		}
	}()
	testenv.Until(t, "it is swapped", func() bool { return swaps.Load() > 0 })
	began, during := time.Now(), int64(0) // swaps while it is seeded
	for round := 0; (round < 30 || during < 100) && time.Since(began) < testenv.Patience; round++ {
		write(t, filepath.Join(agent, "skills/d/0"), fmt.Sprint("seed ", round))
		before := swaps.Load()
		if _, err := s.Seed(t.Context(), "sbx-a", agent, someone()); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		during += swaps.Load() - before
	}
	close(stop)
	<-done
	if during < 100 {
		t.Errorf("only %d swaps: the test proved nothing", during)
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 1 {
		t.Errorf("outside holds %v", entries)
	}
	content(t, filepath.Join(outside, "0"), "precious")
}

func TestSeedBounds(t *testing.T) {
	t.Run("file", func(t *testing.T) {
		s, agent := open(t), t.TempDir()
		ensure(t, s, "sbx-a")
		write(t, filepath.Join(agent, "AGENTS.md"), strings.Repeat("x", maxSeedFile+1))
		write(t, filepath.Join(agent, "SOUL.md"), strings.Repeat("x", maxSeedFile))
		r := seed(t, s, agent)
		if len(r.Skipped) != 1 || r.Skipped[0].Path != "AGENTS.md" || !slices.Equal(r.Copied, []string{"SOUL.md"}) {
			t.Errorf("%+v", r)
		}
	})
	t.Run("total", func(t *testing.T) {
		s, agent := open(t), t.TempDir()
		ensure(t, s, "sbx-a")
		for i := range 9 {
			write(t, filepath.Join(agent, "skills", fmt.Sprint(i)), strings.Repeat("x", maxSeedFile))
		}
		if r := seed(t, s, agent); len(r.Copied) != 8 || len(r.Skipped) != 1 {
			t.Errorf("copied %v, skipped %v", r.Copied, r.Skipped)
		}
	})
	t.Run("count", func(t *testing.T) {
		agent := t.TempDir()
		for i := range maxSeedFiles + 10 {
			write(t, filepath.Join(agent, "skills", fmt.Sprint(i)), "")
		}
		src, err := os.OpenRoot(agent)
		if err != nil {
			t.Fatal(err)
		}
		defer src.Close()
		sd := seeder{src: src}
		if files, err := sd.skills(t.Context()); err != nil || len(files) != maxSeedFiles || len(sd.report.Skipped) != 1 {
			t.Errorf("%d files, skipped %v, %v", len(files), sd.report.Skipped, err)
		}
	})
}
