package command

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/policy"
)

// TestLongCommands holds that a long command is judged as a short one of its
// kind is: up to the million characters that the schemas allow.
func TestLongCommands(t *testing.T) {
	const most = maxChars
	fill := func(unit string, n int) string { return strings.Repeat(unit, n/len(unit)) }
	code := fill("x = a[1] # no path\n", 9000)
	words := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, " w%d.txt", i)
		}
		return b.String()
	}
	tests := []struct {
		name, text string
		want       policy.Verdict
	}{
		{"here-document", "cat > a.txt <<'EOF'\n" + fill("a line of $(text)\n", most-100) + "EOF\nwc a.txt", policy.Allow},
		{"nested here-document", "bash -c 'cat > a.txt <<X\n" + fill("a line of text\n", most-100) + "X\n'", policy.Allow},
		{"three bytes a character", "echo '" + strings.Repeat("\u6f22", most-7) + "'", policy.Allow},
		{"a character too many", "echo '" + strings.Repeat("\u6f22", most-6) + "'", policy.Deny},
		{"words", "echo" + words(15_000), policy.Allow},
		{"files", "cat" + words(10_000), policy.Allow},
		{"files to git", "git add" + words(10_000), policy.Allow},
		{"files with a key among them", "cat" + words(10_000) + " ~/.ssh/id_rsa", policy.Ask},
		{"files with an attack behind", "cat" + words(10_000) + "; rm -rf ~", policy.Deny},
		{"python", "python3 -c '" + code + "'", policy.Allow},
		{"python in double quotes", "python3 -c \"" + code + "$x\"", policy.Allow},
		{"node", "node -e '" + strings.ReplaceAll(code, "#", "//") + "'", policy.Allow},
		{"commit", "git commit -m '" + fill("Say what it does, at length. ", 6000) + "'", policy.Allow},
		{"commit without blanks", "git commit -m " + fill("a-b/c", 6000), policy.Allow},
		{"jq", "jq --arg text '" + code + "' '.a = $text' in.json", policy.Allow},
		{"jq without blanks", "jq -n --arg t " + fill("aGVsbG8/", 9000) + " '$t'", policy.Allow},
		{"a long way to a key", "cat " + strings.Repeat("a/../", 1000) + "../.ssh/id_rsa", policy.Ask},
		{"a long glob to a key", "cat ~/.[" + fill("s", 5000) + "]sh/id_rsa", policy.Deny},
		{"parentheses", fill("(", most-1), policy.Deny},
	}
	p := newPolicy(t, Rules{Strictness: Normal})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := p.Judge(Input{Text: tt.text, Dir: caseDir})
			if d.Verdict != tt.want {
				t.Errorf("%s, want %s: %+v", d.Verdict, tt.want, d.Reasons)
			}
			holds(t, tt.text, d)
		})
	}
}

// TestLineEnds holds that CRLF is named as what it is, and that a carriage
// return which hides text stays a control character.
func TestLineEnds(t *testing.T) {
	p := newPolicy(t, Rules{Strictness: Normal})
	for text, crlf := range map[string]bool{
		"ls\r\n": true, "ls\r": true, "ls\r\npwd\r\n": true, "ls\r\npwd\n": true, "bash -c $'ls\\r\\npwd'": true, "cat <<E\r\na\r\nE\r\n": true,
		"ls\rpwd\n": false, "ls\r\r\n": false, "rm -rf x\rls\r\n": false,
	} {
		d := p.Judge(Input{Text: text, Dir: caseDir})
		r := d.Reasons[0]
		if d.Verdict != policy.Deny || (r.Rule == "line-ends") != crlf || crlf != (r.Code == sandbox.CodeValidation) || crlf != (r.Severity == policy.Low) || crlf != strings.Contains(r.Message, "CRLF") {
			t.Errorf("%q: %+v", text, d.Reasons)
		}
		holds(t, text, d)
	}
}

// longest returns lines of about a million characters, or of the most parts,
// that are as hard to judge as could be found; or of a part of that.
func longest(part int) map[string]string {
	fill := func(unit string) string { return strings.Repeat(unit, 999_900/part/len(unit)) }
	most := func(unit string) string { return strings.Repeat(unit, min(99_000/part, 999_900/part/len(unit))) }
	return map[string]string{
		"words":         "cat " + most("abcdef/.k "),
		"paths":         "cat " + most("../.ssh/a "),
		"globs":         "cat " + most("*/.s?h/* "),
		"removals":      "rm -rf " + most("/e*/x "),
		"variables":     "rm -rf " + most("$x/ "),
		"IFS":           "echo " + most("$IFS "),
		"modes":         "chmod -R " + most("u+s "),
		"trees":         "grep -r x" + most(" ~/."),
		"commands":      strings.Repeat("timeout 1 rm -rf $x/a "+strings.Repeat("b ", 90)+";", 990/part),
		"curls":         strings.Repeat("curl -o a x "+strings.Repeat("b ", 90)+";", 480/part) + strings.Repeat("bash a "+strings.Repeat("b ", 90)+";", 480/part),
		"pipes":         "ls" + fill("|ls"),
		"substitutions": "echo " + fill("$(a)"),
		"redirects":     "ls " + fill(">a "),
		"quotes":        "echo " + fill(`'a'"b"`),
		"subscripts":    "test " + fill("'a[$(b)]' "),
		"sed brackets":  "sed '" + fill("[") + "'",
		"parentheses":   fill("("),
		"joined quotes": "echo " + fill("\"#\\\n\""),
		"braces":        "echo" + fill(" {a,b,c,d,e,f,g,h}{a,b,c,d,e,f,g,h}"),
		"sum":           "((1" + fill("+1") + "))",
		"expanded":      "cat <<A\n" + strings.Repeat("a line of $text, longer\n", 29_000/part) + "A\n",
		"nested":        "bash -c 'cat <<X\n" + fill("a b c d\n") + "X\n'",
		"one word":      "cat " + fill("a/"),
	}
}

// TestBudgetsOfLongest holds generous multiples of the budgets for a million
// characters, one second and 128 MiB, which nothing that grows with the square
// of the text keeps. With the race detector it holds a quarter of the time and
// half of the memory for a quarter of the text.
func TestBudgetsOfLongest(t *testing.T) {
	part, mib := 1, uint64(256)
	if raceEnabled && !testenv.All() {
		part, mib = 4, 128
	}
	most := 3 * time.Second / time.Duration(part)
	if raceEnabled {
		most *= 4 // the detector makes the same work that much longer, and more so beside others
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p := benchPolicy(t)
	for name, text := range longest(part) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := processor(t)
		p.Judge(Input{Text: text, Dir: caseDir})
		took := processor(t) - start
		runtime.ReadMemStats(&after)
		t.Logf("%-14s %7d %v %d MiB", name, len(text), took, (after.TotalAlloc-before.TotalAlloc)>>20)
		if took > most {
			t.Errorf("%s: took %v, at most %v is allowed", name, took, most)
		}
		if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > mib {
			t.Errorf("%s: took %d MiB", name, n)
		}
	}
}
