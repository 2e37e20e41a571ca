package workspace

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

func TestCleanName(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"as it is", "photo.jpg", "photo.jpg"},
		{"leads up", "../../x", "x"},
		{"absolute", "/etc/passwd", "passwd"},
		{"the other separator", `C:\Users\a\b.doc`, "b.doc"},
		{"an option", "-rf", "rf"},
		{"an option with a value", "--output=x.png", "output_x.png"},
		{"hidden", ".bashrc", "file.bashrc"},
		{"dots only", "...", "file"},
		{"nothing", "", "file"},
		{"a folder", "a/", "file"},
		{"two lines", "a\nb.txt", "a_b.txt"},
		{"NUL", "a\x00b.txt", "ab.txt"},
		{"escape sequence", "a\x1b[31mb.txt", "a_31mb.txt"},
		{"reordered", "photo\u202egpj.exe", "photogpj.exe"},
		{"invisible", "a\u200bb\ufeff.txt", "ab.txt"},
		{"no UTF-8", "a\xff\xfeb.txt", "a_b.txt"},
		{"shell", "$(rm -rf ~);`x` & 'y' \"z\" *?.txt", "rm_-rf_x_y_z.txt"},
		{"other letters", "Ünïcödé 写真.jpg", "Ünïcödé_写真.jpg"},
		{"marks alone", "\u0301\u0302.jpg", "file.jpg"},
		{"two extensions", "a.tar.gz", "a.tar.gz"},
		{"extension too long", "a.abcdefghijkl", "a.abcdefghijkl"},
		{"extension of other letters", "a.写真", "a.写真"},
		{"ends in a dot", "a.", "a"},
		{"long", strings.Repeat("a", 300) + ".jpg", strings.Repeat("a", 96) + ".jpg"},
		{"long in wide letters", strings.Repeat("写", 300) + ".jpg", strings.Repeat("写", 32) + ".jpg"},
		{"long without end", strings.Repeat("a", 1<<20), strings.Repeat("a", 100)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := cleanName(tt.in).try(0, ""); got != tt.want {
				t.Errorf("cleanName(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestTry(t *testing.T) {
	n := cleanName(strings.Repeat("a", 300) + ".jpg")
	seen := map[string]bool{}
	for i := range maxTries {
		s := n.try(i, "random"+string(rune('a'+i)))
		if len(s) > maxName || !strings.HasSuffix(s, ".jpg") || seen[s] {
			t.Errorf("try(%d) = %q", i, s)
		}
		seen[s] = true
	}
}

func FuzzCleanName(f *testing.F) {
	for _, s := range []string{"a.jpg", "../x", "-rf", "a\nb", "\u202e", ".", "\xff", strings.Repeat("写", 200)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		for i := range maxTries {
			s := cleanName(in).try(i, "abcdefghij")
			switch {
			case s == "" || len(s) > maxName || !utf8.ValidString(s):
				t.Fatalf("%q: bad length or no UTF-8", s)
			case strings.ContainsAny(s, "/\\ \x00\n'\"$`;&|<>*?()[]{}!#~%^=,:") || strings.ContainsAny(s[:1], ".-_+@"):
				t.Fatalf("%q holds or begins with what it must not", s)
			case termsafe.Line(s) != s:
				t.Fatalf("%q cannot be shown", s)
			}
		}
	})
}

func TestSniff(t *testing.T) {
	for in, want := range map[string]string{
		"":                                mimeBinary,
		"hello\n":                         mimeText,
		"BMW is a car":                    mimeText,
		"BM\x00\x00":                      "image/bmp",
		"<svg onload=x>":                  mimeText,
		"\xff\xd8\xff\xe0":                "image/jpeg",
		"GIF89a\x01\x02":                  "image/gif",
		"RIFF\x00\x00\x00\x00WEBPVP8 ":    "image/webp",
		"RIFF\x00\x00\x00\x00WAVEfmt ":    "audio/wav",
		"RIFF":                            mimeText,
		"\x00\x00\x00\x18ftypmp42":        "video/mp4",
		"\x00\x00\x00\x18ftypheic":        "image/heic",
		"\x00\x00\x00\x18ftypM4A ":        "audio/mp4",
		"%PDF-1.7":                        "application/pdf",
		"PK\x03\x04":                      "application/zip",
		"OggS\x00":                        "audio/ogg",
		"\x1aE\xdf\xa3":                   "video/webm",
		"ID3\x04":                         "audio/mpeg",
		"\x7fELF\x02":                     mimeBinary,
		"a\x00b":                          mimeBinary,
		"caf\xc3":                         mimeText, // cut in a character
		"caf\xc3(":                        mimeBinary,
		strings.Repeat("a", 511) + "\xe5": mimeText,
	} {
		if got := sniff([]byte(in)); got != want {
			t.Errorf("sniff(%q) = %s, want %s", in, got, want)
		}
	}
}
