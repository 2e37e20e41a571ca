package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/policy/command"
	"github.com/bulkhead-dev/sandbox/policy/path"
)

// TestCheckRules checks that check --rules shows every entry of a check and no
// other, in both formats, and reads no settings for it.
func TestCheckRules(t *testing.T) {
	b := &fake{err: errTest} // settings that cannot be read
	lines := map[string]int{sensitiveFile: len(path.Entries()), "all": len(path.Entries())}
	for _, e := range command.Entries() {
		lines[e.Check]++
		lines["all"]++
	}
	for _, check := range checksWithRules() {
		r := call(t, b, "check", "--rules", check)
		got := strings.Split(strings.TrimSpace(r.stdout), "\n")
		if r.status != 0 || len(got) != lines[check]+1 || lines[check] < 10 {
			t.Errorf("%s: status %d, %d lines, want %d and the head: %s", check, r.status, len(got), lines[check], r.stderr)
		}
		for _, line := range got[1:] {
			if check != "all" && !strings.HasPrefix(line, check+" ") {
				t.Errorf("%s shows %q", check, line)
			}
		}
		r = call(t, b, "check", "-o", "json", "--rules", check)
		var rules builtinRules
		if err := json.Unmarshal([]byte(r.stdout), &rules); err != nil || len(rules.Commands)+len(rules.Files) != lines[check] {
			t.Errorf("%s as JSON: %d and %d entries, %v", check, len(rules.Commands), len(rules.Files), err)
		}
		if check == "all" && !slices.ContainsFunc(rules.Files, func(e path.Entry) bool { return e.Pattern == "**/.ssh" }) {
			t.Error("no entry is about .ssh")
		}
	}
	for args, says := range map[string]string{"--rules removal": "one of all, metacharacter", "--rules all -- ls": `leave out "ls"`} {
		if r := call(t, b, append([]string{"check"}, strings.Fields(args)...)...); r.status != 2 || !strings.Contains(r.stderr, says) {
			t.Errorf("%s: status %d, %s", args, r.status, r.stderr)
		}
	}
}
