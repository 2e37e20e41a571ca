package syntax_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/provider/fake/syntax"
)

// all parses a text to its end and returns how many commands it has.
func all(text string, alias func(string) (string, bool)) (commands int, err error) {
	p := syntax.New(text, alias)
	for {
		list, err := p.Next()
		if err != nil || list == nil {
			return commands, err
		}
		commands += len(list.Items)
	}
}

func TestRefused(t *testing.T) {
	for _, text := range []string{
		"'", `"`, "`", "$(", "${", "${x", "${}", "$((1", "(", ")", "{ a", "}", "if a", "if a; then", "then", "fi", "while a; do", "do", "done",
		"for", "for x in a; b", "case", "case x in", "case x in a", "case x in a) b", "esac", ";;", "&&", "a &&", "a |", "| a", "a | | b", "&", ";",
		"f()", "f(", "f(a)", "a >", "a <", "a <<", "99999>a b", "()", "if; then a; fi", strings.Repeat("(", 10_000), strings.Repeat("${a:-", 10_000),
	} {
		commands, err := all(text, nil)
		if e := (*syntax.Error)(nil); !errors.As(err, &e) {
			t.Errorf("%.40q: %d commands, %v; want a syntax error", text, commands, err)
		}
	}
}

func TestTaken(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "\n\n# x\n": 0, "a": 1, "a; b": 2, "a\nb\n": 2, "a &": 1, "a & b": 2, "a && b || c": 1, "a |\n b": 1, "a &&\n\nb": 1,
		"if a; then b; else c; fi": 1, "for x do a; done": 1, "for x in; do a; done": 1, "case x in esac": 1, "case x in (a|b) c;; d) e; esac": 1,
		"f() { a; }": 1, "f() ( a )": 1, "{ a; } >b 2>&1": 1, "echo }": 1, "echo if then": 1, "a <<E\nb; c\nE\nd": 2, "a <<E\nno end": 1,
		"x=1 y=2": 1, "x=1 a": 1, "! a | b": 1, "echo $ $% 'a\nb'": 1, "a\\\nb": 1,
	} {
		if got, err := all(text, nil); err != nil || got != want {
			t.Errorf("%q: %d commands, %v; want %d", text, got, err, want)
		}
	}
}

// TestAliases holds that each is replaced once at a place, also in circles.
func TestAliases(t *testing.T) {
	table := map[string]string{"ll": "ls -l", "two": "a; b", "self": "self -x", "a1": "b1; c", "b1": "a1; d", "sudo": "sudo "}
	alias := func(name string) (string, bool) { a, ok := table[name]; return a, ok }
	for text, want := range map[string]int{"ll x": 1, "two": 2, "two; two": 4, "self": 1, "a1": 3, "'two'": 1, "echo two": 1, "sudo two": 2, "x=1 two": 2} {
		if got, err := all(text, alias); err != nil || got != want {
			t.Errorf("%q: %d commands, %v; want %d", text, got, err, want)
		}
	}
}

// FuzzParse holds that any text is commands or a syntax error.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"a 'b' \"$c\" `d` $(e) ${f:-g} $((1+2)) | h && i || ! j & k\n", "if a; then b; elif c; then d; else e; fi >f 2>&1 <<E\nx $y\nE\n",
		"for x in a b; do case $x in a|b) c;; *) d;; esac; done", "f() { while a; do b; done; }; (c); two two", "${#x} ${y##*/} \\\n #z",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		alias := func(name string) (string, bool) { return "two; " + name, name == "two" || name == "b" }
		if _, err := all(text, alias); err != nil {
			if e := (*syntax.Error)(nil); !errors.As(err, &e) {
				t.Fatal(err)
			}
		}
	})
}
