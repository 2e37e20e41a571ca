package command

import (
	"errors"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
)

func TestNewNamesTheSetting(t *testing.T) {
	long := strings.Repeat("a", 2000)
	for _, c := range []struct {
		name  string
		rules Rules
		field string
	}{
		{"strictness", Rules{Strictness: "lax"}, "commands.strictness"},
		{"empty", Rules{Allow: []string{"ls", " "}}, "commands.allow[1]"},
		{"prefix without words", Rules{Block: []string{":*"}}, "commands.block[0]"},
		{"two forms", Rules{Excluded: []string{"ls", "a", "a*b:*"}}, "commands.excluded[2]"},
		{"control character", Rules{SubagentBlock: []string{"a\nb"}}, "commands.subagentBlock[0]"},
		{"no UTF-8", Rules{Allow: []string{"a\xff"}}, "commands.allow[0]"},
		{"too long", Rules{Allow: []string{long}}, "commands.allow[0]"},
		{"too many", Rules{Block: make([]string, 2000)}, "commands.block"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(c.rules)
			var e *sandbox.Error
			if !errors.As(err, &e) || e.Code != sandbox.CodeValidation || e.Field != c.field || e.Hint == "" {
				t.Errorf("New: %#v, want a validation error about %s with a hint", err, c.field)
			}
		})
	}
}

func TestStrictnessesMapSeverities(t *testing.T) {
	for _, c := range []struct {
		s    Strictness
		text string // finds low, medium, high and critical in turn
		want policy.Verdict
	}{
		{Permissive, "make", policy.Allow}, {Permissive, "python3 -c 1", policy.Allow},
		{Permissive, "chmod -R 777 .", policy.Ask}, {Permissive, "reboot", policy.Deny},
		{Normal, "make", policy.Allow}, {Normal, "python3 -c 1", policy.Allow},
		{Normal, "chmod -R 777 .", policy.Ask}, {Normal, "reboot", policy.Deny},
		{Restricted, "make", policy.Allow}, {Restricted, "python3 -c 1", policy.Ask},
		{Restricted, "chmod -R 777 .", policy.Ask}, {Restricted, "reboot", policy.Deny},
		{Strict, "make", policy.Ask}, {Strict, "python3 -c 1", policy.Deny},
		{Strict, "chmod -R 777 .", policy.Deny}, {Strict, "reboot", policy.Deny},
	} {
		d := newPolicy(t, Rules{Strictness: c.s}).Judge(Input{Text: c.text, Dir: caseDir})
		if d.Verdict != c.want {
			t.Errorf("%s %q: %s, want %s", c.s, c.text, d.Verdict, c.want)
		}
	}
}

func TestReasonsAreOrderedAndBounded(t *testing.T) {
	var b strings.Builder
	for range 60 {
		b.WriteString("chmod -R 777 x; ")
	}
	b.WriteString("rm -rf /")
	p := newPolicy(t, Rules{Strictness: Normal})
	d := p.Judge(Input{Text: b.String(), Dir: caseDir})
	if len(d.Reasons) != 33 || d.Reasons[0].Verdict != policy.Deny || !strings.HasPrefix(d.Reasons[32].Message, "and ") {
		t.Fatalf("%d reasons, first %+v", len(d.Reasons), d.Reasons[0])
	}
	for i := 2; i < 32; i++ {
		a, b := d.Reasons[i-1], d.Reasons[i]
		if a.Verdict == b.Verdict && a.Span.Start > b.Span.Start {
			t.Errorf("reason %d at %d comes before one at %d", i-1, a.Span.Start, b.Span.Start)
		}
	}
}

func TestReasonsNameThePart(t *testing.T) {
	p := newPolicy(t, Rules{Strictness: Normal, Block: []string{"sudo*"}})
	for _, c := range []struct{ text, check, part, message string }{
		{"ls && rm -rf / && pwd", "removal", "/", "rm removes /"},
		{"ls; sudo make", "rule", "sudo make", `the rule "sudo*"`},
		{"echo $(id -u)", "metacharacter", "$(id -u)", "$(id -u)"},
		{"make | sort -o x", "interpreter", "sort -o x", "sort writes a file"},
		{"cat a ~/.ssh/id_rsa", "sensitive-file", "~/.ssh/id_rsa", "/home/dev/.ssh/id_rsa"},
	} {
		d := p.Judge(Input{Text: c.text, Dir: caseDir})
		found := false
		for _, r := range d.Reasons {
			found = found || r.Check == c.check && r.Span.Of(c.text) == c.part && strings.Contains(r.Message, c.message) && r.Hint != ""
		}
		if !found {
			t.Errorf("%q: no reason of %s about %q that says %q: %+v", c.text, c.check, c.part, c.message, d.Reasons)
		}
	}
}

func TestCommandsAreReported(t *testing.T) {
	p := newPolicy(t, Rules{Strictness: Normal})
	d := p.Judge(Input{Text: `FOO=1 timeout 5 git commit -m 'a b' | bash -c "wc -l"`, Dir: caseDir})
	if len(d.Commands) != 2 {
		t.Fatalf("%d commands: %+v", len(d.Commands), d.Commands)
	}
	first, second := d.Commands[0], d.Commands[1]
	if first.Text != "git commit -m 'a b'" || len(first.Words) != 4 || first.Words[3] != "a b" || strings.Join(first.Wrappers, " ") != "timeout" {
		t.Errorf("first: %+v", first)
	}
	if second.Text != "wc -l" || strings.Join(second.Wrappers, " ") != "bash" || !strings.Contains(second.Via, "nested-shell") {
		t.Errorf("second: %+v", second)
	}
}

// TestNothingIsKnown holds that lines are judged where neither home nor
// working directory is known and no path policy is given.
func TestNothingIsKnown(t *testing.T) {
	p, err := New(Rules{Strictness: Normal})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]policy.Verdict{
		"": policy.Allow, "# a comment": policy.Allow, "rm -rf build": policy.Allow, "touch /opt/x": policy.Allow,
		"rm -rf ~": policy.Deny, `rm -rf "$HOME"/`: policy.Deny, "rm -rf ~/*": policy.Deny, "rm -rf .": policy.Deny,
		"rm -rf *": policy.Ask, "cat ~/.ssh/id_rsa": policy.Ask, "cat .env": policy.Ask,
		"ls > ~/.bashrc": policy.Deny, "echo x > .git/hooks/a": policy.Deny, "cd / && rm -rf *": policy.Deny,
	} {
		d := p.Judge(Input{Text: text})
		holds(t, text, d)
		if d.Verdict != want {
			t.Errorf("%q: %s, want %s: %+v", text, d.Verdict, want, d.Reasons)
		}
	}
}

// TestRulesCannotBeFooled holds that one word never passes for two, and that
// what is written never passes for what is known.
func TestRulesCannotBeFooled(t *testing.T) {
	p := newPolicy(t, Rules{Strictness: Strict, Allow: []string{"git log", "a $x", "cp a b:*"}})
	for text, want := range map[string]policy.Verdict{
		"git log": policy.Allow, "git  log": policy.Allow, `"git" 'log'`: policy.Allow, `g\it log`: policy.Allow,
		"'git log'": policy.Ask, `git\ log`: policy.Ask, "git log x": policy.Ask, "a '$x'": policy.Ask,
		"cp a b": policy.Allow, "cp a 'b c'": policy.Ask, "cp 'a b'": policy.Ask, "cp a b c": policy.Allow,
	} {
		if d := p.Judge(Input{Text: text, Dir: caseDir}); d.Verdict != want {
			t.Errorf("%q: %s, want %s: %+v", text, d.Verdict, want, d.Reasons)
		}
	}
}
