package cli

import "testing"

func TestParsePrefixed(t *testing.T) {
	const middle = `{ shopt -u extglob || true; } >/dev/null 2>&1 || true && eval 'echo '"'"'a && pwd -P >| /tmp/claude-1-cwd'"'"'' < /dev/null`
	const snapshot = "source /home/u/.claude/shell-snapshots/snapshot-bash-17-a.sh 2>/dev/null || true && "
	for name, c := range map[string]struct{ line, text, snapshot, cwd string }{
		"bash tool":       {snapshot + middle + " && pwd -P >| /tmp/claude-f511-cwd", middle + " && pwd -P >| /tmp/claude-f511-cwd", "/home/u/.claude/shell-snapshots/snapshot-bash-17-a.sh", "/tmp/claude-f511-cwd"},
		"no snapshot":     {middle + " && pwd -P >| /var/t/claude-f-cwd", middle + " && pwd -P >| /tmp/claude-f-cwd", "", "/var/t/claude-f-cwd"},
		"two lines":       {"eval 'a\nb' && pwd -P >| /tmp/claude-f-cwd", "eval 'a\nb' && pwd -P >| /tmp/claude-f-cwd", "", "/tmp/claude-f-cwd"},
		"quoted":          {"true && pwd -P >| '/tmp/claude-f-cwd'", "true && pwd -P >| /tmp/claude-f-cwd", "", "/tmp/claude-f-cwd"},
		"hook":            {"cat > out; echo done", "cat > out; echo done", "", ""},
		"another file":    {"true && pwd -P >| /etc/passwd", "true && pwd -P >| /etc/passwd", "", ""},
		"a command in it": {"true && pwd -P >| /tmp/$(id)/claude-f-cwd; x", "true && pwd -P >| /tmp/$(id)/claude-f-cwd; x", "", ""},
		"not at the end":  {middle + " && pwd -P >| /tmp/claude-f-cwd; rm x", middle + " && pwd -P >| /tmp/claude-f-cwd; rm x", "", ""},
		"another source":  {"source /etc/profile 2>/dev/null || true && true && pwd -P >| /tmp/claude-f-cwd", "source /etc/profile 2>/dev/null || true && true && pwd -P >| /tmp/claude-f-cwd", "", "/tmp/claude-f-cwd"},
		"empty":           {"", "", "", ""},
	} {
		p := parsePrefixed(c.line)
		if p.text != c.text || p.snapshot != c.snapshot || p.cwdFile != c.cwd {
			t.Errorf("%s: %+v", name, p)
		}
	}
}
