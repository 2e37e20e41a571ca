package journal

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"empty", "", ""},
		{"short", "abc", "abc"},
		{"fits", "0123456789", "0123456789"},
		{"too long", "0123456789x", "0123456…"},
		{"cut in a rune", "012345日本", "012345…"},
		{"no UTF-8", "a\xffb", `a\xffb`},
		{"no UTF-8, too long", "\xff\xff\xff\xff", `\xff\xf…`},
		{"control characters stay", "a\x00\n\x1b", "a\x00\n\x1b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Text(tt.in, 10); got != tt.want {
				t.Errorf("%q becomes %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestName(t *testing.T) {
	long := strings.Repeat("x", MaxName)
	if Name(long) != long || Name("日本") != "日本" {
		t.Error("a name that is short enough is changed")
	}
	for _, pair := range [][2]string{{long + "1", long + "2"}, {"\xff", "\xfe"}, {"\xff", `\xff`}, {long + "1", Name(long + "1")[:MaxName/2]}} {
		if Name(pair[0]) == Name(pair[1]) {
			t.Errorf("%q and %q are kept alike", pair[0], pair[1])
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\xffb日", 7)
	f.Fuzz(func(t *testing.T, s string, most int) {
		most = 4 + (most&0xffff)%300
		got := Text(s, most)
		if len(got) > most || !utf8.ValidString(got) {
			t.Errorf("%q is %d bytes", got, len(got))
		}
		if utf8.ValidString(s) && len(s) <= most && got != s {
			t.Errorf("%q becomes %q", s, got)
		}
		if n := Name(s); len(n) > MaxName || !utf8.ValidString(n) {
			t.Errorf("the name %q is %d bytes", n, len(n))
		}
	})
}
