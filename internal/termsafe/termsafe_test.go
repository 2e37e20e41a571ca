package termsafe_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

func TestEscapes(t *testing.T) {
	tests := []struct {
		name, in, line, text string
	}{
		{"plain", "hello", "hello", "hello"},
		{"empty", "", "", ""},
		{"letters of other scripts", "Grüße 日本 ελ", "Grüße 日本 ελ", "Grüße 日本 ελ"},
		{"newline and tab", "a\n\tb", `a\n\tb`, "a\n\tb"},
		{"carriage return overwrites", "good\rbad", `good\rbad`, `good\rbad`},
		{"colour", "\x1b[31mred", `\x1b[31mred`, `\x1b[31mred`},
		{"window title", "\x1b]0;owned\x07", `\x1b]0;owned\x07`, `\x1b]0;owned\x07`},
		{"bell, backspace, NUL, DEL", "\a\b\x00\x7f", `\x07\x08\x00\x7f`, `\x07\x08\x00\x7f`},
		{"C1 CSI as a character", "\u009b31m", `\u009b31m`, `\u009b31m`},
		{"C1 CSI as a raw byte", "\x9b31m", `\x9b31m`, `\x9b31m`},
		{"invalid UTF-8", "a\xff\xfeb", `a\xff\xfeb`, `a\xff\xfeb`},
		{"cut character", "a\xe2\x82", `a\xe2\x82`, `a\xe2\x82`},
		{"surrogate half", "\xed\xa0\x80", `\xed\xa0\x80`, `\xed\xa0\x80`},
		{"overlong slash", "\xc0\xaf", `\xc0\xaf`, `\xc0\xaf`},
		{"bidi override", "abc\u202etxt.exe", `abc\u202etxt.exe`, `abc\u202etxt.exe`},
		{"bidi isolate", "\u2066x\u2069", `\u2066x\u2069`, `\u2066x\u2069`},
		{"zero width", "a\u200bb\u200dc\ufeff", `a\u200bb\u200dc\ufeff`, `a\u200bb\u200dc\ufeff`},
		{"soft hyphen", "a\u00adb", `a\u00adb`, `a\u00adb`},
		{"no-break space", "a\u00a0b", "a\u00a0b", "a\u00a0b"},
		{"line separator", "a\u2028b", `a\u2028b`, `a\u2028b`},
		{"tag characters", "a\U000e0041", `a\U000e0041`, `a\U000e0041`},
		{"variation selector", "a\ufe0f", `a\ufe0f`, `a\ufe0f`},
		{"Hangul filler", "a\u3164b", `a\u3164b`, `a\u3164b`},
		{"private use", "\ue000", `\ue000`, `\ue000`},
		{"unassigned", "\U0003fffe", `\U0003fffe`, `\U0003fffe`},
		{"replacement character", "\ufffd", "\ufffd", "\ufffd"},
		{"backslash stays", `C:\x1b`, `C:\x1b`, `C:\x1b`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := termsafe.Line(tt.in); got != tt.line {
				t.Errorf("Line(%q) = %q, want %q", tt.in, got, tt.line)
			}
			if got := termsafe.String(tt.in); got != tt.text {
				t.Errorf("String(%q) = %q, want %q", tt.in, got, tt.text)
			}
		})
	}
}

// TestWriterSplits holds that how text is cut into writes does not matter.
func TestWriterSplits(t *testing.T) {
	const in = "a€\x1b[1m日\xe2\x82 \xf0\x9f\x98\x80 end\xe2\x82"
	want := termsafe.String(in)
	for first := 0; first <= len(in); first++ {
		for second := first; second <= len(in); second++ {
			var out bytes.Buffer
			w := termsafe.NewWriter(&out)
			for _, part := range []string{in[:first], in[first:second], in[second:]} {
				if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
					t.Fatalf("Write(%q) = %d, %v", part, n, err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if out.String() != want {
				t.Fatalf("cut at %d and %d: %q, want %q", first, second, out.String(), want)
			}
		}
	}
}

type brokenWriter struct{ err error }

func (b brokenWriter) Write([]byte) (int, error) { return 0, b.err }

func TestWriterReportsErrors(t *testing.T) {
	want := errors.New("gone")
	w := termsafe.NewWriter(brokenWriter{want})
	if _, err := w.Write([]byte("x")); !errors.Is(err, want) {
		t.Errorf("Write: %v, want %v", err, want)
	}
	w = termsafe.NewWriter(brokenWriter{want})
	if _, err := w.Write([]byte("\xe2")); err != nil && !errors.Is(err, want) {
		t.Errorf("Write of a half character: %v", err)
	}
	if err := w.Close(); err != nil && !errors.Is(err, want) {
		t.Errorf("Close: %v", err)
	}
}

func TestTruncate(t *testing.T) {
	tests := []struct {
		name, in string
		width    int
		want     string
	}{
		{"fits", "abc", 3, "abc"},
		{"cut", "abcdef", 4, "abc…"},
		{"one column", "abc", 1, "…"},
		{"no room", "abc", 0, ""},
		{"negative", "abc", -1, ""},
		{"wide fits", "日本", 4, "日本"},
		{"wide is not split", "日本語", 4, "日…"},
		{"combining mark stays", "e\u0301abc", 3, "e\u0301a…"},
		{"escapes count", "\x1b[1mabc", 6, `\x1b[…`},
		{"newline is one line", "a\nb", 10, `a\nb`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := termsafe.Truncate(tt.in, tt.width)
			if got != tt.want {
				t.Errorf("Truncate(%q, %d) = %q, want %q", tt.in, tt.width, got, tt.want)
			}
			if tt.width > 0 {
				if w := termsafe.Width(termsafe.Pad(tt.in, tt.width)); w != tt.width {
					t.Errorf("Pad(%q, %d) is %d wide", tt.in, tt.width, w)
				}
			}
		})
	}
}

func FuzzString(f *testing.F) {
	for _, seed := range []string{"", "a\n\tb", "\x1b[31m\x07", "\u202e\u200b", "\xff\xe2\x82", "日本"} {
		f.Add(seed, 7)
	}
	f.Fuzz(func(t *testing.T, in string, width int) {
		text, line := termsafe.String(in), termsafe.Line(in)
		for _, out := range []string{text, line} {
			if !utf8.ValidString(out) {
				t.Fatalf("invalid UTF-8 from %q: %q", in, out)
			}
		}
		for _, r := range strings.NewReplacer("\n", "", "\t", "").Replace(text) + line {
			if unicode.IsControl(r) || unicode.In(r, unicode.Cf) || !termsafe.Safe(r) {
				t.Fatalf("%q came through from %q", r, in)
			}
		}
		if again := termsafe.Line(line); again != line {
			t.Fatalf("not stable: %q, then %q", line, again)
		}
		var out bytes.Buffer
		w := termsafe.NewWriter(&out)
		cut := min(max(width, 0), len(in))
		w.Write([]byte(in[:cut]))
		w.Write([]byte(in[cut:]))
		w.Close()
		if out.String() != text {
			t.Fatalf("Writer gave %q, String %q", out.String(), text)
		}
		width %= 200
		if cut := termsafe.Truncate(in, width); termsafe.Width(cut) > max(width, 0) {
			t.Fatalf("Truncate(%q, %d) = %q is too wide", in, width, cut)
		}
	})
}

func Example() {
	name := "report\u202efdp.exe"
	fmt.Println(termsafe.Line("could not open " + name + "\x1b[2J"))
	fmt.Println(termsafe.Truncate("a rather long name", 10))
	w := termsafe.NewWriter(os.Stdout)
	fmt.Fprintf(w, "first line\n\x1b]0;title\x07second line\n")
	w.Close()
	// Output:
	// could not open report\u202efdp.exe\x1b[2J
	// a rather …
	// first line
	// \x1b]0;title\x07second line
}
