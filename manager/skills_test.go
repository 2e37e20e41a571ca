//go:build linux

package manager_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestSkillsAtEachUse holds that whatever uses a sandbox next sees the skills that
// the agent's folder has now: commands, lines of a shell that stays, files, and all
// of another program.
func TestSkillsAtEachUse(t *testing.T) {
	t.Parallel()
	for _, access := range []string{"none", "ro"} {
		settings := func(t *testing.T, wall string) (agent, text string) {
			agent = t.TempDir()
			must(t, os.Chmod(agent, 0o755))
			return agent, `{"agents": {"defaults": {"sandbox": {"provider": "` + wall + `", "workspaceAccess": "` + access + `"}}, "list": [{"id": "main", "workspace": "` + agent + `"}]}}`
		}
		t.Run("docker, "+access, func(t *testing.T) {
			if access == "ro" {
				testenv.Exhaustive(t, "what is the same with the other access and in a local sandbox")
			}
			r := newRig(t)
			agent, text := settings(t, "docker")
			testSkills(t, agent, func() *manager.Manager { return r.manager(text) })
		})
		t.Run("local, "+access, func(t *testing.T) {
			if access == "none" {
				testenv.Exhaustive(t, "what is the same with the other access and in a container")
			}
			agent, text := settings(t, "local")
			parsed, err := config.Parse("test", []byte(text))
			must(t, err)
			w := newSandboxed(t, func(o *manager.Options, _ *statedir.Dir) { o.Settings = parsed })
			testSkills(t, agent, func() *manager.Manager { return w.Manager })
		})
	}
}

func testSkills(t *testing.T, agent string, start func() *manager.Manager) {
	m := start()
	skill := filepath.Join(agent, "skills/a/SKILL.md")
	set := func(text string) {
		t.Helper()
		must(t, os.MkdirAll(filepath.Dir(skill), 0o755))
		must(t, os.WriteFile(skill, []byte(text), 0o644))
	}
	const show = "cat skills/a/SKILL.md 2>/dev/null || echo none"
	line := func(s *manager.Shell) string {
		t.Helper()
		var out bytes.Buffer
		_, err := s.Run(t.Context(), manager.Line{Text: show, Stdout: &out})
		must(t, err)
		return strings.TrimSpace(out.String())
	}
	var shell *manager.Shell
	defer func() {
		if shell != nil {
			shell.Close()
		}
	}()
	uses := []struct {
		name string
		see  func() string
	}{
		{"a command", func() string { out, _ := mustRun(t, m, "s", show); return out }},
		{"a line of a shell", func() string {
			if shell == nil {
				var err error
				shell, err = m.OpenShell(t.Context(), manager.Request{Who: who("s")}, sandbox.ShellOptions{})
				must(t, err)
			}
			return line(shell)
		}},
		{"files", func() (text string) {
			must(t, withFiles(t, m, "s", func(ctx context.Context, f manager.Share) error {
				r, err := f.Read(ctx, "skills/a/SKILL.md", 0, -1)
				if sandbox.IsNotFound(err) {
					text = "none"
					return nil
				}
				must(t, err)
				defer r.Close()
				b, err := io.ReadAll(r)
				text = string(b)
				return err
			}))
			return text
		}},
		{"an opened session", func() string {
			s, err := m.Open(t.Context(), manager.Request{Who: who("s")})
			must(t, err)
			defer s.Close()
			r, err := s.Files.Read(t.Context(), "skills/a/SKILL.md", 0, -1)
			if sandbox.IsNotFound(err) {
				return "none"
			}
			must(t, err)
			defer r.Close()
			b, err := io.ReadAll(r)
			must(t, err)
			return string(b)
		}},
		{"another program", func() string {
			before := m
			defer func() { m = before }()
			m = start()
			out, _ := mustRun(t, m, "s", show)
			return out
		}},
	}
	if out, o := mustRun(t, m, "s", show); out != "none" || !o.Created {
		t.Fatalf("without skills: %q, %+v", out, o)
	}
	for _, use := range uses {
		for _, text := range []string{"one of " + use.name, "two of " + use.name} {
			set(text)
			if got := use.see(); got != text {
				t.Errorf("%s sees %q, want %q", use.name, got, text)
			}
		}
		must(t, os.RemoveAll(filepath.Join(agent, "skills")))
		if got := use.see(); got != "none" {
			t.Errorf("%s sees %q of a skill that is gone", use.name, got)
		}
	}
	set("ours")
	if out, _ := mustRun(t, m, "s", "echo own > skills/a/SKILL.md; echo more > skills/more; ln -s /etc/passwd skills/link"); out != "" {
		t.Errorf("%q", out)
	}
	set("newer")
	must(t, os.WriteFile(filepath.Join(agent, "skills/link"), []byte("x"), 0o644))
	if out, _ := mustRun(t, m, "s", "cat skills/a/SKILL.md skills/more; readlink skills/link"); out != "own\nmore\n/etc/passwd" {
		t.Errorf("what was made inside: %q", out)
	}
}
