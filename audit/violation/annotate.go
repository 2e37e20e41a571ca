package violation

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// The element that reports violations in the error output of a command.
const (
	tagName  = "sandbox_violations"
	openTag  = "<" + tagName + ">"
	closeTag = "</" + tagName + ">"
)

// Annotate returns the error output of a command followed by a block that
// reports vs:
//
//	<sandbox_violations>
//	<violation evidence="certain" operation="write" resource="/etc/x" rule="…"/>
//	</sandbox_violations>
//
// The block is the last thing in the result, and the only one: in the command's
// own output every such tag, in any case and with blanks, gets a backslash
// after its angle bracket, so that a command can neither forge a block nor end
// the real one. Attributes are escaped for a terminal and as in XML, so that a
// file name cannot break out of its attribute. Without violations there is no
// block, but the tags of the command are still escaped.
//
// [Strip] reverses all of it.
func Annotate(stderr []byte, vs []sandbox.Violation) []byte {
	out := disarm(stderr)
	if len(vs) == 0 {
		return out
	}
	if len(stderr) > 0 {
		out = append(out, '\n')
	}
	out = append(out, openTag+"\n"...)
	for _, v := range vs {
		out = append(out, element(v)...)
	}
	return append(out, closeTag+"\n"...)
}

// Strip takes away what [Annotate] added and nothing else: Strip(Annotate(x,
// vs)) is x. It is for the results of Annotate only.
func Strip(annotated []byte) []byte {
	own := annotated
	if i := bytes.Index(annotated, []byte(openTag)); i >= 0 {
		own = annotated[:i]
		if i > 0 {
			own = own[:i-1] // the line feed before the block
		}
	}
	return rearm(own)
}

// element writes one violation.
func element(v sandbox.Violation) string {
	var b strings.Builder
	b.WriteString("<violation")
	attribute := func(name, value string) {
		if value != "" {
			b.WriteString(" " + name + `="` + escape(value) + `"`)
		}
	}
	attribute("evidence", string(v.Evidence))
	attribute("kind", v.Kind)
	attribute("operation", string(v.Operation))
	attribute("resource", v.Resource)
	attribute("rule", v.Rule)
	if v.Builtin {
		attribute("grantable", "no")
	}
	attribute("program", v.Program)
	if v.PID != 0 {
		attribute("pid", strconv.Itoa(v.PID))
	}
	b.WriteString("/>\n")
	return b.String()
}

// escape makes text fit for an attribute and a terminal.
func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;").Replace(termsafe.Line(s))
}

// disarm puts a backslash after the angle bracket of every tag that this
// package writes.
func disarm(s []byte) []byte {
	out := make([]byte, 0, len(s)+64)
	last := 0
	for _, at := range tags(s) {
		out = append(append(out, s[last:at+1]...), '\\')
		last = at + 1
	}
	return append(out, s[last:]...)
}

// rearm takes one backslash out of every tag that has one: disarm adds one to
// each.
func rearm(s []byte) []byte {
	out := make([]byte, 0, len(s))
	last := 0
	for _, at := range tags(s) {
		out = append(out, s[last:at+1]...)
		last = at + 1
		if last < len(s) && s[last] == '\\' {
			last++
		}
	}
	return append(out, s[last:]...)
}

// tags returns the positions of the angle brackets of everything in s that is,
// or may be taken for, a violation tag: "<", any backslashes, any blanks and
// slashes, the name in any case.
func tags(s []byte) []int {
	var out []int
	for from := 0; ; {
		i := indexFold(s, from, tagName)
		if i < 0 {
			return out
		}
		at := i
		for at > from && isFiller(s[at-1]) {
			at--
		}
		for at > from && s[at-1] == '\\' {
			at--
		}
		if at > from && s[at-1] == '<' {
			out = append(out, at-1)
		}
		from = i + len(tagName)
	}
}

func isFiller(b byte) bool {
	return b == ' ' || b == '\t' || b == '\n' || b == '\r' || b == '\v' || b == '\f' || b == '/'
}

// indexFold is the index of the ASCII word in s from position from on, ignoring
// case, or -1.
func indexFold(s []byte, from int, word string) int {
	for i := from; i+len(word) <= len(s); i++ {
		if s[i]|0x20 == word[0] && bytes.EqualFold(s[i:i+len(word)], []byte(word)) {
			return i
		}
	}
	return -1
}
