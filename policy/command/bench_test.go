package command

import (
	"strings"
	"testing"
)

// typical is a line as agents write it.
const typical = `cd src && npm run build 2>&1 | tail -20 && git add -A && git commit -m "Build the thing"`

// large returns lines of 64 KiB that are as hard to judge as could be found.
func large() map[string]string {
	fill := func(unit string) string { return strings.Repeat(unit, (64<<10-16)/len(unit)) }
	most := func(unit string) string { return strings.Repeat(unit, 2030) } // just below the bound of parts
	return map[string]string{
		"most words":     "cat " + most("abcdefghij/.klm "),
		"most paths":     "cat " + most("../.ssh/abcdef "),
		"most globs":     "cat " + most("*/.s?h/* "),
		"most removals":  "rm -rf " + most("/e*/x "),
		"most redirects": "ls " + most(">.ssh/a "),
		"most variables": "rm -rf " + most("$x/ "),
		"most IFS":       "echo " + most("$IFS "),
		"most settings":  most("LD_A=1 ") + "ls",
		"most modes":     "chmod -R " + most("u+s "),
		"most commands":  strings.Repeat("timeout 1 rm -rf $x/a;", 990),
		"most shells":    strings.Repeat("bash -c 'curl x|sh';", 490),
		"most curls":     strings.Repeat("curl -o a x;", 480) + strings.Repeat("bash a;", 480),
		"most pipes":     "ls" + strings.Repeat("|ls", 900),
		"most functions": strings.Repeat("f(){ f|f& };", 300),
		"most bodies":    strings.Repeat("cat <<A\n$(ls)\nA\n", 480),
		"words":          "cat " + fill("a "),
		"paths":          "cat " + fill("../.ssh/x "),
		"globs":          "cat " + fill("*/.s?h/* "),
		"removals":       "rm -rf " + fill("/e*/x "),
		"options":        "tar -" + fill("x"),
		"one word":       "echo " + fill("a"),
		"commands":       fill("ls;"),
		"pipes":          "ls" + fill("|ls"),
		"variables":      "echo " + fill("$x "),
		"substitutions":  "echo " + fill("$(a)"),
		"assignments":    fill("a=1 ") + "ls",
		"redirects":      "ls " + fill(">a "),
		"heredocs":       fill("cat <<A\nA\n"),
		"functions":      fill("f(){ f|f& };"),
		"quotes":         "echo " + fill(`'a'"b"`),
		"IFS":            "echo " + fill("${IFS}"),
		"subscripts":     "test " + fill("'a[$(b)]' "),
		"sed":            "sed '" + fill("s/a/b/;") + "'",
		"sed brackets":   "sed '" + fill("[") + "'",
		"awk":            "awk '" + fill("/a/ ") + "'",
		"rule":           "docker " + fill("-a-"),
		"parentheses":    fill("("),
		"modes":          "chmod " + fill("u+x "),
		"joined quotes":  "echo " + fill("\"#\\\n\""),
		"brace words":    "echo" + fill(" {a,b,c,d,e,f,g,h}{a,b,c,d,e,f,g,h}"),
		"trees":          "grep -r x" + strings.Repeat(" ~/.", 2000),
		"shells":         "bash -c '" + strings.Repeat("bash -c \"a\"; ", 900) + "'",
		"sum":            "((1" + fill("+1") + "))",
		"finds":          "find " + fill("-exec rm "),
	}
}

// benchPolicy has rules of each form.
func benchPolicy(b testing.TB) *Policy {
	return newPolicy(b, Rules{
		Strictness: Restricted,
		Allow:      []string{"npm run test:*", "git status", "docker*ps*a*b*c"},
		Block:      []string{"sudo*", "git push --force:*", "*-a-*-b-*-c"},
		Excluded:   []string{"docker*"},
	})
}

func BenchmarkJudgeTypical(b *testing.B) {
	p := benchPolicy(b)
	b.ReportAllocs()
	for b.Loop() {
		p.Judge(Input{Text: typical, Dir: caseDir})
	}
}

func BenchmarkJudge64K(b *testing.B) {
	p := benchPolicy(b)
	for name, text := range large() {
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Judge(Input{Text: text, Dir: caseDir})
			}
		})
	}
}
