package cli

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAgentFiles holds which settings files an agent is shown: no credentials, no
// links, nothing that is reached through one, and no file of another kind.
func TestAgentFiles(t *testing.T) {
	home, other := t.TempDir(), t.TempDir()
	put := func(dir, name, text string) {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(home, name)); err != nil {
			t.Fatal(err)
		}
	}
	put(home, ".a/settings.json", "settings")
	put(home, ".a/auth.json", "credential")
	put(home, ".a/.credentials.json", "credential")
	put(home, ".a/skills/one/SKILL.md", "skill")
	put(home, ".a/skills/one/.env", "credential")
	put(home, ".a/skills/Key.PEM", "credential")
	put(home, ".a/skills/my-tokens.txt", "credential")
	put(home, ".a/skills/api.yml", "api_key: 0123456789")
	put(home, ".a/skills/.ssh/config", "credential")
	put(home, ".a/large", strings.Repeat("x", maxAgentFile+1))
	put(other, "config.toml", "of another folder")
	link("auth.json", ".a/linked.json")
	link(other, ".b")
	link(other, ".a/skills/linked")
	link(".a", ".c")
	files, left, err := agentFiles(home, []string{
		".a/settings.json", ".a/linked.json", ".a/skills/", ".b/config.toml", ".c/settings.json", ".a/large", ".a/missing", ".a/settings.json/", ".a", ".a/auth.json",
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(files)), []string{".a/settings.json", ".a/skills/one/SKILL.md"}; !slices.Equal(got, want) {
		t.Errorf("shown are %q, want %q", got, want)
	}
	var names []string
	for _, l := range left {
		names = append(names, l.Path)
	}
	slices.Sort(names)
	want := []string{
		"~/.a", "~/.a/auth.json", "~/.a/large", "~/.a/linked.json", "~/.a/settings.json", "~/.a/skills/.ssh", "~/.a/skills/Key.PEM", "~/.a/skills/api.yml",
		"~/.a/skills/linked", "~/.a/skills/my-tokens.txt", "~/.a/skills/one/.env", "~/.b/config.toml", "~/.c/settings.json",
	}
	if !slices.Equal(names, want) {
		t.Errorf("left out are\n%q, want\n%q", names, want)
	}
}
