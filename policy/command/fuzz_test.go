package command

import (
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
)

// FuzzJudge checks that Judge never panics, that decisions are well-formed,
// that what the text does not determine is never allowed at any strictness,
// and that a stricter level is never milder.
func FuzzJudge(f *testing.F) {
	for _, c := range readCases(f) {
		f.Add(c.text)
	}
	for _, l := range everyday(f) {
		f.Add(l)
	}
	f.Add("dd of=/" + strings.Repeat("A/", 2000) + "x") // once made a message of as many bytes
	for _, s := range []string{"a;b", "a\nb", "a&&b||c|d", "a|&b", "`a`", "\"$(a)\"", "${a}", "<(a) >(b)", `a\;b`, "'a;b'", "for x in a; do b\ndone", "case a in b);; esac", "IFS=x a", "IFS= read a", "bash -c 'a;b'"} {
		f.Add(s)
	}
	f.Add("LD_" + strings.Repeat("A", 2000) + "=1 ls")
	var policies []*Policy
	for _, s := range Strictnesses() {
		policies = append(policies, newPolicy(f, Rules{
			Strictness: s, Allow: []string{"ls:*", "npm run test:*", "git*", "*"}, Excluded: []string{"*"},
		}), newPolicy(f, Rules{Strictness: s}))
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, refused := parseLine(text, lineStart{Dir: caseDir, Home: caseHome})
		var before Decision
		for i, p := range policies {
			d := p.Judge(Input{Text: text, Dir: caseDir})
			holds(t, text, d)
			switch {
			case refused != nil && d.Verdict != policy.Deny:
				t.Errorf("%q: refused (%s) and yet %s", text, refused.Message, d.Verdict)
			case refused == nil && len(l.Unknowns) > 0 && (d.Verdict == policy.Allow || d.Excluded):
				t.Errorf("%q: %s, excluded %t, though unknown: %s", text, d.Verdict, d.Excluded, l.Unknowns[0].Why)
			}
			strict := i/2 == len(policies)/2-1
			if refused == nil && strict && len(l.Operators) > 0 && d.Verdict != policy.Deny {
				t.Errorf("%q: strict says %s though there is %+v", text, d.Verdict, l.Operators[0])
			}
			if warns := i/2 == 1 || i/2 == 2; len(d.Warnings) > 0 && !warns || refused == nil && warns && len(d.Warnings) < len(l.Operators) && len(l.Commands) > 0 && d.Verdict != policy.Deny {
				t.Errorf("%q: %d warnings of %d signs", text, len(d.Warnings), len(l.Operators))
			}
			if i%2 == 0 {
				continue
			}
			if i > 1 && policy.Strictest(before.Verdict, d.Verdict) != d.Verdict {
				t.Errorf("%q: a milder strictness says %s, a stricter one %s", text, before.Verdict, d.Verdict)
			}
			before = d
		}
	})
}

// FuzzRule holds that reading a rule never panics, that errors name the
// setting, that a rule of one form means what it says, and that a rule never
// makes a line with an unknown part allowed.
func FuzzRule(f *testing.F) {
	for _, s := range []string{"npm run test:*", "docker*", "ls", "git log:*", "*", ":*", "a'b", "rm -rf 'a b'", "a*b:*", "\x00", "  ls   -l  "} {
		f.Add(s, "ls -l")
		f.Add(s, "npm run test x; $y")
	}
	paths := casePaths(f)
	f.Fuzz(func(t *testing.T, rule, text string) {
		p, err := New(Rules{Allow: []string{"x", rule}, Home: caseHome, Paths: paths})
		if err != nil {
			if e, ok := err.(*sandbox.Error); !ok || e.Code != sandbox.CodeValidation || e.Field != "commands.allow[1]" {
				t.Fatalf("%q: %v", rule, err)
			}
			return
		}
		d := p.Judge(Input{Text: text, Dir: caseDir})
		if l, refused := parseLine(text, lineStart{Dir: caseDir, Home: caseHome}); d.Verdict == policy.Allow && (refused != nil || len(l.Unknowns) > 0) {
			t.Errorf("rule %q allows %q", rule, text)
		}
		block, err := New(Rules{Block: []string{rule}, Home: caseHome, Paths: paths})
		if err != nil {
			t.Fatalf("%q: no block rule though an allow rule: %v", rule, err)
		}
		for _, c := range d.Commands {
			if strings.TrimSpace(rule) == c.Text && !strings.Contains(rule, "*") && block.Judge(Input{Text: text, Dir: caseDir}).Verdict != policy.Deny {
				t.Errorf("rule %q does not block %q", rule, text)
			}
		}
	})
}
