//go:build linux

package command

import (
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// shapes are texts of the greatest size that make some part of the reader work hard.
func shapes() map[string]string {
	const n = maxBytes
	fill := func(s string) string { return strings.Repeat(s, n/len(s)) }
	pad := func(head, s, tail string) string {
		return head + strings.Repeat(s, (n-len(head)-len(tail))/len(s)) + tail
	}
	balanced := func(open, inner, shut string) string {
		k := (n - len(inner)) / (len(open) + len(shut))
		return strings.Repeat(open, k) + inner + strings.Repeat(shut, k)
	}
	return map[string]string{
		"lists": fill("a;"), "block": pad("{ ", "a;", "}"), "lines": fill("a\n"), "pipes": pad("", "a|", "a"), "ands": pad("", "a&&", "a"),
		"words": fill("a "), "word": fill("a"), "quotes": fill("''"), "double": fill(`""`), "ansi": fill(`$'\x61'`), "expansions": fill("$a"),
		"expansions in quotes": pad(`"`, "$a", `"`), "parentheses": fill("("), "balanced": balanced("(", "a", ")"), "braces": balanced("{ ", "a", ";}"),
		"hidden depth": fill(`(')'`), "ifs": fill("if "), "substitutions": fill("$("), "quoted substitutions": fill(`"$(`), "balanced substitutions": balanced("$(", "a", ")"),
		"defaults": fill("${a:-"), "balanced defaults": balanced("${a:-", "", "}"), "sum": pad("echo $((", "1+", "1))"), "sums of names": pad("echo $((", "a+", "1))"),
		"arithmetic depth": pad("echo $((", "(", ""), "signs": pad("echo $((", "- ", "1))"), "choices": pad("echo $((", "1?2:", "1))"), "assigns": pad("echo $((", "a=", "1))"),
		"subscripts": fill("a["), "nots": pad("[[ ", "! ", "a ]]"), "tests": pad("[[ ", "a && ", "a ]]"), "heredocs": fill("<<a\na\n"),
		"many heredocs": pad("", "<<a ", "")[:n/3/4*4] + "\n" + strings.Repeat("a\n", n/12), "backquotes": fill("`a`"), "escaped backquotes": pad("`", "\\`", "`"),
		"brace list": pad("echo ", "{a,b}", ""), "brace depth": "echo " + balanced("{a,", "b", "}")[:n-5], "sequences": pad("echo ", "{1..9999999}", ""),
		"open braces": pad("echo ", "{", ""), "commas": pad("echo {", ",", "}"), "redirections": fill(">a "), "functions": fill("f()"), "bodies": fill("f(){ :;};"), "times": fill("time "), "variables": fill("a=1 "),
		"array": pad("a=(", "a ", ")"), "cases": pad("case a in ", "a);;", "esac"), "comments": fill("#\n"), "continued": fill("\\\n"), "globs": pad("echo ", "*", ""),
		"tildes": pad("echo ", "~ ", ""), "set and use": pad("x=a;", "$x ", ""), "big value": "x=" + strings.Repeat("a", 200) + ";" + pad("echo ", "$x", "")[:n-203],
		"many values": manyValues(n), "broken claims": pad(`x=a;echo "`, "$x", `";x=b`), "broken numbers": pad("i=1;echo $((", "i+", "1));i=a"), "loops": balanced("for i in a;do ", "a", ";done"), "cd in loops": balanced("while cd a;do ", "a", ";done"), "elifs": "if a;then a;" + strings.Repeat("elif a;then a;", n/15) + "fi",
		"evals": pad("", "eval ", "a"), "env": pad("", "env ", "a"), "commands": pad("", "command ", "a"), "xargs": pad("", "xargs ", "a"), "find": pad("find ", "-exec a ; ", ""), "finds": pad("", "find -exec ", "a ;"),
		"heredoc data": "cat <<'E'\n" + strings.Repeat("if (a[1] == '$x') { b(\"c\"); }\n", (n-20)/31) + "\nE\n", "quoted data": pad("echo '", "a(b){c};\n", "'"), "unclosed": pad("echo '", "a ", ""),
		"nested text": nestedText(n), "same text": pad("", "eval 'a;a;a;a;a;a';", ""), "procs": fill("<(a) "), "coprocs": fill("coproc "), "ors": pad("", "cd a||", "a"), "cds": fill("cd a;"), "cd ands": pad("", "cd a&&", "a"),
	}
}

func manyValues(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n-20; i++ {
		b.WriteString("v" + strings.Repeat("x", i%50) + string(rune('a'+i%26)) + "=1;")
	}
	return b.String()
}

// nestedText quotes a text within itself as often as it fits.
func nestedText(n int) string {
	s := "ls " + strings.Repeat("a ", n/64)
	for {
		q, err := Quote([]string{"bash", "-c", s})
		if err != nil || len(q) > n {
			return s
		}
		s = q
	}
}

// TestBounds holds that no shape panics, and that none takes more memory or
// time than it may.
func TestBounds(t *testing.T) {
	for name, text := range shapes() {
		t.Run(name, func(t *testing.T) {
			if len(text) > maxBytes {
				t.Fatalf("the shape has %d bytes", len(text))
			}
			runtime.GC()
			before := memory()
			runtime.LockOSThread()
			begin := cpu(t)
			_, refused := parseLine(text, lineStart{Dir: "/w", Home: "/h"})
			took := cpu(t) - begin
			runtime.UnlockOSThread()
			grown := memory() - before
			t.Logf("%8.2f ms %6.1f MiB  refused: %v", took.Seconds()*1000, float64(grown)/(1<<20), refused != nil)
			if grown > 64<<20 {
				t.Errorf("it took %d MiB", grown>>20)
			}
			if took > time.Second {
				t.Errorf("it took %v of the processor", took)
			}
		})
	}
}

// cpu returns the time that the thread has had of a processor, which other
// processes do not change.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// memory returns what the process has from the system.
func memory() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}

func BenchmarkParseTypical(b *testing.B) {
	for name, text := range map[string]string{
		"short":  "git status",
		"usual":  "cd /w/app && FOO=1 timeout 60 npm run test -- --watch=false 2>&1 | tail -n 20",
		"script": "set -e\nfor f in a b c; do\n  echo \"$f\" >> out.txt\ndone\nif [ -f x ]; then cat x; else touch x; fi\n",
		"nested": "bash -lc 'cd src && go test ./... | grep -v ok'",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, refused := parseLine(text, lineStart{Dir: "/w", Home: "/h"}); refused != nil {
					b.Fatal(refused.Message)
				}
			}
		})
	}
}

func BenchmarkParse64K(b *testing.B) {
	for name, text := range shapes() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = parseLine(text, lineStart{Dir: "/w", Home: "/h"})
			}
		})
	}
}
