package cli

import (
	"bytes"
	"strings"
	"testing"
)

func TestParsePrefixed(t *testing.T) {
	const middle = `{ shopt -u extglob || true; } >/dev/null 2>&1 || true && eval 'echo '"'"'a && pwd -P >| /tmp/claude-1-cwd'"'"'' < /dev/null`
	const snapshot = "source /home/u/.claude/shell-snapshots/snapshot-bash-17-a.sh 2>/dev/null || true && "
	for name, c := range map[string]struct{ line, text, snapshot, cwd string }{
		"bash tool":       {snapshot + middle + " && pwd -P >| /tmp/claude-f511-cwd", middle, "/home/u/.claude/shell-snapshots/snapshot-bash-17-a.sh", "/tmp/claude-f511-cwd"},
		"no snapshot":     {middle + " && pwd -P >| /var/t/claude-f-cwd", middle, "", "/var/t/claude-f-cwd"},
		"two lines":       {"eval 'a\nb' && pwd -P >| /tmp/claude-f-cwd", "eval 'a\nb'", "", "/tmp/claude-f-cwd"},
		"quoted":          {"true && pwd -P >| '/tmp/claude-f-cwd'", "true", "", "/tmp/claude-f-cwd"},
		"hook":            {"cat > out; echo done", "cat > out; echo done", "", ""},
		"another file":    {"true && pwd -P >| /etc/passwd", "true && pwd -P >| /etc/passwd", "", ""},
		"a command in it": {"true && pwd -P >| /tmp/$(id)/claude-f-cwd; x", "true && pwd -P >| /tmp/$(id)/claude-f-cwd; x", "", ""},
		"not at the end":  {middle + " && pwd -P >| /tmp/claude-f-cwd; rm x", middle + " && pwd -P >| /tmp/claude-f-cwd; rm x", "", ""},
		"another source":  {"source /etc/profile 2>/dev/null || true && true && pwd -P >| /tmp/claude-f-cwd", "source /etc/profile 2>/dev/null || true && true", "", "/tmp/claude-f-cwd"},
		"empty":           {"", "", "", ""},
	} {
		p := parsePrefixed(c.line)
		if p.text != c.text || p.snapshot != c.snapshot || p.cwdFile != c.cwd {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// TestMarker cuts an output with marks and what looks like them in pieces of every
// size.
func TestMarker(t *testing.T) {
	m := newMarker()
	mark := func(folder string) string { return m.begin + folder + "\x1e" }
	long := m.begin + strings.Repeat("x", longestMark+100)
	for name, c := range map[string]struct {
		in, out, folder string
		seen            bool
	}{
		"none":         {"a\x1eb\n", "a\x1eb\n", "", false},
		"empty":        {"", "", "", false},
		"at the end":   {"out\n" + mark("/a"), "out\n", "/a", true},
		"no line end":  {"out" + mark("/a b") + "late", "outlate", "/a b", true},
		"two":          {mark("/a") + "x" + mark("/b"), "x", "/b", true},
		"empty folder": {mark(""), "", "", true},
		"half":         {"out" + m.begin + "/a", "out" + m.begin + "/a", "", false},
		"beginning":    {"out" + m.begin[:9], "out" + m.begin[:9], "", false},
		"another's":    {"\x1e00" + mark("/a"), "\x1e00", "/a", true},
		"too long":     {long + "\x1e", long + "\x1e", "", false},
	} {
		for size := 1; size <= len(c.in)+1; size++ {
			if size > 64 && size < len(c.in) {
				continue
			}
			var out bytes.Buffer
			w := &marker{begin: m.begin, to: &out}
			for rest := c.in; rest != ""; {
				n := min(size, len(rest))
				if k, err := w.Write([]byte(rest[:n])); err != nil || k != n {
					t.Fatalf("%s: %d, %v", name, k, err)
				}
				rest = rest[n:]
			}
			err := w.flush()
			if folder, seen := w.folder(); err != nil || out.String() != c.out || folder != c.folder || seen != c.seen {
				t.Fatalf("%s in pieces of %d: %q, %q, %v, %v", name, size, out.String(), folder, seen, err)
			}
		}
	}
}
