package seatbelt

import (
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
)

func TestJudge(t *testing.T) {
	r := typical()
	for i := range r.Denies {
		r.Denies[i].Rule = "deny " + r.Denies[i].Path
	}
	for i := range r.Globs {
		r.Globs[i].Rule = "glob " + r.Globs[i].Pattern
	}
	r.Tmp = append(r.Tmp, "/Users/ann/state/tmp/a")
	r.Denies = append(r.Denies, Deny{Path: "/Users/ann/state", Read: true, Except: []string{"/Users/ann/state/tmp/a"}, Rule: "ours"})
	j, err := NewJudge(r)
	if err != nil {
		t.Fatal(err)
	}
	profile, err := Profile(r)
	if err != nil {
		t.Fatal(err)
	}
	const read, write, connect = sandbox.OpRead, sandbox.OpWrite, sandbox.OpConnect
	for _, tt := range []struct {
		op      sandbox.Operation
		path    string
		allowed bool
		rule    string
		builtin bool
	}{
		{read, "/Users/ann/work/a", true, "writable: /Users/ann/work", false},
		{write, "/Users/ann/work/a", true, "writable: /Users/ann/work", false},
		{write, "/Users/ann/Work/a", false, RuleUnlisted, false}, // the profile names it in lower case
		{read, "/opt/tools/x", true, "readable: /opt/tools", false},
		{write, "/opt/tools/x", false, RuleUnlisted, false},
		{read, "/opt/toolsx", false, RuleUnlisted, false},
		{read, "/Users/ann/other", false, RuleUnlisted, false},
		{read, "/Users/ann/.ssh/id", false, "deny /Users/ann/.ssh", true},
		{read, "/Users/ann/.SSH/id", false, "deny /Users/ann/.ssh", true},
		{write, "/Users/ann/work/.git/hooks/x", false, "deny /Users/ann/work/.git/hooks", true},
		{read, "/Users/ann/work/.git/hooks/x", true, "writable: /Users/ann/work", false},
		{read, "/Users/ann/work/.env", false, "glob **/.env", true},
		{read, "/Users/ann/work/.env.example", true, "writable: /Users/ann/work", false},
		{write, "/private/tmp/sbx-1/x", true, ruleTmp, false},
		{write, "/Users/ann/state/tmp/a/x", true, ruleTmp, false},
		{read, "/Users/ann/state/tmp/ab", false, "ours", true},
		{read, "/Users/ann/state", false, "ours", true},
		{read, "/usr/lib/x", true, ruleSystem, false},
		{write, "/usr/lib/x", false, RuleUnlisted, false},
		{write, "/dev/null", true, ruleSystem, false},
		{write, "/dev/ttys003", true, ruleSystem, false},
		{read, "/dev/disk0", false, RuleUnlisted, false},
		{connect, "/private/var/run/agent.sock", true, "filesystem.allowUnixSockets: /private/var/run/agent.sock", false},
		{connect, "/Users/ann/work/x.sock", false, RuleUnlisted, false},
	} {
		want := sandbox.Verdict{Allowed: tt.allowed, Rule: tt.rule, Builtin: tt.builtin, HostPath: tt.path}
		if got := j.Judge(tt.op, tt.path); got != want {
			t.Errorf("%s %s: got %+v", tt.op, tt.path, got)
		}
		for op, name := range map[sandbox.Operation]string{read: "file-read*", write: "file-write*"} {
			if got := closes(t, profile, name, tt.path); tt.op == op && got != tt.builtin {
				t.Errorf("the profile closes %s to %s: %v", tt.path, op, got)
			}
		}
	}
}

// TestJudgeKnowsTheSystem holds that what the profile lets every program read is
// what the Judge says of it.
func TestJudgeKnowsTheSystem(t *testing.T) {
	j, err := NewJudge(Rules{Tag: "t"})
	if err != nil {
		t.Fatal(err)
	}
	profile, err := Profile(Rules{Tag: "t"})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range readProfile(t, profile) {
		if e.list[0].atom != "allow" {
			continue
		}
		op := sandbox.Operation("")
		for _, x := range e.list[1:] {
			switch {
			case x.atom == "file-read*" && op == "":
				op = sandbox.OpRead
			case x.atom == "file-write*":
				op = sandbox.OpWrite
			case op != "" && len(x.list) == 2 && (x.list[0].atom == "literal" || x.list[0].atom == "subpath"):
				n++
				if v := j.Judge(op, x.list[1].text); !v.Allowed {
					t.Errorf("%s %s: %+v", op, x.list[1].text, v)
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d paths were found in\n%s", n, profile)
	}
	for _, p := range []string{"/private/etc/passwd", "/Users", "/Applications", "/private/var/db/x", strings.ToUpper("/usr/lib")} {
		if v := j.Judge(sandbox.OpRead, p); v.Allowed {
			t.Errorf("%s: %+v", p, v)
		}
	}
}
