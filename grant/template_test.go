package grant_test

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/grant"
)

// running returns a guard that lets git run by the templates alone.
func running(t testing.TB, manifest, policy []grant.Template) *grant.Guard {
	t.Helper()
	g, m, p := aGrant(), aManifest(), aPolicy()
	m.Commands, p.Commands = manifest, policy
	return guarded(t, g, m, p)
}

func runs(g *grant.Guard, args ...string) bool {
	return g.Validate(grant.Operation{Kind: grant.OpProcExec, Tool: "git", Args: args}, now()) == nil
}

// TestPatternsAreWhole checks that a pattern has to match all of an argument,
// whatever is written in it.
func TestPatternsAreWhole(t *testing.T) {
	tests := []struct{ pattern, yes, no string }{
		{"a", "a", "ba|ab|b|a\n|\na"},
		{"a|b", "a|b", "ab|xa|bx"},
		{"a|ab", "a|ab", "abb|aab"},
		{"a*?", "a|aaa", "ab"},
		{"^a$", "a", "ba|ab|a\nb"},
		{"(?m)^a$", "a", "a\nb|b\na"},
		{".*", "a|abc", "a\nb"},
		{"(?s).*", "a\nb|a", "\x00"},
		{"(?i)abc", "ABC|abc", "abcd"},
		{`\Qa.b`, "a.b", "axb|a.bc|xa.b"},
		{`\Qa)|(?:`, "a)|(?:", "a|)|x"},
		{"a#comment", "a#comment", "a"},
		{"[0-9]{1,3}", "1|123", "1234|12a"},
		{"()|x", "x", "y|xx"},
	}
	for _, tt := range tests {
		g := running(t, []grant.Template{{Tool: "git", Args: []grant.Argument{{Pattern: tt.pattern}}}}, nil)
		whole := regexp.MustCompile("^(?:" + strings.NewReplacer(`\Qa.b`, `a\.b`, `\Qa)|(?:`, `a\)\|\(\?:`).Replace(tt.pattern) + ")\\z")
		sep := "|"
		if strings.HasPrefix(tt.pattern, `\Qa)`) {
			sep = "\t"
		}
		for _, s := range strings.Split(tt.yes, sep) {
			if !runs(g, s) {
				t.Errorf("%q does not match %q", tt.pattern, s)
			}
			if !whole.MatchString(s) {
				t.Errorf("the test is wrong about %q and %q", tt.pattern, s)
			}
		}
		for _, s := range strings.Split(tt.no, sep) {
			if runs(g, s) {
				t.Errorf("%q matches %q", tt.pattern, s)
			}
		}
	}
}

// TestTemplateWays checks that optional arguments and a rest are found whichever
// way through a template it takes, against a check that tries all ways.
func TestTemplateWays(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 5))
	words := []string{"a", "b", "c"}
	yes := 0
	for n := range 300 {
		tpl := grant.Template{Tool: "git"}
		for range r.IntN(5) {
			tpl.Args = append(tpl.Args, grant.Argument{OneOf: some(r, words), Optional: r.IntN(2) == 0})
		}
		if r.IntN(3) == 0 {
			tpl.Rest = &grant.Argument{OneOf: some(r, words)}
		}
		g := running(t, []grant.Template{tpl}, nil)
		for range 60 {
			args := make([]string, r.IntN(6))
			for i := range args {
				args[i] = one(r, words)
			}
			want := fits(tpl.Args, tpl.Rest, args)
			if got := runs(g, args...); got != want {
				t.Fatalf("round %d: %+v for %v is %v, want %v", n, tpl, args, got, want)
			}
			if want {
				yes++
			}
		}
	}
	if yes < 1000 {
		t.Errorf("only %d have matched: the test does not try enough", yes)
	}
}

func fits(tpl []grant.Argument, rest *grant.Argument, args []string) bool {
	if len(tpl) == 0 {
		for _, a := range args {
			if rest == nil || !slices.Contains(rest.OneOf, a) {
				return false
			}
		}
		return true
	}
	return tpl[0].Optional && fits(tpl[1:], rest, args) ||
		len(args) > 0 && slices.Contains(tpl[0].OneOf, args[0]) && fits(tpl[1:], rest, args[1:])
}

// TestTemplatesOfBoth checks that arguments have to satisfy a template of the
// manifest, and one of the policy where it has one for the program.
func TestTemplatesOfBoth(t *testing.T) {
	word := func(w ...string) grant.Template {
		return grant.Template{Tool: "git", Args: []grant.Argument{{OneOf: w}}}
	}
	both := running(t, []grant.Template{word("a", "b"), word("c")}, []grant.Template{word("b", "c"), word("d")})
	for arg, want := range map[string]bool{"a": false, "b": true, "c": true, "d": false} {
		if got := runs(both, arg); got != want {
			t.Errorf("%s: %v, want %v", arg, got, want)
		}
	}
	if !runs(running(t, []grant.Template{word("a")}, []grant.Template{{Tool: "make"}}), "a") {
		t.Error("a policy without template for the program takes it away")
	}
	if runs(running(t, nil, []grant.Template{word("a")}), "a") {
		t.Error("a policy gives arguments that no manifest declares")
	}
	if runs(running(t, nil, []grant.Template{word("a")})) {
		t.Error("a program runs without the arguments that the policy wants")
	}
	if !runs(running(t, []grant.Template{{Tool: "git", Args: []grant.Argument{{OneOf: []string{""}}}}}, nil), "") {
		t.Error("an empty word is a word")
	}
}

// TestLongTemplate checks that the bound of a template is one that works.
func TestLongTemplate(t *testing.T) {
	tpl := grant.Template{Tool: "git", Rest: &grant.Argument{OneOf: []string{"z"}}}
	for range 63 {
		tpl.Args = append(tpl.Args, grant.Argument{OneOf: []string{"a"}, Optional: true})
	}
	g := running(t, []grant.Template{tpl}, nil)
	if args := slices.Repeat([]string{"a"}, 63); !runs(g, append(args, "z", "z")...) || runs(g, append(args, "a")...) {
		t.Error("63 arguments and a rest are not told apart")
	}
	m := aManifest()
	m.Commands[0].Args = append(tpl.Args, tpl.Args[0])
	_, err := grant.Build(aGrant(), m, aPolicy(), noon())
	refused(t, err, malformed, "manifest.commands[0].args")
	p := built(t, aGrant(), aManifest(), aPolicy())
	p.Commands = m.Commands
	p.Hash = p.Sum()
	_, err = grant.Compile(p)
	refused(t, err, malformed, "profile.commands[0].args")
}
