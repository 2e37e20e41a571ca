//go:build linux

package local_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// guarded are the files and folders that nothing inside may change.
func (s *fixture) guarded() []string {
	list := []string{
		s.agent + "/secret.txt", s.agent + "/vault/inner/key", s.agent + "/.env", s.agent + "/sub/.env", s.agent + "/frozen", s.agent + "/deploy", s.write + "/deploy",
		s.read, s.write + "/private", s.write + "/locked", s.write + "/deep/er/.env", s.outside,
		s.write + "/.claude", s.write + "/.mcp.json", s.write + "/.vscode",
		s.agent + "/.claude/settings.json", s.agent + "/.vscode/tasks.json", s.agent + "/.idea/workspace.xml", s.agent + "/.zed/tasks.json",
		s.spec.Guest.Dir,
		"/etc/passwd", "/etc/ld.so.preload", "/etc/profile",
	}
	if s.lax && s.startup {
		return list[:0:0]
	}
	if !s.startup {
		list = append(list, s.home)
	}
	return list
}

// fingerprint describes the guarded files.
func (s *fixture) fingerprint() string {
	var b strings.Builder
	for _, root := range s.guarded() {
		err := filepath.WalkDir(root, func(p string, _ fs.DirEntry, err error) error {
			if err != nil {
				fmt.Fprintln(&b, p, "missing")
				return nil
			}
			st, err := os.Lstat(p)
			if err != nil {
				return err
			}
			sys := st.Sys().(*syscall.Stat_t)
			fmt.Fprint(&b, p, " ", st.Mode(), " ", sys.Uid, " ", sys.Ino)
			switch {
			case filepath.Dir(p) == s.spec.Guest.Dir:
				// Nothing but a change of the program changes this time, and it is
				// large: to read it each time would take longer than an attempt.
				fmt.Fprint(&b, " ", st.Size(), " ", sys.Ctim.Nano())
			case st.Mode().IsRegular():
				content, err := os.ReadFile(p)
				if err != nil {
					return err
				}
				fmt.Fprintf(&b, " %x %s", sha256.Sum256(content), st.ModTime())
			}
			fmt.Fprintln(&b)
			return nil
		})
		must(s, err)
	}
	return b.String()
}

// remember notes how the guarded files look now.
func (s *fixture) remember() { s.before = s.fingerprint() }

// damage says what an attempt that printed out has done, or nothing.
func (s *fixture) damage(out string) []string {
	var found []string
	if strings.Contains(out, s.token) {
		found = append(found, "the secret was printed")
	}
	if strings.Contains(out, "WORKED") || strings.Contains(out, "probe: escaped") {
		found = append(found, "it says that it worked")
	}
	if now := s.fingerprint(); now != s.before {
		found = append(found, "guarded files have changed: "+firstDifference(s.before, now))
	}
	for _, ask := range s.ears {
		if !ask() {
			found = append(found, "who listens on the host does not hear any more")
		}
	}
	if n := s.contacts.Swap(0); n > 0 {
		found = append(found, fmt.Sprintf("the host was reached %d times", n))
	}
	found = append(found, s.copies()...)
	for _, trap := range s.traps {
		if what := trap(); what != "" {
			found = append(found, what)
		}
	}
	return found
}

func firstDifference(a, b string) string {
	before, now := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range before {
		if i >= len(now) || before[i] != now[i] {
			return fmt.Sprintf("%q, now %q", before[i], now[min(i, len(now)-1)])
		}
	}
	return "more files"
}

// copies finds the token where code inside could have put it.
func (s *fixture) copies() []string {
	var found []string
	known := s.secrets()
	for _, root := range []string{s.agent, s.write} {
		_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || slices.Contains(known, p) || strings.HasPrefix(filepath.Base(p), "planted") {
				return nil
			}
			content, err := os.ReadFile(p)
			if err == nil && bytes.Contains(content, []byte(s.token)) {
				found = append(found, "the secret lies in "+p)
			}
			return nil
		})
	}
	return found
}
