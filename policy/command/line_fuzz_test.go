package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/policy"
)

// FuzzParse holds that no text makes Parse panic or say what is outside of
// its bounds, and that the spans name what they should.
func FuzzParse(f *testing.F) {
	for _, text := range tricks(f) {
		f.Add(text)
	}
	m := newMaker(3)
	for range 200 {
		f.Add(m.line())
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, refused := parseLine(text, lineStart{Dir: "/w", Home: "/home/u"})
		if (l == nil) == (refused == nil) {
			t.Fatalf("both or neither of line and refusal: %v %v", l, refused)
		}
		if refused != nil {
			within(t, text, "refusal", refused.Span)
			if refused.Verdict != policy.Deny || refused.Check != "syntax" || refused.Message == "" {
				t.Fatalf("refusal %+v", refused)
			}
			if strings.Contains(refused.Message, "reading it failed") || strings.Contains(refused.Message, "parser failed") {
				t.Fatalf("it panicked: %s", refused.Message)
			}
			return
		}
		bounded(t, text, l)
	})
}

// bounded fails unless what l says lies within text.
func bounded(t *testing.T, text string, l *line) {
	t.Helper()
	if l.Text != text {
		t.Fatalf("the text became %q", l.Text)
	}
	if len(l.Commands) > maxCommands {
		t.Fatalf("%d commands", len(l.Commands))
	}
	for _, c := range l.Commands {
		within(t, text, "command", c.Span)
		if len(c.Words) == 0 {
			t.Fatal("a command without words")
		}
		if nested(c) {
			continue
		}
		for _, w := range c.Words {
			within(t, text, "word", w.Span)
			if got := w.Span.Of(text); got != w.Raw {
				t.Fatalf("the word %q was at %q", w.Raw, got)
			}
			if !strings.HasPrefix(w.Value, w.Prefix) {
				t.Fatalf("%q does not begin with %q", w.Value, w.Prefix)
			}
		}
	}
	for _, r := range l.Redirects {
		within(t, text, "redirection", r.Span)
		within(t, text, "target", r.Target.Span)
	}
	for _, x := range l.Features {
		within(t, text, "feature", x.Span)
	}
	for _, x := range l.Unknowns {
		within(t, text, "unknown", x.Span)
		if x.Why == "" {
			t.Fatal("an unknown without a reason")
		}
	}
	for _, x := range l.Assigns {
		within(t, text, "assignment", x.Span)
	}
}

// nested reports whether c stands in a text of its own, whose words are not
// parts of the line.
func nested(c lineCommand) bool {
	return slices.Contains(c.Via, nestedShell) || slices.Contains(c.Via, nestedEval)
}

func within(t *testing.T, text, what string, s policy.Span) {
	t.Helper()
	if s.Start < 0 || s.End < s.Start || s.End > len(text) {
		t.Fatalf("the %s is at %v of %d bytes", what, s, len(text))
	}
}

// FuzzQuote holds that what Quote writes is read back as the words it was given.
func FuzzQuote(f *testing.F) {
	for _, words := range []string{"ls\x1f-la", "a=b\x1fc", "rm\x1f-rf\x1f/ x", "it's\x1f$x\x1f`id`", "\x1f", "if\x1fa", "~\x1f~/x\x1fa=~", "{a,b}\x1f*", "#\x1f#x", "!\x1fx", "a\nb", "a\rb\x1f\xff'\\", "\u00a0\x1f\u200b\x1f\x7f", "\\", "export\x1fA=1", "[\x1fx\x1f]"} {
		f.Add(words)
	}
	f.Fuzz(func(t *testing.T, joined string) {
		args := strings.Split(joined, "\x1f")
		text, err := Quote(args)
		if err != nil {
			return
		}
		l, refused := parseLine(text, lineStart{Dir: "/w", Home: "/home/u"})
		if refused != nil {
			if deepens(args) {
				return
			}
			t.Fatalf("%q became %q, which is refused: %s", args, text, refused.Message)
		}
		if deepens(args) {
			return
		}
		if len(l.Commands) != 1 {
			t.Fatalf("%q became %q, which is %d commands", args, text, len(l.Commands))
		}
		var got []string
		for _, w := range l.Commands[0].Words {
			if !fixed(w) {
				t.Fatalf("%q became %q, where %q is not told", args, text, w.Raw)
			}
			got = append(got, w.Value)
		}
		if !slices.Equal(got, args) {
			t.Fatalf("%q became %q, which is %q", args, text, got)
		}
	})
}

// deepens reports whether args run another command or text, so that they are
// not read as one command of these words.
func deepens(args []string) bool {
	base := args[0][strings.LastIndexByte(args[0], '/')+1:]
	return isWrapper(base) || builtinFor(base) != nil
}
