package tools

import (
	"regexp"
	"strings"
)

// maxWrappers is how deep fences and here-documents are taken to lie in one
// another.
const maxWrappers = 4

// hereDocument is the first line of a here-document, with the delimiter in
// quotes or not.
var hereDocument = regexp.MustCompile(`^(?:(?:apply_patch|applypatch|git apply|patch)(?: -p1| -)*)?\s*<<(-?)\s*(?:'(\w+)'|"(\w+)"|(\w+))$`)

// fence is the first line of a block of code in Markdown.
var fence = regexp.MustCompile("^(`{3,}|~{3,})[^`]*$")

// unwrap leaves out the lines around the patch that are not of it: those of a
// fence, and those of a here-document. Lines keep their numbers. What has no end
// was cut off, and is refused like a patch without its end.
func (r *reader) unwrap() error {
	for range maxWrappers {
		for r.more() && strings.TrimSpace(r.peek()) == "" {
			r.at++
		}
		if !r.more() {
			return nil
		}
		last := len(r.lines) - 1
		for strings.TrimSpace(r.lines[last]) == "" {
			last--
		}
		first, end := strings.TrimSpace(r.peek()), r.lines[last]
		if m := fence.FindStringSubmatch(first); m != nil {
			if closing := strings.TrimSpace(end); last == r.at || len(closing) < len(m[1]) || strings.Trim(closing, m[1][:1]) != "" {
				return bad("", r.at+1, "end it with "+m[1], "the block that %s begins has no end", quote(first))
			}
		} else if m := hereDocument.FindStringSubmatch(first); m != nil {
			delimiter := m[2] + m[3] + m[4]
			if m[1] != "" { // <<- leaves out tabs
				for i := r.at; i <= last; i++ {
					r.lines[i] = strings.TrimLeft(r.lines[i], "\t")
				}
				end = r.lines[last]
			}
			if last == r.at || strings.TrimRight(end, " \t\r") != delimiter {
				return bad("", r.at+1, "end it with "+delimiter, "the here-document that %s begins has no end", quote(first))
			}
		} else {
			return nil
		}
		r.at++
		r.lines = r.lines[:last]
	}
	return nil
}
