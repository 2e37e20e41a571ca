package command

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
)

// The bounds. What exceeds one is refused, never judged in part.
const (
	maxChars    = 1_000_000 // characters of a line, as the schemas of the tools and of the API have it
	maxBytes    = 4_000_000 // of a line: MaxChars of the longest characters
	maxCommands = 1000      // simple commands in a line, those of nested texts included
	maxDepth    = 60        // constructs within each other
	maxTexts    = 10        // texts within each other: bash -c in bash -c
	maxWrappers = 16        // wrappers of one command
	maxArgs     = 100_000   // words of all commands together
	maxEffects  = 2000      // assignments, and as many redirections
	maxFeatures = 100_000   // constructs
	maxWord     = 8 << 10   // bytes of a word beyond which values are not put in
	maxShells   = 400       // texts for shells in a line
	maxChain    = 1000      // operands of one chain of the same arithmetic operator
	maxNested   = 2_000_000 // bytes of all nested texts together
	maxWords    = 64        // words that one word with braces may become
	maxBraces   = 16        // braces in a word that are expanded
	maxValue    = 256       // bytes of a variable whose value is followed
	maxTwice    = 16 << 10  // bytes of a line that is walked again with what is left of its claims
	maxBindings = 64        // variables whose values are followed
	maxFrames   = 3000      // calls of the parser within each other
)

// refuse makes the reason that says why a text is not judged at all.
func refuse(span policy.Span, message, hint string) *policy.Reason {
	return &policy.Reason{
		Check: "syntax", Verdict: policy.Deny, Severity: policy.High,
		Message: message, Hint: hint, Span: span,
	}
}

// readable reports why text cannot be what it seems to be to a person who
// reads it: it is too long, or holds bytes that bash reads otherwise than the
// eye or the parser does.
func readable(text string) *policy.Reason {
	if len(text) > maxChars && utf8.RuneCountInString(text) > maxChars {
		return refuse(policy.Span{}, fmt.Sprintf("the line has %d bytes and more than %d characters, which is the most that is read", len(text), maxChars),
			"write the text to a file first, then run it")
	}
	if r := lineEnds(text); r != nil {
		return r
	}
	before := rune(0)
	for i := 0; i < len(text); {
		if c := text[i]; c >= ' ' && c < 0x7f || c == '\t' || c == '\n' {
			before = rune(c)
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		span := policy.Span{Start: i, End: i + size}
		switch {
		case r == utf8.RuneError && size == 1:
			return refuse(span, fmt.Sprintf("byte 0x%02x is not valid UTF-8", text[i]), "write such bytes as $'\\x…'")
		case unicode.IsControl(r):
			return refuse(span, fmt.Sprintf("control character U+%04X", r), "remove it; lines end with a plain newline, and $'\\r' stands for a carriage return")
		case unicode.In(r, unicode.Zs, unicode.Zl, unicode.Zp):
			return refuse(span, fmt.Sprintf("U+%04X looks like a blank but is none to the shell", r), "use a plain blank")
		case invisible(r, before):
			return refuse(span, fmt.Sprintf("invisible character U+%04X", r), "remove it")
		}
		before = r
		i += size
	}
	return nil
}

// lineEnds reports lines that end with CRLF. Bash takes the carriage return for
// a part of the last word of a line, so that such a text does not do what it
// seems to say; it is a mistake of an editor and no attack. A carriage return
// elsewhere hides what stands before it in a terminal, and is refused as a
// control character.
func lineEnds(text string) *policy.Reason {
	i := strings.IndexByte(text, '\r')
	if i < 0 || strings.Count(text, "\r") != strings.Count(text, "\r\n") && strings.Count(text, "\r") != strings.Count(text, "\r\n")+lastReturn(text) {
		return nil
	}
	r := refuse(policy.Span{Start: i, End: i + 1}, fmt.Sprintf("line %d ends with CRLF, a carriage return and a newline, as text of Windows does; bash would take the carriage return for a part of the last word", 1+strings.Count(text[:i], "\n")),
		"end the lines with a newline alone (LF); where a file needs CRLF, write it with printf 'text\\r\\n' or with a tool that writes files")
	r.Severity, r.Rule, r.Code = policy.Low, "line-ends", sandbox.CodeValidation
	return r
}

// lastReturn is 1 for a text that ends with a carriage return.
func lastReturn(text string) int {
	if strings.HasSuffix(text, "\r") {
		return 1
	}
	return 0
}

// invisible reports whether r, written after before, shows nothing or changes
// the direction of what surrounds it. Variation selectors choose the picture
// of an emoji and are left alone behind one.
func invisible(r, before rune) bool {
	switch {
	case r >= 0xfe00 && r <= 0xfe0f:
		return before < utf8.RuneSelf
	case r == 0x034f, r == 0x115f, r == 0x1160, r == 0x17b4, r == 0x17b5, r == 0x2800, r == 0x3164, r == 0xffa0,
		r >= 0x180b && r <= 0x180f, r >= 0xe0100 && r <= 0xe01ef:
		return true
	}
	return unicode.Is(unicode.Cf, r)
}
