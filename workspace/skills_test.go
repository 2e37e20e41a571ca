package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func syncSkills(t *testing.T, s *Store, agent string) (SeedReport, string) {
	t.Helper()
	r, stamp, err := s.SyncSkills(t.Context(), "sbx-a", agent, someone())
	if err != nil {
		t.Fatal(err)
	}
	return r, stamp
}

func stampNow(t *testing.T, agent, ws string) string {
	t.Helper()
	stamp, err := SkillsStamp(t.Context(), agent, ws)
	if err != nil {
		t.Fatal(err)
	}
	return stamp
}

// settled waits until no file is so young that it could change and look the same,
// and synchronises.
func settled(t *testing.T, s *Store, agent, ws string) string {
	t.Helper()
	var stamp string
	testenv.Until(t, "the clock goes on", func() bool {
		_, stamp = syncSkills(t, s, agent)
		return stamp != ""
	})
	if now := stampNow(t, agent, ws); now != stamp {
		t.Fatalf("the stamp is %q, and SyncSkills returned %q", now, stamp)
	}
	return stamp
}

// TestSyncSkills holds that each change on the host arrives, one at a time, that a
// change shows in the stamp, and that without one nothing is touched.
func TestSyncSkills(t *testing.T) {
	s, agent := open(t), t.TempDir()
	ws := ensure(t, s, "sbx-a")
	at := func(rel string) string { return filepath.Join(agent, "skills", rel) }
	for _, rel := range []string{"a/SKILL.md", "b.md"} {
		write(t, at(rel), "one")
	}
	write(t, filepath.Join(agent, "AGENTS.md"), "one")
	seed(t, s, agent)
	write(t, filepath.Join(agent, "AGENTS.md"), "two")
	if err := os.Remove(filepath.Join(ws, "AGENTS.md")); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		do   func() error
		want SeedReport
	}{
		{"nothing", func() error { return nil }, SeedReport{}},
		{"changed", func() error { return os.WriteFile(at("a/SKILL.md"), []byte("two"), 0o644) }, SeedReport{Replaced: []string{"skills/a/SKILL.md"}}},
		{"changed, with the size and time of before", func() error {
			fi, err := os.Stat(at("a/SKILL.md"))
			return errors.Join(err, os.WriteFile(at("a/SKILL.md"), []byte("six"), 0o644), os.Chtimes(at("a/SKILL.md"), time.Now(), fi.ModTime()))
		}, SeedReport{Replaced: []string{"skills/a/SKILL.md"}}},
		{"added", func() error { return os.WriteFile(at("a/more"), []byte("new"), 0o644) }, SeedReport{Copied: []string{"skills/a/more"}}},
		{"removed", func() error { return os.Remove(at("b.md")) }, SeedReport{Removed: []string{"skills/b.md"}}},
		{"a link in its place", func() error { return os.Symlink("/etc/passwd", at("b.md")) }, SeedReport{Skipped: []Skip{{"skills/b.md", "is a link or a special file"}}}},
		{"the link is gone", func() error { return os.Remove(at("b.md")) }, SeedReport{}},
		{"deleted inside", func() error { return os.Remove(filepath.Join(ws, "skills/a/more")) }, SeedReport{Copied: []string{"skills/a/more"}}},
		{"changed inside", func() error { return os.WriteFile(filepath.Join(ws, "skills/a/more"), []byte("own"), 0o644) }, SeedReport{Kept: []string{"skills/a/more"}}},
		{"all are gone", func() error { return os.RemoveAll(at("")) }, SeedReport{Removed: []string{"skills/a/SKILL.md"}}},
		{"and the agent's folder", func() error { return os.RemoveAll(agent) }, SeedReport{}},
	} {
		before := settled(t, s, agent, ws)
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if changed := stampNow(t, agent, ws) != before; changed != (step.name != "nothing") {
			t.Errorf("%s: the stamp changed: %v", step.name, changed)
		}
		r, _ := syncSkills(t, s, agent)
		t.Run(step.name, func(t *testing.T) { wantReport(t, r, step.want) })
	}
	content(t, filepath.Join(ws, "skills/a/more"), "own")
	if _, err := os.Lstat(filepath.Join(ws, "AGENTS.md")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a bootstrap file was copied again: %v", err)
	}
}

// TestSyncSkillsWithoutAChange holds that a call without a change looks into no
// skill, which would report the one that is kept, and writes no notes.
func TestSyncSkillsWithoutAChange(t *testing.T) {
	s, agent := open(t), t.TempDir()
	ws := ensure(t, s, "sbx-a")
	write(t, filepath.Join(agent, "skills/a/SKILL.md"), "one")
	write(t, filepath.Join(ws, "skills/a/SKILL.md"), "own")
	if r, _ := syncSkills(t, s, agent); len(r.Kept) != 1 {
		t.Fatalf("the first time: %+v", r)
	}
	settled(t, s, agent, ws)
	before, err := os.Stat(s.metaPath("sbx-a"))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r, _ := syncSkills(t, s, agent)
		wantReport(t, r, SeedReport{})
	}
	if after, err := os.Stat(s.metaPath("sbx-a")); err != nil || !os.SameFile(before, after) {
		t.Errorf("the notes were written again: %v", err)
	}
}

// TestSyncSkillsThroughNoLink holds that a folder of the agent, or one around it,
// which became a link is not read through, and that links which code inside plants
// are not written through.
func TestSyncSkillsThroughNoLink(t *testing.T) {
	s, around, secret := open(t), t.TempDir(), t.TempDir()
	ws := ensure(t, s, "sbx-a")
	agent := filepath.Join(around, "agents/one")
	write(t, filepath.Join(agent, "skills/a/x"), "one")
	write(t, filepath.Join(secret, "skills/a/x"), "secret")
	write(t, filepath.Join(secret, "one/skills/a/x"), "secret")
	settled(t, s, agent, ws)
	for _, swap := range []struct{ at, to string }{
		{filepath.Join(agent, "skills"), filepath.Join(secret, "skills")},
		{filepath.Join(agent, "skills/a"), filepath.Join(secret, "skills/a")},
		{agent, secret},
		{filepath.Dir(agent), secret},
	} {
		if err := errors.Join(os.Rename(swap.at, swap.at+".aside"), os.Symlink(swap.to, swap.at)); err != nil {
			t.Fatal(err)
		}
		_, _, err := s.SyncSkills(t.Context(), "sbx-a", agent, someone())
		t.Logf("%s: %v", swap.at, err)
		if text, _ := os.ReadFile(filepath.Join(ws, "skills/a/x")); string(text) == "secret" {
			t.Errorf("%s is read through", swap.at)
		}
		if err := errors.Join(os.Remove(swap.at), os.Rename(swap.at+".aside", swap.at)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(secret, "target"), "precious")
	for i, plant := range []func() error{
		func() error { return os.Symlink(filepath.Join(secret, "target"), filepath.Join(ws, "skills/a/x")) },
		func() error { return os.Link(filepath.Join(secret, "target"), filepath.Join(ws, "skills/a/x")) },
		func() error {
			return errors.Join(os.Remove(filepath.Join(ws, "skills/a")), os.Symlink(secret, filepath.Join(ws, "skills/a")))
		},
		func() error {
			return errors.Join(os.Remove(filepath.Join(ws, "skills/a")), os.Remove(filepath.Join(ws, "skills")), os.Symlink(secret, filepath.Join(ws, "skills")))
		},
	} {
		if err := errors.Join(os.RemoveAll(filepath.Join(ws, "skills")), os.MkdirAll(filepath.Join(ws, "skills/a"), 0o777), plant()); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(agent, "skills/a/x"), fmt.Sprint("round ", i))
		write(t, filepath.Join(agent, "skills/a/target"), fmt.Sprint("round ", i))
		syncSkills(t, s, agent)
		content(t, filepath.Join(secret, "target"), "precious")
		content(t, filepath.Join(secret, "skills/a/x"), "secret")
		if entries, _ := os.ReadDir(secret); len(entries) != 3 {
			t.Errorf("outside holds %v", entries)
		}
	}
	if err := os.RemoveAll(filepath.Join(ws, "skills")); err != nil {
		t.Fatal(err)
	}
	if r, _ := syncSkills(t, s, agent); !slices.Equal(r.Copied, []string{"skills/a/target", "skills/a/x"}) {
		t.Errorf("after the link is gone: %+v", r)
	}
}

// TestSyncSkillsOfARecentChange holds that two changes within one tick of the clock
// of the file system are not taken for one.
func TestSyncSkillsOfARecentChange(t *testing.T) {
	s, agent := open(t), t.TempDir()
	ws := ensure(t, s, "sbx-a")
	skill := filepath.Join(agent, "skills/x")
	write(t, skill, "00000")
	f, err := os.OpenFile(skill, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range 500 {
		want := fmt.Sprintf("%05d", i)
		if _, err := f.WriteAt([]byte(want), 0); err != nil {
			t.Fatal(err)
		}
		syncSkills(t, s, agent)
		content(t, filepath.Join(ws, "skills/x"), want)
	}
}

// BenchmarkSkillsStamp measures what each use of a sandbox costs while nothing
// changes.
func BenchmarkSkillsStamp(b *testing.B) {
	for _, n := range []int{0, 20, 200} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			agent, ws := b.TempDir(), b.TempDir()
			for i := range n {
				for _, dir := range []string{agent, ws} {
					name := filepath.Join(dir, "skills", fmt.Sprint("s", i%10), fmt.Sprint(i))
					if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, nil, 0o644)); err != nil {
						b.Fatal(err)
					}
				}
			}
			for b.Loop() {
				if _, err := SkillsStamp(b.Context(), agent, ws); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
