package hostscan

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestParseConfig compares the parser of configuration with git's own.
func TestParseConfig(t *testing.T) {
	for _, text := range []string{
		"[core]\n\thooksPath = a/b\n", "[CORE] HOOKSPATH=x", "[core]hookspath = \"a b\" ; note\n", "[core]\nhooksPath = a # b\n",
		"[core]\nhooksPath = a\\\n b\n", "[core]\nhooksPath = \"x\\\"y\\\\z\"\n", "[core]\nhooksPath\n", "[core]\n hooksPath =\n",
		"# c\n; d\n[core]\n\n\r\nhooksPath = w \t\n", "[core \"sub\"]\nx = y\n", "[include]\npath = i\n[core]\nbare = false\n",
		"[core]\nhooksPath = a\"b c\"d e\n", "[core]\nhooksPath = one\nhooksPath = two\n", "[a \"]\"]\nb = c\n[core]\nhooksPath = q\n",
		"[core] ; note\nhooksPath = t\\tb\n", "[core]\nhooksPath = \"  keep  \"  \n",
	} {
		cmd := exec.Command("git", "config", "--file", "-", "--no-includes", "--null", "--list")
		cmd.Stdin = strings.NewReader(text)
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("git does not take %q: %v", text, err)
			continue
		}
		var want, got []string
		for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			key, value, _ := strings.Cut(entry, "\n")
			section, rest, _ := strings.Cut(key, ".")
			want = append(want, section+"."+rest[strings.LastIndexByte(rest, '.')+1:]+"="+value)
		}
		for _, s := range parseConfig(text) {
			got = append(got, s.key+"="+s.value)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, git says %q", text, got, want)
		}
	}
}

// FuzzParse verifies that the parsers neither crash nor loop forever on any
// text.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"[core]\nhooksPath = a\\\n", "[", "[\"", "=", "[a]=\"\\", "gitdir: x", "\ufeff[a]b", "\\", "[x]#"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range parseConfig(text) {
			if len(s.value) > len(text) {
				t.Errorf("%q gives %q", text, s.value)
			}
		}
		if p, ok := parsePointer([]byte(text)); ok && (p == "" || strings.ContainsAny(p, "\n\x00")) {
			t.Errorf("%q leads to %q", text, p)
		}
	})
}
