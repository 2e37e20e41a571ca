package command

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/path"
)

// Where the lines of the table run.
const (
	caseHome = "/home/dev"
	caseDir  = "/home/dev/work"
)

// A tableCase is one expectation of testdata/cases.txt.
type tableCase struct {
	at         string // file:line
	text       string
	strictness Strictness
	verdict    policy.Verdict
	check      string // "removal/critical-path", "removal" or empty
	excluded   string // "excluded", "kept" or empty
	why        string
	rules      Rules
	subagent   bool
}

// readCases reads the table.
func readCases(t testing.TB) []tableCase {
	t.Helper()
	f, err := os.Open("testdata/cases.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []tableCase
	var text string
	var rules Rules
	subagent, wanted := false, false
	sc := bufio.NewScanner(f)
	for n := 1; sc.Scan(); n++ {
		row, at := sc.Text(), fmt.Sprintf("cases.txt:%d", n)
		switch {
		case strings.HasPrefix(row, "$ "):
			if wanted {
				t.Fatalf("%s: the line before has no expectation", at)
			}
			text, wanted = unescape(t, at, row[2:]), true
		case strings.HasPrefix(row, "> "), row == ">":
			text += "\n" + unescape(t, at, strings.TrimPrefix(row[1:], " "))
		case strings.HasPrefix(row, "@ "):
			directive(t, at, row[2:], &rules, &subagent)
		case strings.HasPrefix(row, "  "):
			c := expectation(t, at, row)
			c.text, c.rules, c.subagent, wanted = text, rules, subagent, false
			out = append(out, c)
		case row != "" && row[0] != '#':
			t.Fatalf("%s: %q is no row of the table", at, row)
		}
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func directive(t testing.TB, at, d string, rules *Rules, subagent *bool) {
	t.Helper()
	name, rule, _ := strings.Cut(d, " ")
	add := func(list []string) []string { return append(list[:len(list):len(list)], rule) }
	switch name {
	case "allow":
		rules.Allow = add(rules.Allow)
	case "block":
		rules.Block = add(rules.Block)
	case "subagentBlock":
		rules.SubagentBlock = add(rules.SubagentBlock)
	case "excluded":
		rules.Excluded = add(rules.Excluded)
	case "subagent":
		*subagent = true
	case "reset":
		*rules, *subagent = Rules{}, false
	default:
		t.Fatalf("%s: unknown directive %q", at, name)
	}
}

// expectation reads "  normal: ask check/rule kept -- why".
func expectation(t testing.TB, at, row string) tableCase {
	t.Helper()
	c := tableCase{at: at}
	row, c.why, _ = strings.Cut(row, " -- ")
	strictness, rest, ok := strings.Cut(strings.TrimSpace(row), ":")
	c.strictness = Strictness(strictness)
	words := strings.Fields(rest)
	if !ok || len(words) == 0 {
		t.Fatalf("%s: %q says nothing", at, row)
	}
	c.verdict = policy.Verdict(words[0])
	for _, w := range words[1:] {
		if w == "excluded" || w == "kept" {
			c.excluded = w
		} else {
			c.check = w
		}
	}
	return c
}

// unescape reads \xNN.
func unescape(t testing.TB, at, s string) string {
	t.Helper()
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(s, `\x`)
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		n, err := strconv.ParseUint(after[:min(2, len(after))], 16, 8)
		if err != nil || strings.HasSuffix(before, `$'`) {
			b.WriteString(`\x`)
			s = after
			continue
		}
		b.WriteByte(byte(n))
		s = after[2:]
	}
}

func casePaths(t testing.TB) *path.Policy {
	t.Helper()
	p, err := path.New(path.Options{Home: caseHome, WorkRoots: []string{caseDir}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newPolicy(t testing.TB, r Rules) *Policy {
	t.Helper()
	r.Home = caseHome
	if r.Paths == nil {
		r.Paths = casePaths(t)
	}
	p, err := New(r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCases(t *testing.T) {
	cases := readCases(t)
	lines := map[string]bool{}
	for _, c := range cases {
		lines[c.text] = true
		t.Run(c.at, func(t *testing.T) {
			c.rules.Strictness = c.strictness
			p := newPolicy(t, c.rules)
			d := p.Judge(Input{Text: c.text, Dir: caseDir, Subagent: c.subagent})
			if d.Verdict != c.verdict {
				t.Errorf("%q under %s: %s, want %s (%s)", c.text, c.strictness, d.Verdict, c.verdict, c.why)
			}
			if c.check != "" && !hasReason(d, c.check, c.verdict) {
				t.Errorf("%q under %s: no reason %s that asks for %s", c.text, c.strictness, c.check, c.verdict)
			}
			if c.excluded != "" && d.Excluded != (c.excluded == "excluded") {
				t.Errorf("%q: excluded is %t (%s), want %s", c.text, d.Excluded, d.ExcludedReason, c.excluded)
			}
			if t.Failed() {
				for _, r := range d.Reasons {
					t.Logf("  %s %s %s/%s: %s", r.Verdict, r.Severity, r.Check, r.Rule, r.Message)
				}
			}
			holds(t, c.text, d)
		})
	}
	if len(lines) < 350 {
		t.Errorf("the table has %d lines, want 350 at least", len(lines))
	}
}

// hasReason reports whether a reason of the check, or of one rule of it, asks
// for the verdict.
func hasReason(d Decision, check string, v policy.Verdict) bool {
	name, rule, _ := strings.Cut(check, "/")
	for _, r := range d.Reasons {
		if r.Check == name && (rule == "" || r.Rule == rule) && r.Verdict == v {
			return true
		}
	}
	return false
}

// holds checks what every decision keeps.
func holds(t testing.TB, text string, d Decision) {
	t.Helper()
	switch d.Verdict {
	case policy.Allow, policy.Ask, policy.Deny:
	default:
		t.Errorf("%q: verdict %q", text, d.Verdict)
	}
	if d.Reasons == nil || d.Commands == nil || len(d.Reasons) > 33 {
		t.Errorf("%q: reasons or commands are nil, or %d reasons", text, len(d.Reasons))
	}
	worst := policy.Allow
	for _, r := range d.Reasons {
		worst = policy.Strictest(worst, r.Verdict)
		if r.Span.Start < 0 || r.Span.End < r.Span.Start || r.Span.End > len(text) {
			t.Errorf("%q: the span %v of %s/%s leaves the text", text, r.Span, r.Check, r.Rule)
		}
		if r.Check == "" || r.Message == "" || len(r.Message) > 1000 || r.Severity < policy.Low || r.Severity > policy.Critical {
			t.Errorf("%q: a reason says nothing or too much: %+v", text, r)
		}
		if r.Verdict != policy.Allow && r.Hint == "" {
			t.Errorf("%q: %s/%s does not say what to do instead", text, r.Check, r.Rule)
		}
	}
	if worst != d.Verdict {
		t.Errorf("%q: verdict %s, strictest reason %s", text, d.Verdict, worst)
	}
	if d.Excluded && d.Verdict == policy.Deny {
		t.Errorf("%q: denied and excluded", text)
	}
	if d.ExcludedReason == "" || len(d.ExcludedReason) > 1000 {
		t.Errorf("%q: no reason why it is excluded or not", text)
	}
}
