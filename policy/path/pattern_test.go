package path_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/bulkhead-dev/sandbox/policy/path"
)

func TestParse(t *testing.T) {
	tests := []struct{ pattern, want string }{
		{"a", "[a]"}, {"/a//b/./c/", "[a b c]"}, {"**/.env{,.*}", "[** .env][** .env.*]"}, {"{a,b{c,d}}/x", "[a x][bc x][bd x]"},
		{"a/**", "[a]"}, {"a/**/**/", "[a]"}, {"**/a", "[** a]"}, {`a\/b`, "[a b]"}, {`a\\/b`, `[a\\ b]`}, {`\{a,b\}`, `[\{a,b\}]`},
		{"[,;]", ""}, {"[x;]", "[[x;]]"}, {"{a}", "[a]"}, {"{,}", ""}, {"x{}", "[x]"},
		{"", ""}, {"a[", ""}, {"{a", ""}, {`a\`, ""}, {"**", ""}, {"/", ""}, {"a/../b", ""}, {"[a/b]", ""}, {"a\x00", ""}, {"{a,**}", ""},
		{strings.Repeat("a", 4097), ""}, {strings.Repeat("{a,b}", 11), ""},
	}
	for _, tt := range tests {
		got, why := path.Parse(tt.pattern)
		s := ""
		for _, a := range got {
			s += fmt.Sprint(a)
		}
		if s != tt.want || (why == "") != (tt.want != "") {
			t.Errorf("%q: %s %s, want %s", tt.pattern, s, why, tt.want)
		}
	}
}

// FuzzParse holds that the alternatives of a pattern together match what the
// pattern does, and are patterns themselves.
func FuzzParse(f *testing.F) {
	f.Add("a/{b,c[de]}/**/x", "a/b/x")
	f.Add(`\{[!a]?`, "{b")
	f.Fuzz(func(t *testing.T, p, name string) {
		if len(p) > 48 || !utf8.ValidString(p) || strings.HasPrefix(p, "/") {
			return
		}
		alternatives, why := path.Parse(p)
		if why != "" {
			return
		}
		if !slices.ContainsFunc(alternatives, func(a []string) bool {
			j := strings.Join(a, "/")
			return doublestar.MatchUnvalidated(j, name) || doublestar.MatchUnvalidated(j+"/**", name)
		}) && doublestar.MatchUnvalidated(p, name) && name != "" && !strings.Contains(p, "//") && !strings.Contains(name, "//") && !strings.Contains(p, "./") {
			t.Errorf("%q matches %q, and none of %q does", p, name, alternatives)
		}
		for _, a := range alternatives {
			for _, s := range a {
				if !doublestar.ValidatePattern(s) || path.Plain(s) && path.Unescape(s) == "" {
					t.Errorf("%q has the odd segment %q", p, s)
				}
			}
		}
	})
}
