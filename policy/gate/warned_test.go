package gate_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/gate"
)

// corpus are the lines that coding agents run, of the tests of the policy.
func corpus(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, name := range []string{"everyday", "ordinary"} {
		text, err := os.ReadFile("../command/testdata/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		for l := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
			out = append(out, strings.ReplaceAll(l, "⏎", "\n"))
		}
	}
	return out
}

// TestWarned holds which warnings reach the one who runs a line.
func TestWarned(t *testing.T) {
	const (
		normal     = `"commands": {"strictness": "normal"}`
		restricted = `"commands": {"strictness": "restricted"}`
		permissive = `"commands": {"strictness": "permissive"}`
		strict     = `"commands": {"strictness": "strict"}`
	)
	sh := func(text string) gate.Call { return gate.Call{Args: []string{"sh", "-c", text}} }
	for _, tt := range []struct {
		settings string
		call     gate.Call
		reported string // warnings of the decision, which check and explain show
		warned   string // those that reach the one who runs it
	}{
		{restricted, gate.Call{Line: "ls | wc; pwd"}, `"|" pipes one command into another, ";" chains commands`, ""},
		{restricted, gate.Call{Line: "echo $(id)"}, `"$(" puts in what a command prints`, `"$(" puts in what a command prints`},
		{normal, gate.Call{Line: "ls; echo `id`"}, "\";\" chains commands, \"`\" puts in what a command prints", "\";\" chains commands, \"`\" puts in what a command prints"},
		{normal, gate.Call{Line: "diff <(a) <(b)"}, `"<(" puts in a file that a command writes (and 1 more)`, `"<(" puts in a file that a command writes (and 1 more)`},
		{normal, gate.Call{Line: "IFS=/ x"}, "IFS changes where the shell cuts words", "IFS changes where the shell cuts words"},
		{normal, gate.Call{Line: "while IFS= read -r l; do echo x; done < a"}, `";" chains commands (and 1 more)`, ""},
		{permissive, gate.Call{Line: "ls; echo $(id)"}, "", ""},
		{permissive, gate.Call{Line: "IFS=/ x"}, "", ""},
		{strict, gate.Call{Line: "ls; echo $(id)"}, "", ""},
		{restricted, sh("make -j$(nproc)"), `"$(" puts in what a command prints`, ""},
		{restricted, gate.Call{Args: []string{"/bin/bash", "-lc", "x=$(date); echo $x"}}, `";" chains commands, "$(" puts in what a command prints`, ""},
		{restricted, sh("make -j$(id)"), `"$(" puts in what a command prints`, `"$(" puts in what a command prints`},
		{restricted, gate.Call{Args: []string{"sh", "-c", "make -j$(nproc)", "x"}}, `"$(" puts in what a command prints`, `"$(" puts in what a command prints`},
		{restricted, gate.Call{Args: []string{"echo", "a; b && $(c)"}}, "", ""},
		{restricted, gate.Call{Line: ""}, "", ""},
		{restricted, gate.Call{Line: "ls ä; echo $(id)"}, `";" chains commands, "$(" puts in what a command prints`, `";" chains commands, "$(" puts in what a command prints`},
	} {
		j := gateOf(t, tt.settings).Judge(tt.call)
		var reported []string
		for _, w := range j.Warnings {
			if reported = append(reported, w.Message); w.Verdict != policy.Allow || w.Severity != policy.Medium || w.Hint == "" || w.Span.Of(j.Text) == "" {
				t.Errorf("%+v: %+v", tt.call, w)
			}
		}
		if got := strings.Join(reported, ", "); got != tt.reported {
			t.Errorf("%+v: told %q, want %q", tt.call, got, tt.reported)
		}
		if got := strings.Join(j.Warned(), ", "); got != tt.warned {
			t.Errorf("%+v: warned of %q, want %q", tt.call, got, tt.warned)
		}
		if j.Warnings == nil {
			t.Errorf("%+v: no list", tt.call)
		}
	}
}

// TestWarnedSeldom holds how few of the lines that coding agents run reach the
// one who runs them with a warning, by themselves and as a text for a shell.
func TestWarnedSeldom(t *testing.T) {
	lines := corpus(t)
	for _, s := range []string{"normal", "restricted"} {
		g := gateOf(t, `"commands": {"strictness": "`+s+`"}`)
		var byItself, inShell []string
		for _, l := range lines {
			if len(g.Judge(gate.Call{Line: l}).Warned()) > 0 {
				byItself = append(byItself, l)
			}
			if len(g.Judge(gate.Call{Args: []string{"bash", "-lc", l}}).Warned()) > 0 {
				inShell = append(inShell, l)
			}
		}
		if len(lines) != 296 || len(byItself) > 3 || !slices.Equal(byItself, inShell) {
			t.Errorf("%s: of %d lines warned of %d: %q; in a shell of %d: %q", s, len(lines), len(byItself), byItself, len(inShell), inShell)
		}
	}
}
