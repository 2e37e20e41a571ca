package config

import (
	"regexp"
	"strings"
	"testing"
)

var formNames = []string{"name", "image", "prefix", "hostRule", "hostTarget", "capability", "gpus", "variable", "hostName", "login"}

// agree complains unless the function and the pattern of every form say the
// same about s.
func agree(t *testing.T, patterns map[string]*regexp.Regexp, s string) {
	t.Helper()
	for name, re := range patterns {
		f, _ := formOf(name)
		if got, want := f.matches(s), re.MatchString(s); got != want {
			t.Errorf("%s: the function says %v of %.80q, the pattern %v", name, got, s, want)
		}
	}
}

func patterns(t testing.TB) map[string]*regexp.Regexp {
	out := map[string]*regexp.Regexp{}
	for _, name := range formNames {
		f, ok := formOf(name)
		if !ok {
			t.Fatalf("no form is called %q", name)
		}
		out[name] = regexp.MustCompile(f.pattern)
	}
	return out
}

// formSamples are made of every byte, alone and at each place of a longer word, and
// of the lengths around each bound.
func formSamples() []string {
	out := []string{"", "*", "*.", "*.a", "**", "a\n", "\n", "é", "all", "allx", "12", "device=", "device=0,1", "device= "}
	for c := range 256 {
		b := string([]byte{byte(c)})
		out = append(out, b, b+"a", "a"+b, "a"+b+"a", "0"+b+"Z", "_"+b, "*."+b, "device="+b)
	}
	for _, n := range []int{1, 2, 3, 4, 13, 14, 15, 31, 32, 33, 63, 64, 65, 199, 200, 201, 252, 253, 254, 255, 256, 257, 271, 272, 273} {
		for _, c := range []string{"a", "0", "A", "_", ".", "-"} {
			w := strings.Repeat(c, n)
			out = append(out, w, "a"+w, "*."+w, "device="+w, w+"a")
		}
	}
	return out
}

// TestFormsAgreeWithTheirPatterns holds that what is checked is what the
// schema and the messages say.
func TestFormsAgreeWithTheirPatterns(t *testing.T) {
	p := patterns(t)
	for _, s := range formSamples() {
		agree(t, p, s)
	}
	if f, ok := formOf("unknown"); ok {
		t.Errorf("an unknown name is a form: %v", f.pattern)
	}
}

func FuzzForms(f *testing.F) {
	p := patterns(f)
	for _, s := range []string{"main", "debian:12", "*.example.org", "device=0", "CAP_CHOWN"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { agree(t, p, s) })
}
