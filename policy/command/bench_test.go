package command_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/policy/command"
)

// typical is a line as agents write it.
const typical = `cd src && npm run build 2>&1 | tail -20 && git add -A && git commit -m "Build the thing"`

// large returns lines of 64 KiB that are as hard to judge as could be found.
func large() map[string]string {
	fill := func(unit string) string { return strings.Repeat(unit, (64<<10-16)/len(unit)) }
	return map[string]string{
		"words":         "cat " + fill("a "),
		"paths":         "cat " + fill("../.ssh/x "),
		"globs":         "cat " + fill("*/.s?h/* "),
		"removals":      "rm -rf " + fill("/e*/x "),
		"options":       "tar -" + fill("x"),
		"one word":      "echo " + fill("a"),
		"commands":      fill("ls;"),
		"pipes":         "ls" + fill("|ls"),
		"variables":     "echo " + fill("$x "),
		"substitutions": "echo " + fill("$(a)"),
		"assignments":   fill("a=1 ") + "ls",
		"redirects":     "ls " + fill(">a "),
		"heredocs":      fill("cat <<A\nA\n"),
		"functions":     fill("f(){ f|f& };"),
		"quotes":        "echo " + fill(`'a'"b"`),
		"IFS":           "echo " + fill("${IFS}"),
		"subscripts":    "test " + fill("'a[$(b)]' "),
		"sed":           "sed '" + fill("s/a/b/;") + "'",
		"sed brackets":  "sed '" + fill("[") + "'",
		"awk":           "awk '" + fill("/a/ ") + "'",
		"rule":          "docker " + fill("-a-"),
		"parentheses":   fill("("),
		"modes":         "chmod " + fill("u+x "),
		"finds":         "find " + fill("-exec rm "),
	}
}

// benchPolicy has rules of each form.
func benchPolicy(b testing.TB) *command.Policy {
	return newPolicy(b, command.Rules{
		Strictness: command.Restricted,
		Allow:      []string{"npm run test:*", "git status", "docker*ps*a*b*c"},
		Block:      []string{"sudo*", "git push --force:*", "*-a-*-b-*-c"},
		Excluded:   []string{"docker*"},
	})
}

func BenchmarkJudgeTypical(b *testing.B) {
	p := benchPolicy(b)
	b.ReportAllocs()
	for b.Loop() {
		p.Judge(command.Input{Text: typical, Dir: caseDir})
	}
}

func BenchmarkJudge64K(b *testing.B) {
	p := benchPolicy(b)
	for name, text := range large() {
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Judge(command.Input{Text: text, Dir: caseDir})
			}
		})
	}
}

// TestBudgets holds generous multiples of the budgets, 50 µs for a typical
// line and 10 ms and 64 MiB for one of 64 KiB, so that it passes on a busy
// machine and under the race detector and yet fails when something grows with
// the square of the text.
func TestBudgets(t *testing.T) {
	p := benchPolicy(t)
	best := func(text string, rounds int) time.Duration {
		least := time.Hour
		for range rounds {
			start := time.Now()
			p.Judge(command.Input{Text: text, Dir: caseDir})
			least = min(least, time.Since(start))
		}
		return least
	}
	if d := best(typical, 50); d > 2*time.Millisecond {
		t.Errorf("a typical line took %v", d)
	}
	for name, text := range large() {
		if d := best(text, 3); d > 300*time.Millisecond {
			t.Errorf("%s: 64 KiB took %v", name, d)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p.Judge(command.Input{Text: text, Dir: caseDir})
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
			t.Errorf("%s: 64 KiB took %d MiB", name, n>>20)
		}
	}
}
