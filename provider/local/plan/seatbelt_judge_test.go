package plan

import (
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
)

func TestSeatbeltJudge(t *testing.T) {
	r := typical()
	for i := range r.Denies {
		r.Denies[i].Rule = "deny " + r.Denies[i].Path
	}
	for i := range r.Globs {
		r.Globs[i].Rule = "glob " + r.Globs[i].Pattern
	}
	r.Tmp = append(r.Tmp, "/Users/ann/state/tmp/a")
	r.Denies = append(r.Denies, SeatbeltDeny{Path: "/Users/ann/state", Read: true, Except: []string{"/Users/ann/state/tmp/a"}, Rule: "ours"})
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
		{read, "/usr/lib/x", true, seatbeltRuleSystem, false},
		{write, "/usr/lib/x", false, RuleUnlisted, false},
		{write, "/dev/null", true, seatbeltRuleSystem, false},
		{write, "/dev/ttys003", true, seatbeltRuleSystem, false},
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

// TestJudgeOpens verifies that the Judge agrees with the profile about opens
// inside denies, and names the rule.
func TestJudgeOpens(t *testing.T) {
	r := Rules{
		Tag: "t", Writable: []string{"/w", "/ro/v/w"}, Readable: []string{"/ro", "/part/a/b/shown"}, Tmp: []string{"/tmp/t"}, Sockets: []string{"/w/a/b/sock"},
		Denies: []SeatbeltDeny{
			{Path: "/w/a", Read: true, Rule: "deny a"}, {Path: "/w/a/b/c", Read: true, Rule: "deny c"}, {Path: "/w/a/same", Read: true, Rule: "deny same"},
			{Path: "/w/a/b/.ssh", Read: true, Rule: "builtin ssh"}, {Path: "/w/a/b/fixed", Rule: "denyWrite"}, {Path: "/w/k", Read: true, Rule: "builtin k"},
			{Path: "/ro/x", Read: true, Rule: "deny x"}, {Path: "/ro/v", Read: true, Rule: "deny v"}, {Path: "/part/a", Read: true, Rule: "deny part"},
			{Path: "/w/A/Case/in", Read: true, Rule: "deny case"}, {Path: "/w/a/caf\u00e9", Read: true, Rule: "deny accent"}, {Path: "/w/many", Read: true, Rule: "deny many"},
		},
		Globs:  []Glob{{Pattern: "**/.env", Read: true, Rule: "glob env"}, {Pattern: "/w/a/p*", Read: true, Rule: "glob p"}},
		Yields: []string{"/w/a", "/w/a/b/c", "/w/a/same", "/ro/x", "/ro/v", "/part/a", "/w/A/Case/in", "/w/a/caf\u00e9", "/w/many"},
		Opens: []Open{
			{Path: "/w/a/b/e", Write: true, Rule: "write e"}, {Path: "/w/a/b", Read: true, Rule: "read b"}, {Path: "/w/a/b/c/d", Read: true, Rule: "read d"},
			{Path: "/w/a/b/c/n", Write: true, Rule: "write n"}, {Path: "/w/a/same", Read: true, Write: true, Rule: "read same"}, {Path: "/w/a/n", Write: true, Rule: "write alone"},
			{Path: "/w/k/x", Read: true, Write: true, Rule: "read k"}, {Path: "/w/a/pub", Read: true, Rule: "read pub"}, {Path: "/w/a/f", Write: true, Rule: "write f"},
			{Path: "/w/a/f", Read: true, Rule: "read f"}, {Path: "/w/a/f/ro", Read: true, Rule: "read ro"}, {Path: "/ro/x/y", Read: true, Write: true, Rule: "read y"},
			{Path: "/ro/v", Read: true, Write: true, Rule: "same v"}, {Path: "/part/a/b", Read: true, Rule: "read part"}, {Path: "/w/a/case", Read: true, Rule: "read case"},
			{Path: "/w/a/cafe\u0301", Read: true, Rule: "read accent"}, {Path: "/w/free", Read: true, Rule: "read free"}, {Path: "/", Read: true, Write: true, Rule: "read all"},
		},
	}
	for i := range 20 { // enough that an unstable sort would not keep the order by chance
		p := "/w/many/" + string(rune('a'+i))
		r.Opens = append(r.Opens, Open{Path: p, Write: true, Rule: "write many"}, Open{Path: p, Read: true, Rule: "read many"})
	}
	j, err := NewJudge(r)
	if err != nil {
		t.Fatal(err)
	}
	profile, err := Profile(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ path, read, write string }{ // the rule, after "-" where it closes
		{"/w/a", "-deny a", "-deny a"},
		{"/w/a/x", "-deny a", "-deny a"},
		{"/w/a/bx", "-deny a", "-deny a"},
		{"/w/a/B/x", "-deny a", "-deny a"}, // an open must use the exact name
		{"/w/a/b", "read b", "-deny a"},
		{"/w/a/b/x", "read b", "-deny a"},
		{"/w/a/b/c", "-deny c", "-deny c"},
		{"/w/a/b/C/x", "-deny c", "-deny c"},
		{"/w/a/b/c/d/x", "read d", "-deny c"},
		{"/w/a/b/c/n/x", "-deny c", "-deny c"}, // the allow that opens reading lies above deny c
		{"/w/a/b/e/x", "read b", "write e"},
		{"/w/a/same", "-deny same", "-deny same"},
		{"/w/a/same/x", "-deny same", "-deny same"},
		{"/w/a/n/x", "-deny a", "-deny a"},
		{"/w/a/b/.ssh/id", "-builtin ssh", "-builtin ssh"},
		{"/w/a/b/.SSH", "-builtin ssh", "-builtin ssh"},
		{"/w/a/b/.env", "-glob env", "-glob env"},
		{"/w/a/b/e/.env/x", "-glob env", "-glob env"},
		{"/w/a/pub/x", "-glob p", "-glob p"},
		{"/w/a/b/fixed/x", "read b", "-denyWrite"},
		{"/w/k/x/y", "-builtin k", "-builtin k"},
		{"/w/a/f/x", "read f", "write f"},
		{"/w/a/f/ro/x", "read ro", "-deny a"},
		{"/w/many/a", "read many", "write many"},
		{"/w/many/t/x", "read many", "write many"},
		{"/ro/x/y/f", "read y", "-deny x"}, // only readable
		{"/ro/v/w/f", "-deny v", "-deny v"},
		{"/part/a/b/f", "-deny part", "-deny part"}, // no view shows it
		{"/part/a/b/shown/f", "read part", "-deny part"},
		{"/w/a/case/x", "read case", "-deny a"},
		{"/w/a/case/in/x", "-deny case", "-deny case"},
		{"/w/a/cafe\u0301/x", "-deny accent", "-deny accent"},
		{"/w/free/x", "writable: /w", "writable: /w"}, // no deny applies, so the open takes nothing away
		{"/w/x", "writable: /w", "writable: /w"},
	} {
		for op, want := range map[sandbox.Operation]string{sandbox.OpRead: tt.read, sandbox.OpWrite: tt.write} {
			got := j.Judge(op, tt.path)
			rule, closed := strings.CutPrefix(want, "-")
			if v := (sandbox.Verdict{Allowed: !closed, Rule: rule, Builtin: closed, HostPath: tt.path}); got != v {
				t.Errorf("%s %s: got %+v, want %q", op, tt.path, got, want)
			}
			name := map[sandbox.Operation]string{sandbox.OpRead: "file-read*", sandbox.OpWrite: "file-write*"}[op]
			if lets(t, profile, name, tt.path) != got.Allowed {
				t.Errorf("%s %s: the judge says %v, the profile does not", op, tt.path, got.Allowed)
			}
		}
	}
	if v := j.Judge(sandbox.OpConnect, "/w/a/b/sock"); v.Allowed || v.Rule != "deny a" || strings.Contains(profile, "unix-socket") {
		t.Errorf("a socket is opened with the folder: %+v", v)
	}
}

// TestJudgeKnowsTheSystem verifies that the Judge allows reading the system
// paths that the profile allows.
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
