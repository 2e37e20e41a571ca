package path

import (
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// TemplateEndings returns the endings of the names of templates: files that
// show which settings a secret file has, and hold none of its values.
func TemplateEndings() []string {
	return []string{"example", "sample", "template", "dist", "defaults", "schema"}
}

// TemplateStem cuts the ending of a template off a name. It reports false for
// a name without such an ending.
func templateStem(name string) (stem string, ok bool) {
	i := strings.LastIndexByte(name, '.')
	if i <= 0 {
		return "", false
	}
	for _, ending := range TemplateEndings() {
		if name[i+1:] == ending {
			return name[:i], true
		}
	}
	return "", false
}

// SparesTemplates reports whether a segment, the last of a pattern, covers
// secret files by how their names begin, as ".env.*" and "id_rsa*" do. Such a
// segment does not cover the templates of those files: see [Spares]. A segment
// that spells no letter or digit, as "*" in "secrets/*", is about a folder and
// spares nothing.
func SparesTemplates(segment string) bool {
	head := strings.TrimRight(segment, "*")
	if head == segment || strings.HasSuffix(head, `\`) {
		return false
	}
	for i := 0; i < len(head); i++ {
		switch c := head[i]; {
		case c == '[':
			if i = classEnd(head, i); i < 0 {
				return false
			}
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c >= 0x80:
			return true
		}
	}
	return false
}

// Spares reports whether name is that of a template which segment, the last of
// a pattern, does not cover although it matches: ".env.*" does not cover
// ".env.example". A segment that spells the ending or a part of it covers the
// template: ".env.example", "*.example" and ".env.ex*" do. Only files are
// templates; the caller has to except folders.
func Spares(segment, name string) bool {
	stem, ok := templateStem(name)
	return ok && SparesTemplates(segment) && doublestar.MatchUnvalidated(segment, stem+".")
}
